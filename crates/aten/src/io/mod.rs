//! Tensors in and out: files of other programs, and memory that is shared with other libraries.
//!
//! - [`safetensors`]: named tensors in one file, read, borrowed from a mapping, or written.
//! - [`npy`]: one array as NumPy saves it.
//! - [`dlpack`]: memory shared with another library in the same process, by its C structures.
//! - [`Tensor::from_ndarray`](crate::Tensor), `to_ndarray`: arrays of the `ndarray` crate, with the feature of that name.
//!
//! Nothing that a file says about itself is believed: sizes are compared with the bytes that are there before
//! memory is allocated for them.

mod packed;
pub mod safetensors;
pub mod npy;
pub mod dlpack;
#[cfg(feature = "ndarray")]
mod ndarray;

use std::io;

use crate::error::{Error, ErrorKind};

/// What a reader or a writer reported.
#[cold]
fn io_error(what: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{what}: {error}")).with_source(error)
}
