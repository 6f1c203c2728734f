//! [`Embedding`]: a table of vectors, looked up by number.

use aten::tensor::EmbeddingOptions;
use aten::{Error, Result, Tensor, TensorOptions};
use tensorplay_autograd::no_grad;

use super::init;
use super::module::{Forward, Module};
use super::parameter::Parameter;

/// What an [`Embedding`] takes beside its sizes.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddingConfig {
    /// The row that stays as it is, zero at first; negative counts from the end.
    pub padding_idx: Option<i64>,
    /// Divides the gradient of a row by how often it was looked up.
    pub scale_grad_by_freq: bool,
    /// Dtype and device of the table.
    pub tensor: TensorOptions,
}

/// A table of vectors, looked up by number (`torch.nn.Embedding`).
#[derive(Debug)]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`.
    pub weight: Parameter,
    padding_idx: Option<i64>,
    scale_grad_by_freq: bool,
}

impl Embedding {
    /// With PyTorch's defaults.
    ///
    /// # Errors
    /// When a size is negative or there is no memory.
    pub fn new(num_embeddings: i64, embedding_dim: i64) -> Result<Self> {
        Self::with(num_embeddings, embedding_dim, EmbeddingConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`ErrorKind::Index`](aten::ErrorKind::Index) when the padding row is not in the table.
    pub fn with(num_embeddings: i64, embedding_dim: i64, config: EmbeddingConfig) -> Result<Self> {
        let padding_idx = config
            .padding_idx
            .map(|row| {
                let from_start = if row < 0 { row.checked_add(num_embeddings) } else { Some(row) };
                from_start.filter(|row| (0..num_embeddings).contains(row)).ok_or_else(|| {
                    Error::index(format!("padding row {row} is not in a table of {num_embeddings} rows"))
                })
            })
            .transpose()?;
        let weight = Tensor::empty(&[num_embeddings, embedding_dim], config.tensor)?;
        init::normal_(&weight, 0.0, 1.0)?;
        if let Some(row) = padding_idx {
            no_grad(|| init::zeros_(&weight.select(0, row)?))?;
        }
        Ok(Self {
            weight: Parameter::new(&weight)?,
            padding_idx,
            scale_grad_by_freq: config.scale_grad_by_freq,
        })
    }
}

impl Module for Embedding {
    crate::parts!(weight);
}

impl Forward for Embedding {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let padding_idx = self.padding_idx.unwrap_or(-1);
        let options =
            EmbeddingOptions { padding_idx, scale_grad_by_freq: self.scale_grad_by_freq, sparse: false };
        self.weight.embedding_with(input, options)
    }
}
