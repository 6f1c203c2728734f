#![expect(unsafe_code, reason = "exports C functions, one of which reads a text of its caller's")]
//! What the allocator did and holds, as a file that PyTorch's viewer opens.

use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use c10_cuda::alloc::History;

use crate::failure::{Failure, code};
use crate::world::world;

/// `int tensorplay_cuda_record_history(uint64_t max_entries)`: keeps the newest `max_entries` things that the
/// allocator does, for snapshots; 0 ends that and forgets them.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_record_history(max_entries: u64) -> c_int {
    code(|| {
        let max_entries = usize::try_from(max_entries)
            .map_err(|_| Failure::invalid(format!("{max_entries} entries cannot be kept")))?;
        let history = (max_entries > 0).then(|| History { max_entries, ..History::default() });
        world()?.cuda.record_history(history);
        Ok(())
    })
}

/// `int tensorplay_cuda_snapshot(const char *path)`: writes what the allocator holds, and the history that was
/// recorded, as `torch.cuda.memory._dump_snapshot` does. A file that is there is overwritten.
///
/// # Safety
/// `path` is null, which is refused, or a text that ends in 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tensorplay_cuda_snapshot(path: *const c_char) -> c_int {
    code(|| {
        if path.is_null() {
            return Err(Failure::invalid("the snapshot has no place to go"));
        }
        // SAFETY: the caller gives a text that ends in 0.
        let path = unsafe { CStr::from_ptr(path) };
        let path = path.to_str().map_err(|_| Failure::invalid("the path is no UTF-8"))?;
        let snapshot = world()?.cuda.snapshot(true);
        let write = |path: &Path| {
            let mut file = BufWriter::new(File::create(path)?);
            snapshot.write_pickle(&mut file)?;
            file.flush()
        };
        write(path.as_ref()).map_err(|error| Failure::file(format!("{path}: {error}")))
    })
}
