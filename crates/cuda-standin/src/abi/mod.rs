//! CUDA's C interface as data: results, handles, structs, and the pointers by which they pass.

mod code;
mod handle;
pub(crate) mod layout;
mod pointer;

pub(crate) use code::{Code, Outcome};
pub(crate) use handle::Handle;
pub(crate) use pointer::{In, Out, OutAny, Text, bytes_at, bytes_until_zero};
