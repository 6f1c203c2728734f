//! [`StreamUser`]: who is told before a stream ends.

use crate::driver::{DriverError, StreamHandle};

/// An owner of memory that streams use.
pub(crate) trait StreamUser: Send + Sync {
    /// Lets memory that the stream uses wait for what it holds now, and names it no more. Where that fails the memory is
    /// as it was.
    fn before_end(&self, stream: StreamHandle) -> Result<(), DriverError>;
}
