//! Tensors, views, the dispatcher and operators for CPU and Meta: what ATen is to PyTorch.

pub mod dispatch;
pub mod math;
pub mod random;
