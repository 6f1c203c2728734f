//! [`Dropout`]: elements set to zero by chance while a model is trained.

use aten::{Error, Result, Tensor};

use super::module::{Forward, Module};
use super::parameter::Training;

/// Sets each element to zero with a probability while the model is trained, and scales the others so that the mean
/// stays (`torch.nn.Dropout`).
#[derive(Clone, Debug)]
pub struct Dropout {
    p: f64,
    training: Training,
}

impl Dropout {
    /// With this probability.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when it is not between zero and one.
    pub fn new(p: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::invalid_argument(format!(
                "dropout probability has to be between 0 and 1, but got {p}"
            )));
        }
        Ok(Self { p, training: Training::default() })
    }
}

impl Module for Dropout {
    crate::parts!(training);
}

impl Forward for Dropout {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.dropout(self.p, self.training.0)
    }
}
