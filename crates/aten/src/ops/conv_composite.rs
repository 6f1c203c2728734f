//! Convolutions of one, two and three dimensions, with or without a batch, by way of the general one.

use super::handles;
use super::images::numbers;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! convolutions {
        ($($rank:literal, $name:literal, $padded:literal, $transposed:literal;)*) => {$(
            lib.composite(
                $name,
                |x: &Tensor, w: &Tensor, b: Option<&Tensor>, s: &[i64], p: &[i64], d: &[i64], groups: i64| {
                    convolved($rank, x, w, b, &Moves { stride: s, padding: p, dilation: d, groups, spread: None })
                },
            )?;
            lib.composite(
                $padded,
                |x: &Tensor, w: &Tensor, b: Option<&Tensor>, s: &[i64], p: &str, d: &[i64], groups: i64| {
                    padded($rank, x, w, b, s, p, d, groups)
                },
            )?;
            lib.composite(
                $transposed,
                |x: &Tensor,
                 w: &Tensor,
                 b: Option<&Tensor>,
                 s: &[i64],
                 p: &[i64],
                 extra: &[i64],
                 groups: i64,
                 d: &[i64]| {
                    let spread = Some(extra);
                    convolved($rank, x, w, b, &Moves { stride: s, padding: p, dilation: d, groups, spread })
                },
            )?;
        )*};
    }
    convolutions! {
        1, "conv1d", "conv1d.padding", "conv_transpose1d";
        2, "conv2d", "conv2d.padding", "conv_transpose2d.input";
        3, "conv3d", "conv3d.padding", "conv_transpose3d.input";
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Moves<'a> {
    stride: &'a [i64],
    padding: &'a [i64],
    dilation: &'a [i64],
    groups: i64,
    /// The output padding of a transposed convolution.
    spread: Option<&'a [i64]>,
}

fn convolved(
    rank: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    moves: &Moves<'_>,
) -> Result<Tensor> {
    let batched = x.rank() == rank + 2;
    if !batched && x.rank() != rank + 1 {
        return Err(Error::shape(format!(
            "Expected {}D (unbatched) or {}D (batched) input to conv{rank}d, but got input of size: {:?}",
            rank + 1,
            rank + 2,
            x.sizes()
        )));
    }
    if weight.rank() != rank + 2 {
        return Err(Error::shape(format!(
            "expected a weight of {} dimensions, but got one of size {:?}",
            rank + 2,
            weight.sizes()
        )));
    }
    let batch = if batched { x.clone() } else { x.unsqueeze(0)? };
    let result = if batch.dtype().is_complex() {
        complex(&batch, weight, bias, moves)?
    } else {
        real(&batch, weight, bias, moves)?
    };
    if batched { Ok(result) } else { result.squeeze_dim(0) }
}

fn real(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, moves: &Moves<'_>) -> Result<Tensor> {
    let Moves { stride, padding, dilation, groups, spread } = *moves;
    let (transposed, extra) = (spread.is_some(), spread.unwrap_or(&[0]));
    handles::CONVOLUTION.call(x, weight, bias, stride, padding, dilation, transposed, extra, groups)
}

/// By the convolutions of the parts.
fn complex(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, moves: &Moves<'_>) -> Result<Tensor> {
    if [Some(weight), bias].into_iter().flatten().any(|other| other.dtype() != x.dtype()) {
        return Err(Error::dtype("expected input, weight and bias to have the same dtype"));
    }
    let parts = |tensor: &Tensor| -> Result<[Tensor; 2]> {
        let pairs = tensor.resolve_conj()?.view_as_real()?;
        Ok([handles::SELECT_INT.call(&pairs, -1, 0)?, handles::SELECT_INT.call(&pairs, -1, 1)?])
    };
    let ([x_re, x_im], [w_re, w_im]) = (parts(x)?, parts(weight)?);
    let bias = bias.map(parts).transpose()?;
    let (b_re, b_im) = match &bias {
        Some([re, im]) => (Some(re), Some(im)),
        None => (None, None),
    };
    let minus = c10_core::Scalar::Int(-1);
    let re = handles::ADD_TENSOR.call(
        &real(&x_re, &w_re, b_re, moves)?,
        &real(&x_im, &w_im, None, moves)?,
        minus,
    )?;
    let im = real(&x_re, &w_im, b_im, moves)?.add(&real(&x_im, &w_re, None, moves)?)?;
    handles::STACK.call(&[re, im], -1)?.view_as_complex()
}

#[expect(clippy::too_many_arguments, reason = "the operator's own")]
fn padded(
    rank: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &str,
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let moves = |padding| Moves { stride, padding, dilation, groups, spread: None };
    match padding {
        "valid" => return convolved(rank, x, weight, bias, &moves(&[0])),
        "same" => {}
        other => return Err(Error::invalid_argument(format!("Invalid padding string: '{other}'"))),
    }
    if weight.rank() != rank + 2 || (x.rank() != rank + 1 && x.rank() != rank + 2) {
        return convolved(rank, x, weight, bias, &moves(&[0]));
    }
    if stride.iter().any(|&stride| stride != 1) {
        return Err(Error::invalid_argument("padding='same' is not supported for strided convolutions"));
    }
    let dilation = numbers("dilation", dilation, rank)?;
    let kernel = weight.sizes();
    // What cannot be halved is padded on the far side first.
    let mut halves = vec![0; rank];
    let mut far = vec![0; 2 * rank];
    for dim in 0..rank {
        let total = kernel[dim + 2].saturating_sub(1).saturating_mul(dilation[dim]);
        halves[dim] = total / 2;
        far[2 * (rank - 1 - dim) + 1] = total % 2;
    }
    let moves = Moves { stride, padding: &halves, dilation: &dilation, groups, spread: None };
    if far.iter().all(|&far| far == 0) {
        return convolved(rank, x, weight, bias, &moves);
    }
    let x = handles::CONSTANT_PAD_ND.call(x, &far, c10_core::Scalar::Int(0))?;
    convolved(rank, &x, weight, bias, &moves)
}
