//! Tensors, views, the dispatcher and operators for CPU and Meta: what ATen is to PyTorch.
//!
//! - [`Tensor`]: a shared handle on sizes, strides and a storage. Views share storage and version; every operator
//!   is a method that returns a [`Result`].
//! - [`indexing`], [`tensor!`]: Rust's notation for elements, slices and literals.
//! - [`dispatch`]: operators by name, kernels by key; how outside crates add operators, kernels and devices.
//! - [`tensor::Access`]: how kernels get at elements, safely from any number of threads.
//! - [`random`]: generators whose numbers are PyTorch's for the same seed.
//! - [`io`]: safetensors, npy, DLPack.
//!
//! ```
//! use aten::{Tensor, tensor};
//!
//! let x = tensor![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]?;
//! let row = x.select(0, 1)?; // a view: no copy
//! row.mul_scalar_(10.0)?; // in place, and `x` has it
//! assert_eq!(x.sum()?.item()?, 156.0);
//! assert_eq!((x.version(), row.version()), (1, 1));
//!
//! let error = x.add(&tensor![1.0_f32, 2.0]?).unwrap_err();
//! assert_eq!(error.kind(), aten::ErrorKind::Shape);
//! # Ok::<(), aten::Error>(())
//! ```
//!
//! It names no CUDA. Tensors of other devices are made, filled, viewed and copied through `c10_core::hooks`.

mod error;
mod reserve;
mod shape;
pub mod tensor;
pub mod dispatch;
mod view;
mod iter;
pub mod ops;
mod kernels;
pub mod indexing;
mod print;
mod conv;
mod linalg;
pub mod math;
pub mod parallel;
pub mod simd;
pub mod random;
pub mod io;

pub use error::{Error, ErrorKind, Result};
pub use print::{PrintOptions, Printed};
pub use tensor::{Dims, Tensor, TensorOptions, WeakTensor};
