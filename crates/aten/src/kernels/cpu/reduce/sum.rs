//! Sums, products and means.

use std::marker::PhantomData;

use c10_core::{Complex, bf16, f16};

use super::element::{Number, Reduced};
use super::engine::Reducer;
use super::layout::Order;
use super::{into, without_bools};
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::ops::Output;
use crate::tensor::Tensor;

struct Sum<T>(PhantomData<T>);
struct NanSum<T>(PhantomData<T>);
struct Product<T>(PhantomData<T>);

macro_rules! folds {
    ($($name:ident($acc:ident, $x:ident): $start:expr, $step:expr, $merge:ident;)*) => {$(
        impl<T: Reduced> Reducer for $name<T> {
            type In = T;
            type Acc = T::Acc;
            const VECTORISED: bool = <T as Reduced>::VECTORISED;
            #[inline(always)]
            fn start(&self) -> T::Acc {
                $start
            }
            #[inline(always)]
            fn step(&self, $acc: T::Acc, x: T, _i: usize) -> T::Acc {
                let $x = x.widen();
                $step
            }
            #[inline(always)]
            fn merge(&self, a: T::Acc, b: T::Acc) -> T::Acc {
                a.$merge(b)
            }
        }
    )*};
}
folds! {
    Sum(acc, x): T::Acc::ZERO, acc.add(x), add;
    NanSum(acc, x): T::Acc::ZERO, acc.add(if x.is_nan() { T::Acc::ZERO } else { x }), add;
    Product(acc, x): T::Acc::ONE, acc.mul(x), mul;
}

/// The sum of what is no NaN, and how many those are.
struct NanMean<T>(PhantomData<T>);

impl<T: Reduced> Reducer for NanMean<T> {
    type In = T;
    type Acc = (T::Acc, i64);
    #[inline(always)]
    fn start(&self) -> (T::Acc, i64) {
        (T::Acc::ZERO, 0)
    }
    #[inline(always)]
    fn step(&self, (sum, n): (T::Acc, i64), x: T, _i: usize) -> (T::Acc, i64) {
        let x = x.widen();
        if x.is_nan() { (sum, n) } else { (sum.add(x), n + 1) }
    }
    #[inline(always)]
    fn merge(&self, a: (T::Acc, i64), b: (T::Acc, i64)) -> (T::Acc, i64) {
        (a.0.add(b.0), a.1 + b.1)
    }
}

/// Integers, and `bool`s as such, sum up to `i64`, the rest to its own dtype.
pub(crate) fn sum(input: &Tensor, out: &Output<'_>, mask: &[bool]) -> Result<()> {
    let input = without_bools(input)?;
    dispatch!(
        input.dtype(),
        "sum_cpu",
        [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>],
        T => into(&input, out, mask, Order::Any, &Sum::<T>(PhantomData), <T as Reduced>::sum)
    )
}

/// As [`sum`], without what is not a number.
pub(crate) fn nan_sum(input: &Tensor, out: &Output<'_>, mask: &[bool]) -> Result<()> {
    dispatch!(input.dtype(), "nansum_cpu", [f16, bf16, f32, f64], T => {
        into(input, out, mask, Order::Any, &NanSum::<T>(PhantomData), <T as Reduced>::sum)
    })
}

/// As [`sum`], of products.
pub(crate) fn product(input: &Tensor, out: &Output<'_>, mask: &[bool]) -> Result<()> {
    let input = without_bools(input)?;
    dispatch!(
        input.dtype(),
        "prod_cpu",
        [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>],
        T => into(&input, out, mask, Order::Any, &Product::<T>(PhantomData), <T as Reduced>::sum)
    )
}

/// Sums of floats, divided by how many they are of before they are rounded.
pub(crate) fn mean(input: &Tensor, out: &Output<'_>, mask: &[bool], count: i64) -> Result<()> {
    let finish_by = count as f64;
    dispatch!(
        input.dtype(),
        "mean_cpu",
        [f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>],
        T => {
            let finish = |sum: <T as Reduced>::Acc| T::narrow(sum.div(finish_by));
            into(input, out, mask, Order::Any, &Sum::<T>(PhantomData), finish)
        }
    )
}

/// As [`mean`], of what is a number.
pub(crate) fn nan_mean(input: &Tensor, out: &Output<'_>, mask: &[bool]) -> Result<()> {
    dispatch!(
        input.dtype(),
        "nanmean_cpu",
        [f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>],
        T => {
            let finish = |(sum, n): (<T as Reduced>::Acc, i64)| T::narrow(sum.div(n as f64));
            into(input, out, mask, Order::Any, &NanMean::<T>(PhantomData), finish)
        }
    )
}
