//! Views: other tensors on the same storage.
//!
//! A view is O(1). It shares the storage, and so the memory and the version counter, of the tensor it is of;
//! it has its own sizes, strides and offset. Each family of views is arithmetic on a [`Strided`], with every
//! product and sum checked. From one such function come the view, the form that changes a tensor in place and
//! the form that copies: see `ops/view.rs`.
//!
//! Whatever the arithmetic gives, a tensor is made of it only after its end was found to be within the storage.

mod strided;
mod as_strided;
mod diagonal;
mod dtype;
mod expand;
mod narrow;
mod permute;
mod reshape;
mod select;
mod split;
mod unfold;

pub(crate) use dtype::{view_as_complex, view_as_real, view_dtype};
pub(crate) use narrow::narrowed;
pub(crate) use permute::moved;
pub(crate) use reshape::{flattened, unflattened};
pub(crate) use split::{check_lengths, chunk_lengths, section_lengths, split_lengths};
pub(crate) use strided::Strided;
