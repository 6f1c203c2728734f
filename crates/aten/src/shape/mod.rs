//! Sizes and strides as numbers: what has no tensor yet.
//!
//! Everything here is checked: an overflow is an `Err`.

mod broadcast;
mod contiguity;
mod dims;
mod reshape;
mod strides;

pub(crate) use broadcast::broadcast;
pub(crate) use contiguity::{
    is_canonical, is_channels_last_contiguous, is_non_overlapping_and_dense, prefers_channels_last,
};
pub(crate) use dims::{wrap_dim, wrap_dims};
pub(crate) use reshape::{infer_size, strides_in_shape};
pub(crate) use strides::{contiguous_strides, dense_strides_like, strides_of_format};
