//! Tensors, views, the dispatcher and operators for CPU and Meta: what ATen is to PyTorch.

pub(crate) mod conv;
pub(crate) mod linalg;
pub mod math;
pub mod parallel;
pub mod random;
