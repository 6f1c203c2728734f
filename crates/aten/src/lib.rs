//! Tensors, views, the dispatcher and operators for CPU and Meta: what ATen is to PyTorch.

mod error;
mod shape;
pub mod tensor;
pub mod dispatch;
mod view;
mod iter;
pub mod ops;
mod kernels;
pub mod indexing;
mod print;
pub(crate) mod conv;
pub(crate) mod linalg;
pub mod math;
pub mod parallel;
pub mod random;
pub mod io;

pub use error::{Error, ErrorKind, Result};
pub use print::{PrintOptions, Printed};
pub use tensor::{Dims, Tensor, TensorOptions, WeakTensor};
pub mod simd;
