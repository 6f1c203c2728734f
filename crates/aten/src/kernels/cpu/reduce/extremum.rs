//! The least and the greatest elements, and where they are. A NaN is beyond all numbers on either side, and the
//! first of several equal elements counts.

use std::marker::PhantomData;

use c10_core::{ScalarType, bf16, f16};

use super::element::{Ordered, Reduced};
use super::engine::Reducer;
use super::layout::Order;
use super::{into, into_two, without_bools};
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::ops::Output;
use crate::tensor::Tensor;

/// Which extremum is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Least,
    Greatest,
}

struct Extremum<T, const GREATEST: bool>(PhantomData<T>);

impl<T: Ordered + Reduced, const GREATEST: bool> Reducer for Extremum<T, GREATEST> {
    type In = T;
    type Acc = T;
    const VECTORISED: bool = T::VECTORISED;
    #[inline(always)]
    fn start(&self) -> T {
        if GREATEST { T::LEAST } else { T::GREATEST }
    }
    #[inline(always)]
    fn step(&self, acc: T, x: T, _i: usize) -> T {
        self.merge(acc, x)
    }
    #[inline(always)]
    fn merge(&self, a: T, b: T) -> T {
        let beyond = if GREATEST { b > a } else { b < a };
        let better = if beyond { b } else { a };
        if b.is_nan() { b } else { better }
    }
}

/// The extremum and its index; none yet where the index is `usize::MAX`.
struct Located<T, const GREATEST: bool>(PhantomData<T>);

impl<T: Ordered + Reduced, const GREATEST: bool> Reducer for Located<T, GREATEST> {
    type In = T;
    type Acc = (T, usize);
    #[inline(always)]
    fn start(&self) -> (T, usize) {
        (T::default(), usize::MAX)
    }
    #[inline(always)]
    fn step(&self, acc: (T, usize), x: T, i: usize) -> (T, usize) {
        self.merge(acc, (x, i))
    }
    #[inline(always)]
    fn merge(&self, a: (T, usize), b: (T, usize)) -> (T, usize) {
        let beyond = if GREATEST { b.0 > a.0 } else { b.0 < a.0 };
        let same = b.0 == a.0 || (a.0.is_nan() && b.0.is_nan());
        let better = (beyond || b.0.is_nan()) && !a.0.is_nan();
        if a.1 == usize::MAX || (b.1 != usize::MAX && (better || (same && b.1 < a.1))) { b } else { a }
    }
}

struct Both<T>(PhantomData<T>);

impl<T: Ordered + Reduced> Reducer for Both<T> {
    type In = T;
    type Acc = (T, T);
    #[inline(always)]
    fn start(&self) -> (T, T) {
        (T::GREATEST, T::LEAST)
    }
    #[inline(always)]
    fn step(&self, acc: (T, T), x: T, _i: usize) -> (T, T) {
        self.merge(acc, (x, x))
    }
    #[inline(always)]
    fn merge(&self, a: (T, T), b: (T, T)) -> (T, T) {
        let (least, greatest) = (Extremum::<T, false>(PhantomData), Extremum::<T, true>(PhantomData));
        (least.merge(a.0, b.0), greatest.merge(a.1, b.1))
    }
}

/// Calls `$body` with the element type of a real dtype.
macro_rules! real {
    ($dtype:expr, $name:expr, $T:ident => $body:expr) => {
        dispatch!($dtype, $name, [u8, i8, i16, i32, i64, f16, bf16, f32, f64], $T => $body)
    };
}

/// `out` has the dtype of `input`, of which no output is without an element.
pub(crate) fn extremum(input: &Tensor, out: &Output<'_>, mask: &[bool], side: Side) -> Result<()> {
    let input = without_bools(input)?;
    let name = if side == Side::Greatest { "max_values_cpu" } else { "min_values_cpu" };
    real!(input.dtype(), name, T => match side {
        Side::Greatest => into(&input, out, mask, Order::Any, &Extremum::<T, true>(PhantomData), |x| x),
        Side::Least => into(&input, out, mask, Order::Any, &Extremum::<T, false>(PhantomData), |x| x),
    })
}

/// `outs` are of the dtype of `input`.
pub(crate) fn min_and_max(input: &Tensor, outs: [&Output<'_>; 2], mask: &[bool]) -> Result<()> {
    let input = without_bools(input)?;
    real!(input.dtype(), "aminmax_cpu", T => {
        into_two(&input, outs, mask, Order::Any, &Both::<T>(PhantomData), |both| both)
    })
}

/// Where the extrema are: an `i64` index into the masked dimensions, in row-major order.
pub(crate) fn arg_extremum(input: &Tensor, out: &Output<'_>, mask: &[bool], side: Side) -> Result<()> {
    let name = if side == Side::Greatest { "argmax_cpu" } else { "argmin_cpu" };
    let index = |found: usize| found as i64;
    real!(input.dtype(), name, T => match side {
        Side::Greatest => {
            into(input, out, mask, Order::RowMajor, &Located::<T, true>(PhantomData), |x| index(x.1))
        }
        Side::Least => {
            into(input, out, mask, Order::RowMajor, &Located::<T, false>(PhantomData), |x| index(x.1))
        }
    })
}

/// The extrema, and where they are.
pub(crate) fn extremum_with_index(
    input: &Tensor,
    outs: [&Output<'_>; 2],
    mask: &[bool],
    side: Side,
) -> Result<()> {
    let name = if side == Side::Greatest { "max_cpu" } else { "min_cpu" };
    let input = if input.dtype() == ScalarType::Bool { without_bools(input)? } else { input.clone() };
    real!(input.dtype(), name, T => {
        let finish = |(value, index): (T, usize)| (value, index as i64);
        match side {
            Side::Greatest => {
                into_two(&input, outs, mask, Order::RowMajor, &Located::<T, true>(PhantomData), finish)
            }
            Side::Least => {
                into_two(&input, outs, mask, Order::RowMajor, &Located::<T, false>(PhantomData), finish)
            }
        }
    })
}
