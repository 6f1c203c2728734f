//! Normalisation of rows, each by its own mean and deviation.

use c10_core::{bf16, f16};

use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::iter::run::GRAIN_SIZE;
use crate::kernels::cpu::reduce::{Layout, MomentElement, Order, RealElement, Reduced, means_and_squares};
use crate::math::Float;
use crate::ops::Output;
use crate::parallel::{parallel_rows, parallel_slice};
use crate::tensor::{Fresh, Tensor, access};

/// Scales and shifts, one for each column; missing ones are 1 and 0.
type Columns<'a> = Option<&'a [f64]>;

/// Brings rows of `n` elements to mean 0 and variance 1, then scales and shifts columns. Returns the means and
/// the reciprocal deviations.
pub(crate) fn normalise_rows(
    input: &Tensor,
    out: &Output<'_>,
    n: usize,
    weight: Columns<'_>,
    bias: Columns<'_>,
    eps: f64,
) -> Result<(Vec<f64>, Vec<f64>)> {
    dispatch!(input.dtype(), "LayerNormKernelImpl", [f16, bf16, f32, f64], T => {
        access([input], [out.tensor()], out.fresh(), |[x], [out]| {
            let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
            let rows = x.len() / n.max(1);
            let layout = Layout::new(&[rows as i64, n as i64], &[n as i64, 1], &[false, true], Order::Any);
            let moments = means_and_squares(x, &layout);
            let rstd = |squares: f64| 1.0 / ((squares / n as f64).max(0.0) + eps).sqrt();
            let factors: Vec<(f64, f64)> = moments.iter().map(|&(mean, squares)| (mean, rstd(squares))).collect();
            scale_rows(x, out, n, &factors, weight, bias);
            Ok(factors.into_iter().unzip())
        })
    })
}

/// Divides rows by the root of their mean square. Returns the reciprocal roots.
pub(crate) fn rms_rows(
    input: &Tensor,
    out: &Output<'_>,
    n: usize,
    weight: Columns<'_>,
    eps: f64,
) -> Result<Vec<f64>> {
    dispatch!(input.dtype(), "rms_norm", [f16, bf16, f32, f64], T => {
        access([input], [out.tensor()], out.fresh(), |[x], [out]| {
            let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
            let factors: Vec<(f64, f64)> = x
                .chunks_exact(n.max(1))
                .map(|row| {
                    let squares: f64 = row.iter().map(|x| Float::wide(x.widen()) * Float::wide(x.widen())).sum();
                    (0.0, 1.0 / (squares / n as f64 + eps).sqrt())
                })
                .collect();
            scale_rows(x, out, n, &factors, weight, None);
            Ok(factors.into_iter().map(|(_, rstd)| rstd).collect())
        })
    })
}

fn scale_rows<T: RealElement>(
    x: &[T],
    out: &mut [T],
    n: usize,
    factors: &[(f64, f64)],
    weight: Columns<'_>,
    bias: Columns<'_>,
) {
    let real = |values: &[f64]| values.iter().map(|&value| <T::Real as Float>::of(value)).collect::<Vec<_>>();
    let (weight, bias) = (weight.map(real), bias.map(real));
    parallel_rows(factors.len(), (GRAIN_SIZE / n.max(1)).max(1), [(out, n)], |rows, [out]| {
        for (row, out) in rows.zip(out.chunks_exact_mut(n)) {
            let (mean, rstd) = factors[row];
            let (mean, rstd) = (<T::Real as Float>::of(mean), <T::Real as Float>::of(rstd));
            let x = x[row * n..][..n].iter().map(|x| (x.widen() - mean) * rstd);
            match (&weight, &bias) {
                (None, None) => out.iter_mut().zip(x).for_each(|(out, x)| *out = T::narrow(x)),
                (Some(weight), None) => {
                    out.iter_mut().zip(x).zip(weight).for_each(|((out, x), &w)| *out = T::narrow(x * w));
                }
                (None, Some(bias)) => {
                    out.iter_mut().zip(x).zip(bias).for_each(|((out, x), &b)| *out = T::narrow(x + b));
                }
                (Some(weight), Some(bias)) => {
                    let params = weight.iter().zip(bias);
                    out.iter_mut()
                        .zip(x)
                        .zip(params)
                        .for_each(|((out, x), (&w, &b))| *out = T::narrow(x * w + b));
                }
            }
        }
    });
}

/// The gradients with respect to the input, to `out` if it is wanted, and to scale and shift, which are
/// returned.
pub(crate) fn layer_gradients(
    grad: &Tensor,
    input: &Tensor,
    out: Option<&Tensor>,
    n: usize,
    (mean, rstd): (&[f64], &[f64]),
    weight: Columns<'_>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    dispatch!(input.dtype(), "LayerNormBackwardKernelImpl", [f16, bf16, f32, f64], T => {
        if let Some(out) = out {
            access([grad, input], [out], Fresh::Yes, |[grad, x], [out]| {
                let (grad, x, out) = (grad.slice::<T>()?, x.slice::<T>()?, out.slice::<T>()?);
                row_gradients(grad, x, out, n, (mean, rstd), weight);
                Ok(())
            })?;
        }
        access([grad, input], [], Fresh::Yes, |[grad, x], []| {
            Ok(column_gradients(grad.slice::<T>()?, x.slice::<T>()?, n, mean, rstd))
        })
    })
}

fn row_gradients<T: MomentElement<Mean = f64>>(
    grad: &[T],
    x: &[T],
    out: &mut [T],
    n: usize,
    (mean, rstd): (&[f64], &[f64]),
    weight: Columns<'_>,
) {
    parallel_rows(mean.len(), (GRAIN_SIZE / n.max(1)).max(1), [(out, n)], |rows, [out]| {
        for (row, out) in rows.zip(out.chunks_exact_mut(n)) {
            let (mean, rstd) = (mean[row], rstd[row]);
            let (grad, x) = (&grad[row * n..][..n], &x[row * n..][..n]);
            let scaled = |i: usize| grad[i].wide() * weight.map_or(1.0, |weight| weight[i]);
            let away = |i: usize| (x[i].wide() - mean) * rstd;
            let (mut sum, mut dot) = (0.0, 0.0);
            for i in 0..n {
                let g = scaled(i);
                sum += g;
                dot += g * away(i);
            }
            let (sum, dot) = (sum / n as f64, dot / n as f64);
            for (i, out) in out.iter_mut().enumerate() {
                *out = T::of_mean(rstd * (scaled(i) - sum - away(i) * dot));
            }
        }
    });
}

fn column_gradients<T: MomentElement<Mean = f64>>(
    grad: &[T],
    x: &[T],
    n: usize,
    mean: &[f64],
    rstd: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let mut sums = vec![(0.0, 0.0); n];
    parallel_slice(&mut sums, (GRAIN_SIZE / mean.len().max(1)).max(16), |first, sums| {
        for (row, (mean, rstd)) in mean.iter().zip(rstd).enumerate() {
            let at = row * n + first..row * n + first + sums.len();
            for ((sum, grad), x) in sums.iter_mut().zip(&grad[at.clone()]).zip(&x[at]) {
                let grad = grad.wide();
                sum.0 += grad * (x.wide() - mean) * rstd;
                sum.1 += grad;
            }
        }
    });
    sums.into_iter().unzip()
}
