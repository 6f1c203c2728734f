//! [`AsStream`]: what calls take that want a stream.

use c10_core::Stream;

use super::CudaStream;
use crate::driver::StreamHandle;
use crate::runtime::Runtime;

/// A stream, as calls take it: a plain [`Stream`], which is looked up, or a [`CudaStream`], which knows its handle and
/// is refused where it is of another runtime. References will do.
///
/// ```
/// use c10_cuda::driver::sim::{SimConfig, SimDriver};
/// use c10_cuda::{CudaStream, Runtime};
///
/// let runtime = Runtime::new(SimDriver::new(SimConfig::with_bytes(1 << 30)));
/// let stream = CudaStream::from_pool(&runtime, 0, 0)?;
/// assert_eq!(runtime.handle(&stream)?, runtime.handle(stream.stream())?);
/// # Ok::<(), c10_cuda::Error>(())
/// ```
pub trait AsStream: sealed::Sealed {
    /// The plain value.
    fn as_stream(&self) -> Stream;

    /// The runtime and the handle, where they are known.
    #[doc(hidden)]
    fn known(&self) -> Option<(&Runtime, StreamHandle)> {
        None
    }
}

impl AsStream for Stream {
    #[inline]
    fn as_stream(&self) -> Stream {
        *self
    }
}

impl AsStream for CudaStream {
    fn as_stream(&self) -> Stream {
        self.stream()
    }

    fn known(&self) -> Option<(&Runtime, StreamHandle)> {
        Some((self.runtime(), self.handle()))
    }
}

impl<S: AsStream + ?Sized> AsStream for &S {
    #[inline]
    fn as_stream(&self) -> Stream {
        (**self).as_stream()
    }

    #[inline]
    fn known(&self) -> Option<(&Runtime, StreamHandle)> {
        (**self).known()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for c10_core::Stream {}
    impl Sealed for super::CudaStream {}
    impl<S: Sealed + ?Sized> Sealed for &S {}
}
