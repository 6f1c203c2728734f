//! The files behind mapped memory: unlinked temporary ones, and files of a new size that the disk has room for.

use std::fs::File;
use std::io;

use cap_std::fs::Dir;

/// A new empty file in `dir` without a name, so that nobody else can open it and it goes with its last user.
pub(super) fn unlinked(dir: &Dir) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    if let Some(file) = born_unlinked(dir)? {
        return Ok(file);
    }
    named_then_unlinked(dir)
}

/// Makes `file` at least `new` bytes long, and gives the length that it had. Bytes beyond that are zero, and have
/// their place on the disk where the file system can say so: otherwise a full disk would end the process at the
/// first write to a page. On an error the file has its old length.
///
/// It is never made shorter: it may have grown by another mapping, whose pages would be gone.
pub(super) fn extend(file: &File, new: u64) -> io::Result<u64> {
    let old = file.metadata()?.len();
    if old < new {
        file.set_len(new)?;
        allocate_place(file, old, new).inspect_err(|_| {
            // If this fails too, the file is longer than it was, and nothing else is different.
            let _ = file.set_len(old);
        })?;
    }
    Ok(old)
}

/// Whether an error means that there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, InvalidInput, OutOfMemory, QuotaExceeded, StorageFull};
    // `InvalidInput`: a size that no file can have.
    matches!(error.kind(), FileTooLarge | InvalidInput | OutOfMemory | QuotaExceeded | StorageFull)
}

#[cfg(target_os = "linux")]
fn allocate_place(file: &File, old: u64, new: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
    use rustix::io::Errno;
    // A request that cannot be met would first take all the room there is. A file system of no blocks has no
    // bound, or does not say.
    let fs = fstatvfs(file)?;
    if fs.f_blocks > 0 && new - old > fs.f_bavail.saturating_mul(fs.f_frsize) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    loop {
        return match fallocate(file, FallocateFlags::empty(), old, new - old) {
            Err(Errno::INTR) => continue,
            // Not every file system has it.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            outcome => Ok(outcome?),
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate_place(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}

/// `None` where the file system cannot do it.
#[cfg(target_os = "linux")]
fn born_unlinked(dir: &Dir) -> io::Result<Option<File>> {
    use rustix::fs::{Mode, OFlags, openat};
    use rustix::io::Errno;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(dir, c".", flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn named_then_unlinked(dir: &Dir) -> io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut options = cap_std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
    loop {
        let name = format!(".c10-{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        match dir.open_with(&name, &options) {
            Ok(file) => {
                dir.remove_file(&name)?;
                return Ok(file.into_std());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}
