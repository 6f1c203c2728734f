//! [`Flatten`]: several dimensions as one.

use aten::tensor::FlattenUsingIntsOptions;
use aten::{Result, Tensor};

use super::module::{Forward, Module};

/// Joins dimensions into one (`torch.nn.Flatten`).
#[derive(Clone, Copy, Debug)]
pub struct Flatten {
    /// The first that is joined. By default the second.
    pub start_dim: i64,
    /// The last that is joined. By default the last.
    pub end_dim: i64,
}

impl Default for Flatten {
    fn default() -> Self {
        Self { start_dim: 1, end_dim: -1 }
    }
}

impl Module for Flatten {
    crate::parts!();
}

impl Forward for Flatten {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.flatten_using_ints_with(FlattenUsingIntsOptions {
            start_dim: self.start_dim,
            end_dim: self.end_dim,
        })
    }
}
