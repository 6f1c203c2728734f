#![expect(unsafe_code, reason = "tells the driver of streams that somebody else made")]
//! [`BorrowedStream`]: a stream of cudarc's that the allocator knows.

use std::ops::Deref;
use std::sync::Arc;

use c10_core::{DeviceIndex, Stream};
use c10_cuda::Runtime;
use c10_cuda::driver::StreamHandle;
use cudarc::driver::CudaStream;

use crate::Result;

/// A stream that cudarc made and ends. The driver has been told of it, and is told of its end before that comes.
/// Blocks that were used on it may outlive it.
#[derive(Debug)]
pub struct BorrowedStream {
    runtime: Runtime,
    known_as: Stream,
    stream: Arc<CudaStream>,
}

impl BorrowedStream {
    /// Tells the driver of a runtime of the stream.
    ///
    /// # Errors
    /// The stream is of another context than the device's primary one, in which the runtime's memory is; what the
    /// driver reports.
    pub fn new(runtime: &Runtime, stream: Arc<CudaStream>) -> Result<Self> {
        let context = stream.context();
        if !context.is_primary() {
            return Err(
                "the stream is of a context of its own, and the memory of the device's primary context"
                    .into(),
            );
        }
        let device = DeviceIndex::try_from(context.ordinal())?;
        let handle = StreamHandle { device, raw: stream.cu_stream().addr() as u64 };
        // SAFETY: it is of the primary context, and lives until this has given it back, since this holds it.
        let known_as = unsafe { runtime.adopt_stream(handle) }?;
        Ok(Self { runtime: runtime.clone(), known_as, stream })
    }

    /// By this the allocator knows it.
    pub fn stream(&self) -> Stream {
        self.known_as
    }
}

impl Deref for BorrowedStream {
    type Target = Arc<CudaStream>;

    fn deref(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

impl Drop for BorrowedStream {
    fn drop(&mut self) {
        // A driver that is gone knows no streams.
        let _ = self.runtime.disown_stream(self.known_as);
    }
}
