//! Convolutions of row-major tensors.

use c10_core::{ScalarType, bf16, f16};

use crate::conv::backward::{backward_bias, backward_input, backward_weight};
use crate::conv::forward::{add_bias, forward};
use crate::conv::geometry::ConvGeometry;
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::tensor::{Read, Write};

/// Calls `$body` with the element type, for those that can be convolved.
macro_rules! convolved {
    ($dtype:expr, $operator:expr, $T:ident => $body:expr) => {
        dispatch!($dtype, $operator, [u8, i8, i16, i32, i64, f16, bf16, f32, f64], $T => $body)
    };
}

/// Refuses dtypes that have no convolution.
pub(crate) fn check_dtype(dtype: ScalarType, operator: &str) -> Result<()> {
    convolved!(dtype, operator, T => {
        let _: Option<T> = None;
        Ok(())
    })
}

/// One gradient of a convolution from two tensors.
pub(crate) type Gradient = fn(&ConvGeometry, bool, bool, &Read<'_>, &Read<'_>, Write<'_>) -> Result<()>;

/// A convolution, or where `transposed` the gradient of its input. Where `is_empty`, nothing is summed.
pub(crate) fn convolution(
    geometry: &ConvGeometry,
    transposed: bool,
    is_empty: bool,
    input: &Read<'_>,
    weight: &Read<'_>,
    bias: Option<&Read<'_>>,
    output: Write<'_>,
) -> Result<()> {
    convolved!(input.dtype(), "convolution", T => {
        let bias = bias.map(|bias| bias.slice::<T>()).transpose()?;
        let (input, weight) = (input.slice::<T>()?, weight.slice::<T>()?);
        let output = output.slice::<T>()?;
        if !transposed && !is_empty {
            forward(geometry, input, weight, bias, output);
            return Ok(());
        }
        if is_empty {
            output.fill(T::default());
        } else {
            backward_input(geometry, input, weight, output);
        }
        if let Some(bias) = bias {
            let image = output.len() / (geometry.batch * bias.len()).max(1);
            add_bias(bias, image, output);
        }
        Ok(())
    })
}

/// The gradient of the input from those of the output and the weight.
pub(crate) fn input_gradient(
    geometry: &ConvGeometry,
    transposed: bool,
    is_empty: bool,
    grad_output: &Read<'_>,
    weight: &Read<'_>,
    gradient: Write<'_>,
) -> Result<()> {
    convolved!(weight.dtype(), "convolution_backward", T => {
        let (grad_output, weight) = (grad_output.slice::<T>()?, weight.slice::<T>()?);
        let gradient = gradient.slice::<T>()?;
        match (is_empty, transposed) {
            (true, _) => gradient.fill(T::default()),
            (_, false) => backward_input(geometry, grad_output, weight, gradient),
            (_, true) => forward(geometry, grad_output, weight, None, gradient),
        }
        Ok(())
    })
}

/// The gradient of the weight from that of the output and the input.
pub(crate) fn weight_gradient(
    geometry: &ConvGeometry,
    transposed: bool,
    is_empty: bool,
    grad_output: &Read<'_>,
    input: &Read<'_>,
    gradient: Write<'_>,
) -> Result<()> {
    convolved!(input.dtype(), "convolution_backward", T => {
        let (grad_output, input) = (grad_output.slice::<T>()?, input.slice::<T>()?);
        let gradient = gradient.slice::<T>()?;
        match (is_empty, transposed) {
            (true, _) => gradient.fill(T::default()),
            (_, false) => backward_weight(geometry, grad_output, input, gradient),
            (_, true) => backward_weight(geometry, input, grad_output, gradient),
        }
        Ok(())
    })
}

/// The gradient of the bias from that of the output, which comes twice.
pub(crate) fn bias_gradient(
    geometry: &ConvGeometry,
    _: bool,
    _: bool,
    grad_output: &Read<'_>,
    _: &Read<'_>,
    gradient: Write<'_>,
) -> Result<()> {
    convolved!(grad_output.dtype(), "convolution_backward", T => {
        backward_bias(geometry.batch, grad_output.slice::<T>()?, gradient.slice::<T>()?);
        Ok(())
    })
}
