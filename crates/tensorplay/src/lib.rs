//! Tensors, gradients, modules and optimisers: what the `torch` package is to PyTorch.
//!
//! - [`Tensor`] and its operators are those of [`aten`]; gradients are those of [`autograd`].
//! - [`nn`]: modules with named parameters and buffers, losses, PyTorch's initialisations.
//! - [`optim`]: optimisers, schedules of learning rates, clipping of gradients.
//! - [`checkpoint()`]: parts of a model that save their inputs alone and are computed again for gradients.
//! - [`data`]: tensors in memory, taken in batches and in a seeded order.
//!
//! Names, defaults and numbers are PyTorch's: under the same seed a module begins with the same weights, and a state
//! dict of one loads into the other.
//!
//! ```
//! use tensorplay::prelude::*;
//!
//! tensorplay::manual_seed(0);
//! let model = nn::Linear::new(2, 1)?;
//! let mut optimizer = optim::Sgd::new(model.parameters(), optim::SgdOptions { lr: 0.1, ..Default::default() })?;
//! let (x, y) = (tensor![[1.0_f32, 0.0], [0.0, 1.0]]?, tensor![[2.0_f32], [-1.0]]?);
//! let before = model.forward(&x)?.mse_loss(&y)?;
//! for _ in 0..50 {
//!     optimizer.zero_grad()?;
//!     model.forward(&x)?.mse_loss(&y)?.backward()?;
//!     optimizer.step()?;
//! }
//! let after = model.forward(&x)?.mse_loss(&y)?;
//! assert!(after.item()?.to::<f64>()? < 0.1 * before.item()?.to::<f64>()?);
//! # Ok::<(), tensorplay::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod prelude;
pub mod nn;
pub mod optim;
pub mod data;

pub use aten::{self, Error, ErrorKind, Result, Tensor, TensorOptions, tensor};
pub use c10_core::{self, Device, Scalar, ScalarType};
pub use tensorplay_autograd as autograd;
pub use tensorplay_autograd::checkpoint;

/// Registers what is present with the process's dispatcher. Modules and optimisers call it; calling it again does
/// nothing.
///
/// # Errors
/// As [`autograd::init`].
pub fn init() -> Result<()> {
    autograd::init()
}

/// Begins the sequence of this seed for everything that draws from the default generator (`torch.manual_seed`).
pub fn manual_seed(seed: u64) {
    aten::random::Generator::default_cpu().manual_seed(seed);
}

/// Compiles the examples of the workspace's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the examples of the guide to gradients, modules and training.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training.md")]
struct Guide;
