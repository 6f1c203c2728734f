//! [`reserved`]: lists whose length an argument says.

use crate::error::{Error, ErrorKind, Result};

/// An empty list with room for `len` elements.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`] where there is no such room: a length that comes from an argument may be any.
pub(crate) fn reserved<T>(len: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    list.try_reserve_exact(len)
        .map_err(|_| Error::new(ErrorKind::OutOfMemory, format!("no memory for a list of {len} elements")))?;
    Ok(list)
}
