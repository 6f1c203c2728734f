//! Streams: [`CudaStream`], ids ([`id`]), the pool of each device, and the stream that is current on a thread.

mod as_stream;
mod cuda_stream;
pub(crate) mod current;
pub mod id;
mod pool;
mod user;

pub use as_stream::AsStream;
pub use cuda_stream::CudaStream;
pub(crate) use current::Current;
pub(crate) use pool::StreamPool;
pub(crate) use user::StreamUser;
