//! Initial values of parameters (`torch.nn.init`). Every function fills its tensor in place, records nothing, and
//! draws from the default generator what PyTorch draws: under the same seed the numbers are PyTorch's.

use aten::tensor::{NormalInPlaceOptions, UniformInPlaceOptions};
use aten::{Error, Result, Tensor, TensorOptions};
use c10_core::ScalarType;
use tensorplay_autograd::no_grad;

use super::parameter::Parameter;

/// Which count of connections the scale follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanMode {
    /// Those into an output: the size of forward values is kept (`fan_in`).
    #[default]
    In,
    /// Those out of an input: the size of gradients is kept (`fan_out`).
    Out,
}

/// The function that follows the layer, which has the scale that is recommended for it ([`gain`](Self::gain)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// None, or a convolution.
    Linear,
    /// `sigmoid`.
    Sigmoid,
    /// `tanh`.
    Tanh,
    /// `relu`.
    Relu,
    /// `leaky_relu` with its slope for what is negative.
    LeakyRelu(f64),
    /// `selu`.
    Selu,
}

impl Nonlinearity {
    /// The factor by which weights before it are scaled (`calculate_gain`).
    pub fn gain(self) -> f64 {
        match self {
            Self::Linear | Self::Sigmoid => 1.0,
            Self::Tanh => 5.0 / 3.0,
            Self::Relu => 2.0_f64.sqrt(),
            Self::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Self::Selu => 0.75,
        }
    }
}

/// Draws from the uniform distribution over `[from, to)`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when `from` is above `to` or either is out of the
/// dtype's range, [`ErrorKind::Dtype`](aten::ErrorKind::Dtype) for other than floating point.
pub fn uniform_(tensor: &Tensor, from: f64, to: f64) -> Result<()> {
    no_grad(|| tensor.uniform_with_(UniformInPlaceOptions { from, to, ..Default::default() }).map(drop))
}

/// Draws from the normal distribution.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for a negative deviation,
/// [`ErrorKind::Dtype`](aten::ErrorKind::Dtype) for other than floating point.
pub fn normal_(tensor: &Tensor, mean: f64, std: f64) -> Result<()> {
    no_grad(|| tensor.normal_with_(NormalInPlaceOptions { mean, std, ..Default::default() }).map(drop))
}

/// How often numbers are drawn for a tensor at most.
const MOST_DRAWS: usize = 10_000;

/// Draws from the normal distribution, and again where it falls outside `[from, to]`.
///
/// # Errors
/// As [`uniform_`]; [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for a deviation that is not
/// positive, bounds that are not in order and finite, and bounds so far from the mean that numbers between them are not
/// found. The tensor stays as it was.
// Differs from PyTorch: there the last is a loop without end.
pub fn trunc_normal_(tensor: &Tensor, mean: f64, std: f64, from: f64, to: f64) -> Result<()> {
    if !(std > 0.0 && std.is_finite() && mean.is_finite() && from < to && from.is_finite() && to.is_finite())
    {
        return Err(Error::invalid_argument(format!(
            "no normal distribution has mean {mean} and deviation {std} between {from} and {to}"
        )));
    }
    if tensor.is_meta() {
        return Ok(());
    }
    no_grad(|| {
        // Much of the distribution is within: draw from it until all is. Otherwise draw evenly, and keep by its height.
        let share = below((to - mean) / std)? - below((from - mean) / std)?;
        let made = if share > 0.3 {
            redraw_outside(tensor, mean, std, [from, to])
        } else {
            reject(tensor, mean, std, [from, to])
        }?;
        let made = made.ok_or_else(|| {
            Error::invalid_argument(format!(
                "drawn {MOST_DRAWS} times, numbers between {from} and {to} were not found: they are too far from the \
                 mean {mean} for a deviation of {std}"
            ))
        })?;
        tensor.copy_(&made).map(drop)
    })
}

/// How likely a standard normal number is below `x`.
fn below(x: f64) -> Result<f64> {
    let erf = Tensor::full(&[], x / 2.0_f64.sqrt(), ScalarType::Float64)?.erf()?;
    Ok((1.0 + erf.item()?.to::<f64>()?) / 2.0)
}

fn redraw_outside(like: &Tensor, mean: f64, std: f64, [from, to]: [f64; 2]) -> Result<Option<Tensor>> {
    let made = like.empty_like(TensorOptions::default())?;
    normal_(&made, mean, std)?;
    for _ in 1..MOST_DRAWS {
        let outside = made.lt_scalar(from)?.logical_or(&made.gt_scalar(to)?)?;
        if !is_any(&outside)? {
            return Ok(Some(made));
        }
        let again = like.empty_like(TensorOptions::default())?;
        normal_(&again, mean, std)?;
        made.copy_(&outside.where_self(&again, &made)?)?;
    }
    Ok(None)
}

fn reject(like: &Tensor, mean: f64, std: f64, [from, to]: [f64; 2]) -> Result<Option<Tensor>> {
    // The density within the bounds is highest here.
    let peak = -0.5 * ((mean.clamp(from, to) - mean) / std).powi(2);
    let new = || like.empty_like(TensorOptions::default());
    let (made, drawn, height) = (new()?, new()?, new()?);
    let mut pending = Tensor::ones(&like.sizes(), (ScalarType::Bool, like.device()))?;
    for _ in 0..MOST_DRAWS {
        if !is_any(&pending)? {
            return Ok(Some(made));
        }
        uniform_(&drawn, from, to)?;
        made.copy_(&pending.where_self(&drawn, &made)?)?;
        drawn.sub_scalar_(mean)?.div_scalar_(std)?.pow_scalar_(2)?.mul_scalar_(-0.5)?.sub_scalar_(peak)?;
        uniform_(&height, 0.0, 1.0)?;
        pending = pending.logical_and(&height.log_()?.gt(&drawn)?)?;
    }
    Ok(None)
}

fn is_any(mask: &Tensor) -> Result<bool> {
    Ok(mask.any()?.item()? == true)
}

/// Fills with a value.
///
/// # Errors
/// When the dtype cannot hold it.
pub fn constant_(tensor: &Tensor, value: f64) -> Result<()> {
    no_grad(|| tensor.fill_scalar_(value).map(drop))
}

/// Fills with zeros.
///
/// # Errors
/// When the tensor cannot be written.
pub fn zeros_(tensor: &Tensor) -> Result<()> {
    no_grad(|| tensor.zero_().map(drop))
}

/// Fills with ones.
///
/// # Errors
/// When the tensor cannot be written.
pub fn ones_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 1.0)
}

/// Makes a matrix the identity.
///
/// # Errors
/// [`ErrorKind::Shape`](aten::ErrorKind::Shape) when it is no matrix.
pub fn eye_(tensor: &Tensor) -> Result<()> {
    let &[rows, columns] = &*tensor.sizes() else {
        return Err(Error::shape("only a matrix can be made the identity").with_tensors([tensor]));
    };
    no_grad(|| tensor.copy_(&Tensor::eye_m(rows, columns, (tensor.dtype(), tensor.device()))?).map(drop))
}

/// Uniform, with a scale for both directions (`xavier_uniform_`, Glorot).
///
/// # Errors
/// As [`fans`] and [`uniform_`].
pub fn xavier_uniform_(tensor: &Tensor, gain: f64) -> Result<()> {
    let bound = 3.0_f64.sqrt() * xavier_std(tensor, gain)?;
    uniform_(tensor, -bound, bound)
}

/// Normal, with a scale for both directions (`xavier_normal_`, Glorot).
///
/// # Errors
/// As [`fans`] and [`normal_`].
pub fn xavier_normal_(tensor: &Tensor, gain: f64) -> Result<()> {
    normal_(tensor, 0.0, xavier_std(tensor, gain)?)
}

/// Uniform, with the scale for one direction and what follows (`kaiming_uniform_`, He).
///
/// # Errors
/// As [`fans`] and [`uniform_`].
pub fn kaiming_uniform_(tensor: &Tensor, mode: FanMode, follows: Nonlinearity) -> Result<()> {
    match kaiming_std(tensor, mode, follows)? {
        None => Ok(()),
        Some(std) => {
            let bound = 3.0_f64.sqrt() * std;
            uniform_(tensor, -bound, bound)
        }
    }
}

/// Normal, with the scale for one direction and what follows (`kaiming_normal_`, He).
///
/// # Errors
/// As [`fans`] and [`normal_`].
pub fn kaiming_normal_(tensor: &Tensor, mode: FanMode, follows: Nonlinearity) -> Result<()> {
    kaiming_std(tensor, mode, follows)?.map_or(Ok(()), |std| normal_(tensor, 0.0, std))
}

/// How many connections go into each output and out of each input of a layer with this weight
/// (`_calculate_fan_in_and_fan_out`).
///
/// # Errors
/// [`ErrorKind::Shape`](aten::ErrorKind::Shape) for fewer than two dimensions.
pub fn fans(tensor: &Tensor) -> Result<(i64, i64)> {
    let sizes = tensor.sizes();
    let &[outputs, inputs, ref field @ ..] = &*sizes else {
        return Err(Error::shape("connections are counted for weights of two dimensions or more")
            .with_tensors([tensor]));
    };
    let field = field.iter().fold(1_i64, |product, &size| product.saturating_mul(size));
    Ok((inputs.saturating_mul(field), outputs.saturating_mul(field)))
}

fn xavier_std(tensor: &Tensor, gain: f64) -> Result<f64> {
    let (fan_in, fan_out) = fans(tensor)?;
    Ok(gain * (2.0 / (fan_in as f64 + fan_out as f64)).sqrt())
}

/// None for a weight without elements, which is left alone.
fn kaiming_std(tensor: &Tensor, mode: FanMode, follows: Nonlinearity) -> Result<Option<f64>> {
    let (fan_in, fan_out) = fans(tensor)?;
    if tensor.numel() == 0 {
        return Ok(None);
    }
    let fan = if mode == FanMode::In { fan_in } else { fan_out };
    Ok(Some(follows.gain() / (fan as f64).sqrt()))
}

/// The parameters of a linear or convolutional layer by default: He's uniform for a slope of √5, and a bias, of so many
/// elements, within one by the root of the connections into an output.
pub(super) fn linear_parameters(
    weight: &[i64],
    bias: Option<i64>,
    options: TensorOptions,
) -> Result<(Parameter, Option<Parameter>)> {
    let weight = Tensor::empty(weight, options)?;
    let bias = bias.map(|size| Tensor::empty(&[size], options)).transpose()?;
    kaiming_uniform_(&weight, FanMode::In, Nonlinearity::LeakyRelu(5.0_f64.sqrt()))?;
    let (fan_in, _) = fans(&weight)?;
    if let Some(bias) = bias.as_ref().filter(|_| fan_in > 0) {
        let bound = 1.0 / (fan_in as f64).sqrt();
        uniform_(bias, -bound, bound)?;
    }
    Ok((Parameter::new(&weight)?, bias.as_ref().map(Parameter::new).transpose()?))
}
