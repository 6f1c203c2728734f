//! What processes share: files that hold a device's bytes or an event's state.
//!
//! The bytes of exported memory lie in a file from then on, and each process that opens it has a machine whose memory
//! lies there too. Files by name stand in `/dev/shm`, or else where temporary files do; whoever exports removes them
//! when the memory or the event ends, at a reset, and when the process ends, unless it is killed. A device's bytes are
//! stored each with [`POISON`] taken off by exclusive or: what nobody has written is a hole in the file, and reads as
//! it does in memory that is not shared.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use c10_cuda::driver::sim::{POISON, SharedBytes};

use crate::abi::layout::IpcBytes;
use crate::abi::{Code, Outcome};

/// The first bytes of a handle: what it stands for.
const MEMORY: [u8; 8] = *b"standmem";
const EVENT: [u8; 8] = *b"standevt";
/// The first bytes of what stands in a file behind a memory's bytes.
const TRAILER: [u8; 8] = *b"standphy";
const TRAILER_BYTES: u64 = 24;

/// A device's bytes in a file.
#[derive(Debug)]
pub(crate) struct FileBytes(File);

impl FileBytes {
    pub(crate) const fn new(file: File) -> Self {
        Self(file)
    }
}

impl SharedBytes for FileBytes {
    fn read_at(&self, offset: u64, out: &mut [u8]) {
        // What the file does not have reads as what nobody has written.
        out.fill(0);
        let mut done = 0;
        while let Ok(read @ 1..) = self.0.read_at(&mut out[done..], offset + done as u64) {
            done += read;
        }
        out.iter_mut().for_each(|byte| *byte ^= POISON);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) {
        let stored: Vec<u8> = bytes.iter().map(|byte| byte ^ POISON).collect();
        // A full disk leaves the bytes as they were; there is nobody to tell.
        let _failed = self.0.write_all_at(&stored, offset);
    }
}

/// The names of the files that this process has made and not removed.
static NAMED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn named() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes them all: the process ends.
pub(crate) fn remove_all() {
    for path in std::mem::take(&mut *named()) {
        let _gone = fs::remove_file(path);
    }
}

/// A file with a name that other processes find; its name ends with this value.
#[derive(Debug)]
pub(crate) struct NamedFile {
    path: PathBuf,
    pub(crate) file: Arc<File>,
}

impl NamedFile {
    /// A new file of this process.
    fn create(number: u64) -> Outcome<Self> {
        let path = path_of(std::process::id(), number);
        // One of that name is of a process that had the same number and was killed.
        let _gone = fs::remove_file(&path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = Arc::new(file.map_err(|_| Code::OPERATING_SYSTEM)?);
        named().insert(path.clone());
        Ok(Self { path, file })
    }
}

impl Drop for NamedFile {
    fn drop(&mut self) {
        if named().remove(&self.path) {
            let _gone = fs::remove_file(&self.path);
        }
    }
}

fn path_of(process: u32, number: u64) -> PathBuf {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() };
    folder.join(format!("cuda-standin-{process}-{number}"))
}

/// What a handle of memory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryTicket {
    pub(crate) process: u32,
    pub(crate) device: u32,
    number: u64,
    pub(crate) bytes: u64,
}

fn put_words(kind: [u8; 8], words: [u64; 4]) -> IpcBytes {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&kind);
    for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    IpcBytes(bytes)
}

/// The words of a handle, if it is of that kind.
fn words(kind: [u8; 8], handle: &IpcBytes) -> Outcome<[u64; 4]> {
    let (head, rest) = handle.0.split_at(8);
    if head != kind {
        return Err(Code::INVALID_VALUE);
    }
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(rest.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().map_err(|_| Code::INVALID_VALUE)?);
    }
    Ok(words)
}

impl MemoryTicket {
    /// A ticket of this process, and the file that it leads to.
    pub(crate) fn create(device: u32, bytes: u64, number: u64) -> Outcome<(Self, NamedFile)> {
        let file = NamedFile::create(number)?;
        Ok((Self { process: std::process::id(), device, number, bytes }, file))
    }

    pub(crate) fn to_handle(self) -> IpcBytes {
        put_words(MEMORY, [u64::from(self.process), u64::from(self.device), self.number, self.bytes])
    }

    pub(crate) fn of_handle(handle: &IpcBytes) -> Outcome<Self> {
        let [process, device, number, bytes] = words(MEMORY, handle)?;
        let narrow = |word: u64| u32::try_from(word).map_err(|_| Code::INVALID_VALUE);
        Ok(Self { process: narrow(process)?, device: narrow(device)?, number, bytes })
    }

    /// The memory's file, while whoever exported it keeps it.
    pub(crate) fn open(self) -> Outcome<FileBytes> {
        open(self.process, self.number).map(FileBytes)
    }
}

fn open(process: u32, number: u64) -> Outcome<File> {
    let file = OpenOptions::new().read(true).write(true).open(path_of(process, number));
    file.map_err(|_| Code::INVALID_VALUE)
}

/// What other processes see of an event: how often it has been recorded, and up to which of these its work is over.
#[derive(Debug)]
pub(crate) struct SharedEvent {
    file: Arc<File>,
    /// The file's name, in the process that exported the event.
    named: Option<(NamedFile, u64)>,
    /// The last record that this process made.
    own: u64,
}

const RECORDED: u64 = 0;
const COMPLETED: u64 = 8;

fn counter(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).map_or(0, |()| u64::from_le_bytes(bytes))
}

fn set_counter(file: &File, at: u64, value: u64) -> Outcome {
    file.write_all_at(&value.to_le_bytes(), at).map_err(|_| Code::OPERATING_SYSTEM)
}

/// What runs behind a record and tells that its work is over.
#[derive(Debug)]
pub(crate) struct Completion {
    file: Arc<File>,
    /// `None` for a record in a graph: a new one each time.
    place: Option<u64>,
}

impl Completion {
    pub(crate) fn tell(&self) {
        let place = self.place.unwrap_or_else(|| {
            let next = counter(&self.file, RECORDED) + 1;
            let _full = set_counter(&self.file, RECORDED, next);
            next
        });
        let over = counter(&self.file, COMPLETED).max(place);
        let _full = set_counter(&self.file, COMPLETED, over);
    }
}

impl SharedEvent {
    /// An event that this process exports, with nothing to wait for.
    pub(crate) fn export(number: u64) -> Outcome<Self> {
        let named = NamedFile::create(number)?;
        let file = Arc::clone(&named.file);
        set_counter(&file, RECORDED, 0)?;
        set_counter(&file, COMPLETED, 0)?;
        Ok(Self { file, named: Some((named, number)), own: 0 })
    }

    /// The handle by which others open it; only whoever made the event can give one.
    pub(crate) fn to_handle(&self) -> Outcome<IpcBytes> {
        let (_, number) = self.named.as_ref().ok_or(Code::INVALID_HANDLE)?;
        Ok(put_words(EVENT, [u64::from(std::process::id()), *number, 0, 0]))
    }

    /// Another process's event.
    pub(crate) fn of_handle(handle: &IpcBytes) -> Outcome<Self> {
        let [process, number, ..] = words(EVENT, handle)?;
        let process = u32::try_from(process).map_err(|_| Code::INVALID_VALUE)?;
        if process == std::process::id() {
            return Err(Code::INVALID_CONTEXT);
        }
        Ok(Self { file: Arc::new(open(process, number)?), named: None, own: 0 })
    }

    /// This process records it: what has to run behind the record.
    pub(crate) fn record(&mut self) -> Outcome<Completion> {
        self.own = counter(&self.file, RECORDED) + 1;
        set_counter(&self.file, RECORDED, self.own)?;
        Ok(Completion { file: Arc::clone(&self.file), place: Some(self.own) })
    }

    /// What has to run behind a record in a graph.
    pub(crate) fn record_in_graph(&self) -> Completion {
        Completion { file: Arc::clone(&self.file), place: None }
    }

    /// Whether its work is over; `None` where this process was the last to record it, and knows by itself.
    pub(crate) fn ready_elsewhere(&self) -> Option<bool> {
        let recorded = counter(&self.file, RECORDED);
        (recorded != self.own).then(|| counter(&self.file, COMPLETED) >= recorded)
    }
}

/// A nameless file for `bytes` bytes of physical memory, with what they are behind them.
pub(crate) fn physical_file(device: u32, bytes: u64) -> Outcome<File> {
    let file = nameless_file().map_err(|_| Code::OPERATING_SYSTEM)?;
    let mut trailer = [0; TRAILER_BYTES as usize];
    trailer[..8].copy_from_slice(&TRAILER);
    trailer[8..16].copy_from_slice(&u64::from(device).to_le_bytes());
    trailer[16..].copy_from_slice(&bytes.to_le_bytes());
    file.write_all_at(&trailer, bytes).map_err(|_| Code::OPERATING_SYSTEM)?;
    Ok(file)
}

/// The device and the size of the memory that a file holds, if it is one of [`physical_file`].
pub(crate) fn physical_of(file: &File) -> Outcome<(u32, u64)> {
    let length = file.metadata().map_err(|_| Code::INVALID_VALUE)?.len();
    let bytes = length.checked_sub(TRAILER_BYTES).ok_or(Code::INVALID_VALUE)?;
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut trailer, bytes).map_err(|_| Code::INVALID_VALUE)?;
    let word =
        |at: usize| trailer[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let device = u32::try_from(word(8)).map_err(|_| Code::INVALID_VALUE)?;
    if trailer[..8] == TRAILER && word(16) == bytes { Ok((device, bytes)) } else { Err(Code::INVALID_VALUE) }
}

#[cfg(target_os = "linux")]
fn nameless_file() -> io::Result<File> {
    let file = rustix::fs::memfd_create("cuda-standin", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(file))
}

#[cfg(not(target_os = "linux"))]
fn nameless_file() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
