//! Streams: ids ([`id`]), the pool of each device, and the stream that is current on a thread.

pub(crate) mod current;
pub mod id;
mod pool;

pub(crate) use current::Current;
pub(crate) use pool::StreamPool;
