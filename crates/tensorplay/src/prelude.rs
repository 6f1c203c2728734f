//! What a program that trains a model names all the time: `use tensorplay::prelude::*`.

pub use aten::{Error, ErrorKind, Result, Tensor, TensorOptions, tensor};
pub use c10_core::{Device, Scalar, ScalarType};
pub use tensorplay_autograd::{TensorAutograd, enable_grad, no_grad};

pub use crate::nn::{Forward, Module};
pub use crate::optim::{Optimizer, Scheduler};
pub use crate::{autograd, data, nn, optim};
