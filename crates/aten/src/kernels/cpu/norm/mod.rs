//! Normalisation: means and deviations in `f64`, elements in `f32` at least.
//!
//! Weights and biases come as `f64`s, whatever dtype they are of, and a missing one as none.

mod batch;
mod layer;

use c10_core::ScalarType;

pub(crate) use batch::{
    Channels, channel_gradients, channel_moments, group_gradient, group_moments, normalise_channels,
    normalise_channels_in_steps,
};
pub(crate) use layer::{layer_gradients, normalise_rows, rms_rows};

use crate::error::Result;
use crate::tensor::Tensor;

/// The elements of a vector of weights, if there is one.
pub(crate) fn numbers(tensor: Option<&Tensor>) -> Result<Option<Vec<f64>>> {
    tensor.map(numbers_of).transpose()
}

/// The elements of a small tensor.
pub(crate) fn numbers_of(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to_dtype(ScalarType::Float64)?.to_vec::<f64>()
}
