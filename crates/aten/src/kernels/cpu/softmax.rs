//! Softmax, its logarithm, and their gradients, along a dimension of contiguous tensors.
//!
//! Each slice is looked at three times: for its maximum, for the sum of exponentials, for the result. Where the
//! dimension is not the last, slices that lie side by side are worked on together.

use c10_core::{bf16, f16};

use super::reduce::{Ordered, RealElement};
use super::scan::Split;
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::iter::run::GRAIN_SIZE;
use crate::math::Float;
use crate::ops::Output;
use crate::parallel::parallel_rows;
use crate::simd;
use crate::tensor::{Fresh, Tensor, access};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Softmax,
    LogSoftmax,
}

const LANES: usize = 16;

/// Folds a row in lanes, so that it vectorises.
#[inline(always)]
fn fold<T: Copy, A: Copy>(row: &[T], start: A, step: impl Fn(A, T) -> A, merge: impl Fn(A, A) -> A) -> A {
    let mut lanes = [start; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, x);
        }
    }
    let acc = rest.iter().fold(start, |acc, &x| step(acc, x));
    lanes.into_iter().fold(acc, merge)
}

/// `out` has the dtype of `input`.
pub(crate) fn forward(input: &Tensor, out: &Output<'_>, split: Split, kind: Kind) -> Result<()> {
    let name =
        if kind == Kind::Softmax { "softmax_lastdim_kernel_impl" } else { "log_softmax_lastdim_kernel_impl" };
    dispatch!(input.dtype(), name, [f16, bf16, f32, f64], T => {
        access([input], [out.tensor()], out.fresh(), |[x], [out]| {
            let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
            for_each_row(
                split,
                x,
                None,
                out,
                // Part of the copies for instruction sets, or each `mul_add` is a call.
                #[inline(always)]
                |x, _, out| {
                    if split.2 == 1 { forward_row(x, out, kind) } else { forward_columns(x, out, split.2, kind) }
                },
            );
            Ok(())
        })
    })
}

/// The gradient, of that of the result and the result.
pub(crate) fn backward(
    grad: &Tensor,
    result: &Tensor,
    out: &Output<'_>,
    split: Split,
    kind: Kind,
) -> Result<()> {
    dispatch!(grad.dtype(), "softmax_backward_lastdim_kernel_impl", [f16, bf16, f32, f64], T => {
        access([grad, result], [out.tensor()], out.fresh(), |[grad, result], [out]| {
            let (grad, result, out) = (grad.slice::<T>()?, result.slice::<T>()?, out.slice::<T>()?);
            for_each_row(
                split,
                grad,
                Some(result),
                out,
                #[inline(always)]
                |grad, result, out| backward_columns(grad, result, out, split.2, kind),
            );
            Ok(())
        })
    })
}

/// The rows, all of the dimension and what is after it, in parallel.
fn for_each_row<T: RealElement>(
    (before, n, after): Split,
    a: &[T],
    b: Option<&[T]>,
    out: &mut [T],
    body: impl Fn(&[T], &[T], &mut [T]) + Sync,
) {
    let row = n * after;
    if row == 0 {
        return;
    }
    parallel_rows(before, (GRAIN_SIZE / row).max(1), [(out, row)], |rows, [out]| {
        simd::dispatch(
            #[inline(always)]
            || {
                for (i, out) in rows.clone().zip(out.chunks_exact_mut(row)) {
                    let at = i * row..(i + 1) * row;
                    body(&a[at.clone()], b.map_or(&[], |b| &b[at]), out);
                }
            },
        );
    });
}

#[inline(always)]
fn forward_row<T: RealElement>(x: &[T], out: &mut [T], kind: Kind) {
    type Real<T> = <T as RealElement>::Real;
    let lowest = -<Real<T> as Float>::INFINITY;
    let max = fold(x, lowest, |max, x| Float::maximum(max, x.widen()), Float::maximum);
    let zero = <Real<T> as Float>::ZERO;
    if kind == Kind::LogSoftmax {
        let sum = fold(x, zero, |sum, x: T| sum + Float::exp(x.widen() - max), |a, b| a + b);
        let log = Float::ln(sum);
        for (out, &x) in out.iter_mut().zip(x) {
            *out = T::narrow(x.widen() - max - log);
        }
        return;
    }
    if size_of::<T>() < size_of::<Real<T>>() {
        // Rounded once, not the exponential and the quotient.
        let sum = fold(x, zero, |sum, x: T| sum + Float::exp(x.widen() - max), |a, b| a + b);
        let scale = <Real<T> as Float>::ONE / sum;
        for (out, &x) in out.iter_mut().zip(x) {
            *out = T::narrow(Float::exp(x.widen() - max) * scale);
        }
        return;
    }
    for (out, &x) in out.iter_mut().zip(x) {
        *out = T::narrow(Float::exp(x.widen() - max));
    }
    let scale = <Real<T> as Float>::ONE / fold(out, zero, |sum, x: T| sum + x.widen(), |a, b| a + b);
    for out in out.iter_mut() {
        *out = T::narrow(out.widen() * scale);
    }
}

#[inline(always)]
fn forward_columns<T: RealElement>(x: &[T], out: &mut [T], after: usize, kind: Kind) {
    let mut max = vec![-<T::Real as Float>::INFINITY; after];
    for x in x.chunks_exact(after) {
        max.iter_mut().zip(x).for_each(|(max, x)| *max = Float::maximum(*max, x.widen()));
    }
    let mut sum = vec![<T::Real as Float>::ZERO; after];
    for x in x.chunks_exact(after) {
        for ((sum, &max), x) in sum.iter_mut().zip(&max).zip(x) {
            *sum = *sum + Float::exp(x.widen() - max);
        }
    }
    if kind == Kind::LogSoftmax {
        sum.iter_mut().for_each(|sum| *sum = Float::ln(*sum));
    }
    for (x, out) in x.chunks_exact(after).zip(out.chunks_exact_mut(after)) {
        for (((out, &x), &max), &sum) in out.iter_mut().zip(x).zip(&max).zip(&sum) {
            let away = x.widen() - max;
            *out = T::narrow(if kind == Kind::Softmax { Float::exp(away) / sum } else { away - sum });
        }
    }
}

#[inline(always)]
fn backward_columns<T: RealElement>(grad: &[T], result: &[T], out: &mut [T], after: usize, kind: Kind) {
    let mut sum = vec![<T::Real as Float>::ZERO; after];
    for (grad, result) in grad.chunks_exact(after).zip(result.chunks_exact(after)) {
        for ((sum, grad), result) in sum.iter_mut().zip(grad).zip(result) {
            let grad = grad.widen();
            *sum = *sum + if kind == Kind::Softmax { grad * result.widen() } else { grad };
        }
    }
    let rows = grad.chunks_exact(after).zip(result.chunks_exact(after)).zip(out.chunks_exact_mut(after));
    for ((grad, result), out) in rows {
        for (((out, &grad), &result), &sum) in out.iter_mut().zip(grad).zip(result).zip(&sum) {
            let (grad, result) = (grad.widen(), result.widen());
            *out = T::narrow(match kind {
                Kind::Softmax => (grad - sum) * result,
                Kind::LogSoftmax => grad - Float::exp(result) * sum,
            });
        }
    }
}

/// Zeros in the slices of a fresh `result` whose elements in `input` are all negative infinities.
pub(crate) fn clear_masked_slices(input: &Tensor, result: &Tensor, (before, n, after): Split) -> Result<()> {
    dispatch!(input.dtype(), "safe_softmax", [f16, bf16, f32, f64], T => {
        access([input], [result], Fresh::Yes, |[x], [out]| {
            let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
            for slice in 0..before * after {
                let first = slice / after * n * after + slice % after;
                let places = || (0..n).map(|i| first + i * after);
                if places().all(|i| x[i] == T::LEAST) {
                    places().for_each(|i| out[i] = T::default());
                }
            }
            Ok(())
        })
    })
}
