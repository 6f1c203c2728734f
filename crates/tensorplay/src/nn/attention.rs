//! [`MultiheadAttention`]: what each position takes from others, weighed by how their keys match its query.

use aten::tensor::{ChunkOptions, LinearOptions, MeanDimOptions};
use aten::{Error, Result, Tensor, TensorOptions};
use c10_core::ScalarType;

use super::init;
use super::linear::{Linear, LinearConfig};
use super::module::{Forward, Module};
use super::parameter::{Parameter, Training};

/// What a [`MultiheadAttention`] takes beside its sizes.
#[derive(Clone, Copy, Debug)]
pub struct AttentionConfig {
    /// How likely a weight is dropped in training. By default never.
    pub dropout: f64,
    /// Projections have learnt biases. By default they do.
    pub bias: bool,
    /// Inputs are `[batch, length, features]`, not `[length, batch, features]`.
    pub batch_first: bool,
    /// Dtype and device of the parameters.
    pub tensor: TensorOptions,
}

impl Default for AttentionConfig {
    fn default() -> Self {
        Self { dropout: 0.0, bias: true, batch_first: false, tensor: TensorOptions::default() }
    }
}

/// Which positions are not to be seen: where a mask of bools is true, or by what a mask of numbers adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionMask<'a> {
    /// `[target, source]` or `[batch * heads, target, source]` (`attn_mask`).
    pub attention: Option<&'a Tensor>,
    /// `[batch, source]` (`key_padding_mask`).
    pub key_padding: Option<&'a Tensor>,
}

/// Attention with several heads (`torch.nn.MultiheadAttention`), for keys and values as wide as queries.
#[derive(Debug)]
pub struct MultiheadAttention {
    /// Projections of queries, keys and values, `[3 * embed_dim, embed_dim]`.
    pub in_proj_weight: Parameter,
    /// `[3 * embed_dim]`.
    pub in_proj_bias: Option<Parameter>,
    /// The projection of what the heads found.
    pub out_proj: Linear,
    training: Training,
    num_heads: i64,
    dropout: f64,
    batch_first: bool,
}

impl MultiheadAttention {
    /// With PyTorch's defaults.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn new(embed_dim: i64, num_heads: i64) -> Result<Self> {
        Self::with(embed_dim, num_heads, AttentionConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when the heads do not divide the features, or
    /// the dropout is no probability; when there is no memory.
    pub fn with(embed_dim: i64, num_heads: i64, config: AttentionConfig) -> Result<Self> {
        if embed_dim <= 0 || num_heads <= 0 || embed_dim % num_heads != 0 {
            return Err(Error::invalid_argument(format!(
                "embed_dim must be divisible by num_heads, and {embed_dim} is not by {num_heads}"
            )));
        }
        if !(0.0..=1.0).contains(&config.dropout) {
            return Err(Error::invalid_argument(format!("dropout {} is no probability", config.dropout)));
        }
        let rows = embed_dim
            .checked_mul(3)
            .ok_or_else(|| Error::invalid_argument(format!("embed_dim {embed_dim} is too large")))?;
        let weight = Tensor::empty(&[rows, embed_dim], config.tensor)?;
        let out_proj =
            Linear::with(embed_dim, embed_dim, LinearConfig { bias: config.bias, tensor: config.tensor })?;
        init::xavier_uniform_(&weight, 1.0)?;
        out_proj.bias.as_deref().map_or(Ok(()), init::zeros_)?;
        let bias = || Parameter::new(&Tensor::zeros(&[rows], config.tensor)?);
        Ok(Self {
            in_proj_weight: Parameter::new(&weight)?,
            in_proj_bias: config.bias.then(bias).transpose()?,
            out_proj,
            training: Training::default(),
            num_heads,
            dropout: config.dropout,
            batch_first: config.batch_first,
        })
    }

    /// What each query takes of the values, and by which weights, `[batch, target, source]`, the mean over heads.
    /// Inputs without batch have two dimensions.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](aten::ErrorKind::Shape) when sizes do not go together,
    /// [`ErrorKind::Dtype`](aten::ErrorKind::Dtype) for a mask of neither bools nor floating-point numbers.
    pub fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        mask: AttentionMask<'_>,
    ) -> Result<(Tensor, Tensor)> {
        check_mask("attn_mask", mask.attention)?;
        check_mask("key_padding_mask", mask.key_padding)?;
        let has_batch = query.rank() == 3;
        if !matches!(query.rank(), 2 | 3) || key.rank() != query.rank() || value.rank() != query.rank() {
            return Err(Error::shape("attention takes query, key and value of two or three dimensions each")
                .with_operator("multi_head_attention")
                .with_tensors([query, key, value]));
        }
        let (output, weights) = self.attend_batch(
            [&self.batch_first(query)?, &self.batch_first(key)?, &self.batch_first(value)?],
            query.is_same(key) && key.is_same(value),
            mask,
        )?;
        let weights = weights.mean_dim_with(Some(&[1]), MeanDimOptions::default())?;
        Ok(match (has_batch, self.batch_first) {
            (false, _) => (output.squeeze_dim(0)?, weights.squeeze_dim(0)?),
            (true, true) => (output, weights),
            (true, false) => (output.transpose(0, 1)?, weights),
        })
    }

    /// `[batch, length, features]`, whatever the order of the input is.
    fn batch_first(&self, input: &Tensor) -> Result<Tensor> {
        match input.rank() {
            2 => input.unsqueeze(0),
            _ if self.batch_first => Ok(input.clone()),
            _ => input.transpose(0, 1),
        }
    }

    fn attend_batch(
        &self,
        inputs: [&Tensor; 3],
        is_self_attention: bool,
        mask: AttentionMask<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let [query, key, value] = self.project(inputs, is_self_attention)?;
        // [batch, heads, length, features of a head].
        let heads = |x: &Tensor| {
            x.reshape(&[x.sizes()[0], x.sizes()[1], self.num_heads, x.sizes()[2] / self.num_heads])?
                .transpose(1, 2)
        };
        let (query, key, value) = (heads(&query)?, heads(&key)?, heads(&value)?);
        let width = query.sizes()[3];
        let scores = query.mul_scalar(1.0 / (width as f64).sqrt())?.matmul(&key.transpose(-2, -1)?)?;
        let scores = self.masked(scores, mask)?;
        let weights = scores.softmax(-1)?.dropout(self.dropout, self.training.0)?;
        let found = weights.matmul(&value)?.transpose(1, 2)?;
        let sizes = found.sizes();
        let output = self.out_proj.forward(&found.reshape(&[sizes[0], sizes[1], sizes[2] * sizes[3]])?)?;
        Ok((output, weights))
    }

    fn project(&self, [query, key, value]: [&Tensor; 3], is_self_attention: bool) -> Result<[Tensor; 3]> {
        let (weight, bias) = (self.in_proj_weight.tensor(), self.in_proj_bias.as_deref());
        if is_self_attention {
            let all = query.linear_with(weight, LinearOptions { bias })?;
            let parts = all.chunk_with(3, ChunkOptions { dim: -1 })?;
            return parts.try_into().map_err(|_| Error::shape("the projection has no three parts"));
        }
        let rows = weight.sizes()[0] / 3;
        let project = |input: &Tensor, part: i64| {
            let bias = bias.map(|bias| bias.narrow(0, part * rows, rows)).transpose()?;
            input.linear_with(&weight.narrow(0, part * rows, rows)?, LinearOptions { bias: bias.as_ref() })
        };
        Ok([project(query, 0)?, project(key, 1)?, project(value, 2)?])
    }

    fn masked(&self, scores: Tensor, mask: AttentionMask<'_>) -> Result<Tensor> {
        let sizes = scores.sizes();
        let (batch, heads, target, source) = (sizes[0], sizes[1], sizes[2], sizes[3]);
        let misfit = |what: &str, mask: &Tensor| {
            Error::shape(format!(
                "the {what} mask does not fit {target} positions that see {source}, {batch} times"
            ))
            .with_operator("multi_head_attention")
            .with_tensors([mask])
        };
        let mut scores = scores;
        if let Some(mask) = mask.attention {
            let mask = match *mask.sizes() {
                [a, b] if (a, b) == (target, source) => mask.clone(),
                [a, b, c] if (a, b, c) == (batch * heads, target, source) => {
                    mask.reshape(&[batch, heads, target, source])?
                }
                _ => return Err(misfit("attention", mask)),
            };
            scores = hide(&scores, &mask)?;
        }
        if let Some(mask) = mask.key_padding {
            if *mask.sizes() != [batch, source] {
                return Err(misfit("key padding", mask));
            }
            scores = hide(&scores, &mask.reshape(&[batch, 1, 1, source])?)?;
        }
        Ok(scores)
    }
}

/// Whole numbers could mean either kind of mask.
fn check_mask(name: &str, mask: Option<&Tensor>) -> Result<()> {
    match mask.filter(|mask| mask.dtype() != ScalarType::Bool && !mask.dtype().is_floating_point()) {
        None => Ok(()),
        Some(mask) => Err(Error::dtype(format!("only bool and floating types of {name} are supported"))
            .with_operator("multi_head_attention")
            .with_tensors([mask])),
    }
}

/// Scores with minus infinity where a mask of bools is true, or with a mask of numbers added.
fn hide(scores: &Tensor, mask: &Tensor) -> Result<Tensor> {
    if mask.dtype() == ScalarType::Bool {
        scores.masked_fill_scalar(mask, f64::NEG_INFINITY)
    } else {
        scores.add(&mask.to(scores.dtype())?)
    }
}

impl Module for MultiheadAttention {
    crate::parts!(in_proj_weight, in_proj_bias, out_proj, training);
}

/// Attention of an input to itself.
impl Forward for MultiheadAttention {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.attend(input, input, input, AttentionMask::default()).map(|(output, _)| output)
    }
}
