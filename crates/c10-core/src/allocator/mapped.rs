#![expect(unsafe_code, reason = "maps files, and pairs the mappings with the deleter that ends them")]
//! [`MappedFile`]: files as memory.
//!
//! Mapping a *named* file is `unsafe`, since others can reach the file: whoever maps it answers for what they
//! do. A [temporary](MappedFile::temporary) file has no name and is nobody else's, and [`read_file`] copies a
//! file into memory; these are safe.
//!
//! All names are resolved in a [`ConfinedRoot`].
//!
//! After a `fork` parent and child share what is mapped [shared](MapMode::Shared), which temporary files are:
//! one of the two must leave it alone.
//!
//! A mapping grows through whoever holds it alone: [`MappedFile::grow`] takes `&mut self`, and what has become
//! a [`DataPtr`] is taken back with [`MappedFile::from_data_ptr`]. Its address may change.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read};
use std::ptr::{self, NonNull};
use std::slice;

use cap_std::fs::OpenOptions;
use memmap2::{MmapOptions, MmapRaw};

use super::backing;
use super::confine::{ConfinedRoot, io_error, quoted_name};
use super::{Allocator, default_copy_data};
use crate::data_ptr::{DataPtr, DeleterEntry, same_deleter};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::reporting::{MemoryEvent, report};
use crate::sync::global::atomic::{AtomicU64, Ordering};
use crate::sync::global::{Mutex, PoisonError};

/// What a mapping does with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapMode {
    /// The memory cannot be written.
    ReadOnly,
    /// Writes stay in the memory; the file does not change (`torch.from_file(shared=False)`).
    Private,
    /// Writes reach the file (`torch.from_file(shared=True)`).
    Shared,
}

/// Memory of a known size that a storage takes over ([`Storage::from_mapped`](crate::Storage::from_mapped)).
#[derive(Debug)]
pub struct Mapped {
    ptr: DataPtr,
    bytes: usize,
    read_only: bool,
}

impl Mapped {
    /// The memory's owner.
    pub fn data_ptr(&self) -> &DataPtr {
        &self.ptr
    }

    /// The memory's owner alone, without its size.
    pub fn into_data_ptr(self) -> DataPtr {
        self.ptr
    }

    /// How many bytes there are.
    pub fn nbytes(&self) -> usize {
        self.bytes
    }

    /// Whether the memory cannot be written.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

/// A mapped file, until its end. [`into_mapped`](Self::into_mapped) makes memory of it.
#[derive(Debug)]
pub struct MappedFile {
    /// `None` for no bytes, which cannot be mapped.
    map: Option<MmapRaw>,
    bytes: usize,
    mode: MapMode,
    /// What grows with the mapping: of a shared one.
    file: Option<File>,
}

/// The bytes of all mappings of the process.
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

/// Held while a file is made longer: two mappings of one file could each make it shorter under the other.
static GROWING: Mutex<()> = Mutex::new(());

static UNMAP: DeleterEntry = DeleterEntry::new("mapped_file", unmap);

impl MappedFile {
    /// Maps the whole of the file that `name` stands for in `root`.
    ///
    /// # Safety
    /// As long as the mapping lives, and memory made of it: nobody, in this process or another, makes the file
    /// shorter. Nobody writes to it, by its name or through another mapping, except while no reference to the
    /// memory is held; and whoever writes a shared mapping answers for those who read the file.
    ///
    /// # Errors
    /// [`ErrorKind::Confined`] when the name leads out of the root; [`ErrorKind::InvalidArgument`] when it names
    /// nothing, or no regular file; [`ErrorKind::Io`] when the system refuses; [`ErrorKind::Overflow`] when the
    /// file is larger than memory can be.
    pub unsafe fn open(root: &ConfinedRoot, name: &str, mode: MapMode) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode == MapMode::Shared);
        let file = root.open_file(name, &mut options)?.into_std();
        let bytes = file_bytes(&file, name)?;
        // SAFETY: the caller answers for what becomes of the file.
        let map = unsafe { map(&file, bytes, mode) };
        let map = map.map_err(|e| io_error(format!("cannot map {}", quoted_name(name)), e))?;
        Ok(Self::new(map, bytes, mode, (mode == MapMode::Shared).then_some(file)))
    }

    /// Makes a new file of `bytes` zeros and maps it shared.
    ///
    /// # Safety
    /// As [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::Io`] also when there is a file of that name;
    /// [`ErrorKind::OutOfMemory`] when the disk has no room.
    pub unsafe fn create(root: &ConfinedRoot, name: &str, bytes: usize) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = root.open_file(name, &mut options)?.into_std();
        Self::fill(file, bytes).inspect_err(|_| {
            if let Ok(path) = root.resolve(name) {
                let _ = root.dir().remove_file(path);
            }
        })
    }

    /// Maps `bytes` zeros of a new file without a name, in the directory `root`. The file goes with the mapping.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the system refuses; [`ErrorKind::OutOfMemory`] when the disk has no room.
    pub fn temporary(root: &ConfinedRoot, bytes: usize) -> Result<Self> {
        let file = backing::unlinked(root.dir()).map_err(|e| {
            io_error(format!("cannot make a temporary file in '{}'", root.path().display()), e)
        })?;
        Self::fill(file, bytes)
    }

    /// Takes back what [`into_mapped`](Self::into_mapped) gave, or returns memory that is something else.
    ///
    /// # Errors
    /// `ptr` itself, when it is not a mapped file's.
    pub fn from_data_ptr(mut ptr: DataPtr) -> Result<Self, DataPtr> {
        if !same_deleter(ptr.deleter(), &UNMAP) || ptr.context().is_null() {
            return Err(ptr);
        }
        let context = ptr.release_context().cast::<Self>();
        // SAFETY: `into_mapped` made the context from such a box, and the deleter will not run on it any more.
        Ok(*unsafe { Box::from_raw(context) })
    }

    /// The mapped file behind a pointer, through any adaptors, if there is one.
    pub fn of(ptr: &DataPtr) -> Option<&Self> {
        let root = ptr.root();
        // SAFETY: only `into_mapped` pairs this deleter with a context, which is then a boxed `MappedFile`.
        let file = unsafe { root.cast_context::<Self>(&UNMAP) }?;
        // SAFETY: the box lives until the deleter runs, which cannot be while `ptr` is borrowed, and is only
        // read until then.
        Some(unsafe { file.as_ref() })
    }

    /// Makes the mapping longer; all addresses change. A shared mapping's file grows with it, unless it is as long
    /// already, and the new bytes are what it holds there, else zero. A private mapping's file does not: its bytes
    /// move to memory without a file, which its writes never reached anyway, and the new ones are zero.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`] of a read-only mapping; [`ErrorKind::InvalidArgument`] when `bytes` is less than
    /// now; [`ErrorKind::OutOfMemory`] when there is no room; [`ErrorKind::Io`] when the system refuses.
    /// Nothing changes then.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        let old = self.bytes;
        if self.is_read_only() {
            return Err(Error::new(ErrorKind::ReadOnly, "a file that is mapped read-only does not grow"));
        }
        if bytes < old {
            return Err(Error::invalid_argument(format!(
                "a mapped file only grows: it has {old} bytes, and {bytes} were asked for"
            )));
        }
        if bytes == old {
            return Ok(());
        }
        let map = match &self.file {
            Some(file) => {
                let _others_wait = GROWING.lock().unwrap_or_else(PoisonError::into_inner);
                map_extended(file, bytes)
            }
            None => self.copy_to_anonymous(bytes),
        };
        let map = map.map_err(|e| size_error(bytes, e))?;
        let grown = Self { map, bytes, mode: self.mode, file: self.file.take() };
        grown.count(true);
        *self = grown;
        Ok(())
    }

    /// Memory that owns the mapping, for a storage.
    pub fn into_mapped(self) -> Mapped {
        let (bytes, read_only) = (self.bytes, self.is_read_only());
        let data = self.as_ptr();
        let context = Box::into_raw(Box::new(self));
        // SAFETY: the mapping in the box is valid, initialised by its file, until `unmap` drops it, on whatever
        // thread; moving it into the box moved no byte of it.
        let ptr = unsafe { DataPtr::new(data, context.cast(), &UNMAP, Device::CPU) };
        Mapped { ptr, bytes, read_only }
    }

    /// The bytes of all mappings of the process.
    pub fn live_bytes() -> u64 {
        LIVE_BYTES.load(Ordering::Relaxed)
    }

    /// The address of the first byte; null when there are none.
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_ref().map_or(ptr::null_mut(), MmapRaw::as_mut_ptr)
    }

    /// How many bytes are mapped.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether no bytes are mapped.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What the mapping does with its file.
    pub fn mode(&self) -> MapMode {
        self.mode
    }

    /// Whether the memory cannot be written.
    pub fn is_read_only(&self) -> bool {
        self.mode == MapMode::ReadOnly
    }

    /// Waits until what was written to a shared mapping is on the disk. Nothing to do for the other modes.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the system fails to.
    pub fn flush(&self) -> Result<()> {
        match &self.map {
            Some(map) if self.mode == MapMode::Shared => {
                map.flush().map_err(|e| io_error("cannot write a mapped file to the disk".into(), e))
            }
            _ => Ok(()),
        }
    }

    fn new(map: Option<MmapRaw>, bytes: usize, mode: MapMode, file: Option<File>) -> Self {
        let file = Self { map, bytes, mode, file };
        file.count(true);
        file
    }

    /// A shared mapping of an empty file, made `bytes` long.
    fn fill(file: File, bytes: usize) -> Result<Self> {
        let map = map_extended(&file, bytes).map_err(|e| size_error(bytes, e))?;
        Ok(Self::new(map, bytes, MapMode::Shared, Some(file)))
    }

    fn copy_to_anonymous(&self, bytes: usize) -> io::Result<Option<MmapRaw>> {
        mappable(bytes)?;
        let new = MmapRaw::from(MmapOptions::new().len(bytes).map_anon()?);
        if !self.is_empty() {
            // SAFETY: both mappings have `self.bytes` bytes, they are apart, and `&mut self` of `grow` is the
            // only way to the old one.
            unsafe { default_copy_data(new.as_mut_ptr(), self.as_ptr(), self.bytes) };
        }
        Ok(Some(new))
    }

    /// Counts the mapping as begun or ended, and says so to observers.
    fn count(&self, begun: bool) {
        let bytes = self.bytes as u64;
        if bytes == 0 {
            return;
        }
        let live = if begun {
            LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes
        } else {
            LIVE_BYTES.fetch_sub(bytes, Ordering::Relaxed) - bytes
        };
        report(|| MemoryEvent {
            address: self.as_ptr().addr(),
            bytes: if begun { self.bytes as i64 } else { -(self.bytes as i64) },
            total_allocated: live,
            total_reserved: live,
            device: Device::CPU,
        });
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // Before the address can be another's.
        self.count(false);
    }
}

/// Reads the file that `name` stands for in `root` into memory of `allocator`.
///
/// # Errors
/// As [`MappedFile::open`]; [`ErrorKind::InvalidArgument`] when the allocator's memory is not the host's;
/// what the allocator reports.
pub fn read_file(root: &ConfinedRoot, name: &str, allocator: &dyn Allocator) -> Result<Mapped> {
    if !allocator.device().is_cpu() {
        return Err(Error::invalid_argument(format!(
            "a file is read into host memory, and the allocator's is on {}",
            allocator.device()
        )));
    }
    let mut file = root.open_file(name, OpenOptions::new().read(true))?.into_std();
    let bytes = file_bytes(&file, name)?;
    let ptr = allocator.allocate(bytes)?;
    if bytes > 0 {
        // SAFETY: the allocator gave `bytes` initialised bytes that are nobody else's.
        let memory = unsafe { slice::from_raw_parts_mut(ptr.as_ptr(), bytes) };
        file.read_exact(memory).map_err(|e| io_error(format!("cannot read {}", quoted_name(name)), e))?;
    }
    Ok(Mapped { ptr, bytes, read_only: false })
}

unsafe fn unmap(context: *mut c_void) {
    let context = NonNull::new(context.cast::<MappedFile>()).expect("a deleter is not run on null");
    // SAFETY: `into_mapped` made the context from a box of this type, and a deleter runs once.
    drop(unsafe { Box::from_raw(context.as_ptr()) });
}

fn file_bytes(file: &File, name: &str) -> Result<usize> {
    let name = quoted_name(name);
    let metadata = file.metadata().map_err(|e| io_error(format!("cannot ask for the size of {name}"), e))?;
    isize::try_from(metadata.len()).map(isize::cast_unsigned).map_err(|_| {
        Error::new(ErrorKind::Overflow, format!("{name} has {} bytes, too many to map", metadata.len()))
    })
}

/// # Safety
/// As [`MappedFile::open`], of a private mapping: nobody makes the file shorter or writes it.
unsafe fn map(file: &File, bytes: usize, mode: MapMode) -> io::Result<Option<MmapRaw>> {
    if bytes == 0 {
        return Ok(None);
    }
    let mut options = MmapOptions::new();
    options.len(bytes);
    match mode {
        MapMode::ReadOnly => options.map_raw_read_only(file),
        // SAFETY: the caller's duty is the same.
        MapMode::Private => unsafe { options.map_copy(file) }.map(MmapRaw::from),
        MapMode::Shared => options.map_raw(file),
    }
    .map(Some)
}

/// Maps the first `bytes` bytes of a file shared, and makes it as long before if it is shorter.
fn map_extended(file: &File, bytes: usize) -> io::Result<Option<MmapRaw>> {
    if bytes == 0 {
        return Ok(None);
    }
    let end = mappable(bytes)?;
    let old = backing::extend(file, end)?;
    MmapOptions::new().len(bytes).map_raw(file).map(Some).inspect_err(|_| {
        if old < end {
            // As in `extend`: at worst the file stays longer than it was.
            let _ = file.set_len(old);
        }
    })
}

/// The size, if memory and files can be so large at all.
fn mappable(bytes: usize) -> io::Result<u64> {
    isize::try_from(bytes).map(|bytes| bytes as u64).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

#[cold]
fn size_error(bytes: usize, error: io::Error) -> Error {
    if backing::is_full(&error) {
        let message = format!("no room to map {bytes} bytes: {error}");
        return Error::out_of_memory(bytes as u64, message).with_source(error);
    }
    io_error(format!("cannot map {bytes} bytes"), error)
}
