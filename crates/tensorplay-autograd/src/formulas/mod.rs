//! The derivatives: tables (`*.grads`), which the build script makes formulas of, and the functions that they call
//! where a line is not enough.

// What the build script writes.
#![allow(
    unused_variables,
    clippy::needless_borrow,
    clippy::let_and_return,
    clippy::redundant_clone,
    clippy::blocks_in_conditions,
    clippy::nonminimal_bool,
    clippy::clone_on_copy,
    unused_braces,
    unused_parens,
    non_snake_case,
    reason = "written by the build script from expressions of the tables"
)]

pub(crate) mod activation;
pub(crate) mod loss;
pub(crate) mod moment;
pub(crate) mod norm;
pub(crate) mod normalization;
mod normalization_twice;
pub(crate) mod pointwise;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod scan;
pub(crate) mod select;
pub(crate) mod shape;
mod metas;
mod join;
mod index;
mod reduce_scatter;
mod embedding;
mod matmul;
mod conv;
mod distance;
mod grid_sampler;
mod pool;
mod fft;
pub(crate) mod softmax;
pub(crate) mod special;
pub(crate) mod view;

use aten::dispatch::{Arg, DispatchKey, Kernel, Library};
use aten::ops::handles;
use aten::{Result, Tensor, TensorOptions};
use c10_core::{Scalar, ScalarType};
use metas::Metas;
use shape::{conj, kept, masked, no_derivative, scaled, total, zeros_of};

use crate::formula::{Backward, Formula, Keep, Of, Save, Target};
use crate::kernel::{Functional, InPlace, InferenceCheck, InferenceView, Out, View};

const AUTOGRAD: [DispatchKey; 1] = [DispatchKey::Autograd];
const IN_PLACE: [DispatchKey; 1] = [DispatchKey::AdInplaceOrView];

include!(concat!(env!("OUT_DIR"), "/formulas.rs"));

/// Says of what type the result of a formula is.
fn checked<T>(result: Result<T>) -> Result<T> {
    result
}
