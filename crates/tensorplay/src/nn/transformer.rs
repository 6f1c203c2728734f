//! [`TransformerEncoderLayer`]: self-attention, then a network for each position, each with a way around it.

use aten::{Result, Tensor, TensorOptions};

use super::attention::{AttentionConfig, AttentionMask, MultiheadAttention};
use super::dropout::Dropout;
use super::layer_norm::{LayerNorm, LayerNormConfig};
use super::linear::{Linear, LinearConfig};
use super::module::{Forward, Module};

/// What a [`TransformerEncoderLayer`] takes beside its sizes.
#[derive(Clone, Copy, Debug)]
pub struct TransformerEncoderConfig {
    /// The width of the network for each position. By default 2048.
    pub dim_feedforward: i64,
    /// How likely elements are dropped in training. By default 0.1.
    pub dropout: f64,
    /// The activation of the network is `gelu`, not `relu`.
    pub gelu: bool,
    /// Is added to variances. By default 1e-5.
    pub layer_norm_eps: f64,
    /// Inputs are `[batch, length, features]`, not `[length, batch, features]`.
    pub batch_first: bool,
    /// Normalises what goes into the parts, not what comes out.
    pub norm_first: bool,
    /// Parts have learnt biases. By default they do.
    pub bias: bool,
    /// Dtype and device of the parameters.
    pub tensor: TensorOptions,
}

impl Default for TransformerEncoderConfig {
    fn default() -> Self {
        Self {
            dim_feedforward: 2048,
            dropout: 0.1,
            gelu: false,
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
            tensor: TensorOptions::default(),
        }
    }
}

/// A layer of a transformer's encoder (`torch.nn.TransformerEncoderLayer`).
#[derive(Debug)]
pub struct TransformerEncoderLayer {
    /// What each position takes from others.
    pub self_attn: MultiheadAttention,
    /// Into the network for each position.
    pub linear1: Linear,
    /// Out of it.
    pub linear2: Linear,
    /// For attention.
    pub norm1: LayerNorm,
    /// For the network.
    pub norm2: LayerNorm,
    dropout: Dropout,
    dropout1: Dropout,
    dropout2: Dropout,
    gelu: bool,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// With PyTorch's defaults.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn new(d_model: i64, nhead: i64) -> Result<Self> {
        Self::with(d_model, nhead, TransformerEncoderConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// As [`MultiheadAttention::with`] and [`Linear::with`].
    pub fn with(d_model: i64, nhead: i64, config: TransformerEncoderConfig) -> Result<Self> {
        let TransformerEncoderConfig { dropout, bias, tensor, batch_first, dim_feedforward, .. } = config;
        let self_attn =
            MultiheadAttention::with(d_model, nhead, AttentionConfig { dropout, bias, batch_first, tensor })?;
        let linear = LinearConfig { bias, tensor };
        let norm = LayerNormConfig { eps: config.layer_norm_eps, bias, tensor, ..Default::default() };
        Ok(Self {
            self_attn,
            linear1: Linear::with(d_model, dim_feedforward, linear)?,
            linear2: Linear::with(dim_feedforward, d_model, linear)?,
            norm1: LayerNorm::with(&[d_model], norm)?,
            norm2: LayerNorm::with(&[d_model], norm)?,
            dropout: Dropout::new(dropout)?,
            dropout1: Dropout::new(dropout)?,
            dropout2: Dropout::new(dropout)?,
            gelu: config.gelu,
            norm_first: config.norm_first,
        })
    }

    /// The result with some positions hidden (`src_mask`, `src_key_padding_mask`).
    ///
    /// # Errors
    /// As [`MultiheadAttention::attend`].
    pub fn forward_with(&self, input: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        if self.norm_first {
            let x = input.add(&self.attention(&self.norm1.forward(input)?, mask)?)?;
            return x.add(&self.network(&self.norm2.forward(&x)?)?);
        }
        let x = self.norm1.forward(&input.add(&self.attention(input, mask)?)?)?;
        self.norm2.forward(&x.add(&self.network(&x)?)?)
    }

    fn attention(&self, x: &Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        self.dropout1.forward(&self.self_attn.attend(x, x, x, mask)?.0)
    }

    fn network(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.linear1.forward(x)?;
        let hidden = if self.gelu { hidden.gelu()? } else { hidden.relu()? };
        self.dropout2.forward(&self.linear2.forward(&self.dropout.forward(&hidden)?)?)
    }
}

impl Module for TransformerEncoderLayer {
    crate::parts!(self_attn, linear1, dropout, linear2, norm1, norm2, dropout1, dropout2);
}

impl Forward for TransformerEncoderLayer {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_with(input, AttentionMask::default())
    }
}
