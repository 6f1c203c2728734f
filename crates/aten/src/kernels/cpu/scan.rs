//! Running reductions along a dimension of contiguous tensors.

use c10_core::{Complex, bf16, f16};

use super::reduce::{Number, Ordered, RealElement, Side};
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::iter::run::GRAIN_SIZE;
use crate::math::{ComplexFloat, Float};
use crate::ops::Output;
use crate::parallel::parallel_rows;
use crate::tensor::{Plain, Tensor, access};

/// A contiguous tensor's elements before the dimension, along it, and after it.
pub(crate) type Split = (usize, usize, usize);

/// `out[i] = finish(step(… step(start, x[0], 0) …, x[i], i))` along the dimension.
fn scan<I: Plain, A: Copy + Send + Sync, O: Plain>(
    input: &Tensor,
    out: &Output<'_>,
    (before, n, after): Split,
    start: A,
    step: impl Fn(A, I, usize) -> A + Sync,
    finish: impl Fn(A) -> O + Sync,
) -> Result<()> {
    access([input], [out.tensor()], out.fresh(), |[x], [out]| {
        let (x, out) = (x.slice::<I>()?, out.slice::<O>()?);
        let row = n * after;
        if row == 0 {
            return Ok(());
        }
        parallel_rows(before, (GRAIN_SIZE / row).max(1), [(out, row)], |rows, [out]| {
            let x = &x[rows.start * row..rows.end * row];
            for (x, out) in x.chunks_exact(row).zip(out.chunks_exact_mut(row)) {
                if after == 1 {
                    let mut acc = start;
                    for (i, (&x, out)) in x.iter().zip(out).enumerate() {
                        acc = step(acc, x, i);
                        *out = finish(acc);
                    }
                    continue;
                }
                let mut accs = vec![start; after];
                for (i, (x, out)) in x.chunks_exact(after).zip(out.chunks_exact_mut(after)).enumerate() {
                    for ((acc, &x), out) in accs.iter_mut().zip(x).zip(out) {
                        *acc = step(*acc, x, i);
                        *out = finish(*acc);
                    }
                }
            }
        });
        Ok(())
    })
}

/// An element that runs up in something wider.
trait Running: Plain {
    type Acc: Number;
    fn widen(self) -> Self::Acc;
    fn narrow(acc: Self::Acc) -> Self;
}

macro_rules! running {
    ($($element:ty => $acc:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Running for $element {
            type Acc = $acc;
            #[inline(always)]
            fn widen(self) -> $acc {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(acc: $acc) -> Self {
                $narrow(acc)
            }
        }
    )*};
}
running! {
    i64 => i64, std::convert::identity, std::convert::identity;
    f16 => f32, f16::to_f32, f16::from_f32;
    bf16 => f32, bf16::to_f32, bf16::from_f32;
    f32 => f64, f64::from, |x: f64| x as f32;
    f64 => f64, std::convert::identity, std::convert::identity;
    Complex<f32> => Complex<f64>, Complex::<f64>::from, |x: Complex<f64>| x.map(|part| part as f32);
    Complex<f64> => Complex<f64>, std::convert::identity, std::convert::identity;
}

/// Running sums or products; `input` and `out` are of one dtype, integers `int64`.
pub(crate) fn sums(input: &Tensor, out: &Output<'_>, split: Split) -> Result<()> {
    dispatch!(input.dtype(), "cumsum_out_cpu", [i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>], T => {
        let start = <<T as Running>::Acc as Number>::ZERO;
        scan(input, out, split, start, |acc, x: T, _| Number::add(acc, x.widen()), T::narrow)
    })
}

/// As [`sums`], of products.
pub(crate) fn products(input: &Tensor, out: &Output<'_>, split: Split) -> Result<()> {
    dispatch!(input.dtype(), "cumprod_out_cpu", [i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>], T => {
        let start = <<T as Running>::Acc as Number>::ONE;
        scan(input, out, split, start, |acc, x: T, _| Number::mul(acc, x.widen()), T::narrow)
    })
}

/// Running extrema to the first output, where they are to the second. The last of several counts.
pub(crate) fn extrema(input: &Tensor, outs: [&Output<'_>; 2], split: Split, side: Side) -> Result<()> {
    let name = if side == Side::Greatest { "cummax_helper_cpu" } else { "cummin_helper_cpu" };
    dispatch!(input.dtype(), name, [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
        let step = |acc: (T, i64), x: T, i: usize| {
            let beyond = if side == Side::Greatest { x >= acc.0 } else { x <= acc.0 };
            let takes = i == 0 || Ordered::is_nan(x) || (beyond && !Ordered::is_nan(acc.0));
            if takes { (x, i as i64) } else { acc }
        };
        let start = (T::default(), 0);
        scan(input, outs[0], split, start, step, |acc| acc.0)?;
        scan(input, outs[1], split, start, step, |acc| acc.1)
    })
}

/// Running logarithms of sums of exponentials.
pub(crate) fn log_sums_of_exponentials(input: &Tensor, out: &Output<'_>, split: Split) -> Result<()> {
    let name = "logcumsumexp_out_cpu";
    if input.dtype().is_complex() {
        return dispatch!(input.dtype(), name, [Complex<f32>, Complex<f64>], T => {
            let start = Complex::<f64>::new(f64::NEG_INFINITY, 0.0);
            let step = |acc, x: T, _| complex_log_add(acc, ComplexFloat::wide(x));
            scan(input, out, split, start, step, <T as ComplexFloat>::of)
        });
    }
    dispatch!(input.dtype(), name, [f16, bf16, f32, f64], T => {
        let start = -<<T as RealElement>::Real as Float>::INFINITY;
        let step = |acc, x: T, _| Float::logaddexp(acc, super::reduce::Reduced::widen(x));
        scan(input, out, split, start, step, <T as super::reduce::Reduced>::narrow)
    })
}

/// `ln(exp(a) + exp(b))`, the greater real part taken out.
fn complex_log_add(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    if ComplexFloat::is_nan(a) || ComplexFloat::is_nan(b) {
        return Complex::new(f64::NAN, f64::NAN);
    }
    let (low, high) = if a.re < b.re { (a, b) } else { (b, a) };
    if low.re == high.re && !low.re.is_finite() {
        // Of two zeros either is the sum; of two infinities only the direction counts.
        return if low.re < 0.0 {
            low
        } else {
            ComplexFloat::ln(ComplexFloat::exp(low) + ComplexFloat::exp(high))
        };
    }
    if low.re == f64::NEG_INFINITY {
        return high;
    }
    ComplexFloat::log1p(ComplexFloat::exp(low - high)) + high
}
