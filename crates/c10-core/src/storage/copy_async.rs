#![expect(unsafe_code, reason = "enqueues copies of memory that stays until they are done")]
//! [`Storage::copy_from_async`]: a copy that is enqueued and not waited for.
//!
//! The device's memory is kept for it by `record_stream`. The host's gets a pending use, for which host guards
//! wait. It is registered while access is held, so that nobody gets between.

use std::sync::Arc;

use super::Storage;
use super::access::{Access, AccessOptions, AccessSet, PendingUse};
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{Place, require_hooks};
use crate::stream::Stream;

impl Storage {
    /// Enqueues a copy of all bytes of `src`, of which there are as many as of this storage's, on a stream of the
    /// device that one or both are on (`copy_(non_blocking=True)`). It returns before the copy is done: whoever
    /// uses the host's side waits for it, whoever uses the device's side does so in stream order.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the sizes differ, both are one storage, neither is of the stream's
    /// type, or the hooks cannot reach the memory; [`ErrorKind::DeviceUnavailable`] when the stream's type has no
    /// hooks; else as [`Access::acquire`], and what the device reports. Nothing was enqueued then.
    pub fn copy_from_async(&self, src: &Self, stream: Stream) -> Result<()> {
        let hooks = require_hooks(stream.device_type())?;
        if self.is_same(src) {
            return Err(Error::invalid_argument("a storage cannot be copied to itself"));
        }
        let options = AccessOptions { host: false, ..AccessOptions::default() };
        let mut set = Access::acquire_with(&[src], &[self], options)?;
        let ((to, to_bytes), (from, bytes)) = (set.write_ptr(0)?, set.read_ptr(0)?);
        if to_bytes != bytes {
            return Err(Error::invalid_argument(format!(
                "{bytes} bytes cannot be copied to a storage of {to_bytes}"
            )));
        }
        if ![self, src].iter().any(|side| side.device_type() == stream.device_type()) {
            return Err(Error::invalid_argument(format!(
                "neither storage is on the type of device of {stream}"
            )));
        }
        for side in [self, src] {
            hooks.check_reachable(side.as_impl().pin_owner().original())?;
        }
        if bytes == 0 {
            return Ok(());
        }
        // Before the copy, so that no failure leaves one that uses freed memory.
        self.record_stream(stream)?;
        src.record_stream(stream)?;
        let dst = Place { address: to, device: self.device() };
        let from = Place { address: from.cast_mut(), device: src.device() };
        let mut end = AtEnd { set: &set, sides: [src, self], use_: Use::Lost(stream) };
        // SAFETY: both are the memory of locked storages, which are two and so do not overlap. Of a device it is
        // not given out anew before the stream is done, as was just recorded; of the host it has a pending use
        // before access ends, also after a panic: `end` is dropped before `set`.
        let enqueued = unsafe { hooks.copy(dst, from, bytes, stream) };
        end.use_ = match enqueued {
            Err(_) => Use::Ended,
            Ok(()) if end.is_on_devices() => Use::Ended,
            // The copy is under way, and is waited for here where it cannot be told of.
            Ok(()) => match hooks.work_of_stream(stream) {
                Ok(work) => Use::Until(work),
                Err(_) if hooks.synchronize_stream(stream).is_ok() => Use::Ended,
                Err(_) => Use::Lost(stream),
            },
        };
        enqueued
    }
}

/// What the copy's use of host memory is.
#[derive(Debug)]
enum Use {
    Ended,
    Until(Arc<dyn PendingUse>),
    Lost(Stream),
}

/// Registers the use with the sides that are the host's, when it is dropped.
#[derive(Debug)]
struct AtEnd<'a> {
    set: &'a AccessSet<'a>,
    /// Source and destination.
    sides: [&'a Storage; 2],
    use_: Use,
}

impl AtEnd<'_> {
    fn is_on_devices(&self) -> bool {
        self.sides.iter().all(|side| !side.device().is_cpu())
    }
}

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        let work: Arc<dyn PendingUse> = match &self.use_ {
            Use::Ended => return,
            Use::Until(work) => Arc::clone(work),
            Use::Lost(stream) => Arc::new(Lost(*stream)),
        };
        // The set was acquired for a device and has these operands, so that neither is refused.
        if self.sides[0].device().is_cpu() {
            let _ = self.set.defer_read(0, Arc::clone(&work));
        }
        if self.sides[1].device().is_cpu() {
            let _ = self.set.defer_write(0, work);
        }
    }
}

/// Work that nobody can wait for: the memory is never touched or freed by the host.
#[derive(Debug)]
struct Lost(Stream);

impl Lost {
    fn error(&self) -> Error {
        Error::new(
            ErrorKind::Driver,
            format!("a copy on {} uses the memory, and cannot be waited for", self.0),
        )
    }
}

// SAFETY: it never says that the work has ended.
unsafe impl PendingUse for Lost {
    fn is_done(&self) -> Result<bool> {
        Err(self.error())
    }

    fn wait(&self) -> Result<()> {
        Err(self.error())
    }
}
