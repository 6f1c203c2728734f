//! [`StreamUser`]: who is told before a stream ends.

use crate::driver::{DriverError, StreamHandle};

/// An owner of memory that streams use.
pub(crate) trait StreamUser: Send + Sync {
    /// Lets memory that these streams use wait for what they hold now, and names them no more. The first error, after
    /// all has been tried; memory that it concerns is as it was.
    fn before_end(&self, streams: &[StreamHandle]) -> Result<(), DriverError>;
}
