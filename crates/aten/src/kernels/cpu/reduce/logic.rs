//! Whether elements are true, that is not zero: any, all, how many. A NaN is true.

use std::marker::PhantomData;

use c10_core::{Complex, ScalarType, bf16, f16};

use super::element::{Number, Reduced};
use super::engine::Reducer;
use super::into;
use super::layout::Order;
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::ops::Output;
use crate::tensor::Tensor;

/// How truths are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Any,
    All,
}

struct Together<T, const ALL: bool>(PhantomData<T>);

impl<T: Reduced, const ALL: bool> Reducer for Together<T, ALL> {
    type In = T;
    type Acc = bool;
    #[inline(always)]
    fn start(&self) -> bool {
        ALL
    }
    #[inline(always)]
    fn step(&self, acc: bool, x: T, _i: usize) -> bool {
        self.merge(acc, x.widen() != T::Acc::ZERO)
    }
    #[inline(always)]
    fn merge(&self, a: bool, b: bool) -> bool {
        if ALL { a & b } else { a | b }
    }
}

struct Count<T>(PhantomData<T>);

impl<T: Reduced> Reducer for Count<T> {
    type In = T;
    type Acc = i64;
    #[inline(always)]
    fn start(&self) -> i64 {
        0
    }
    #[inline(always)]
    fn step(&self, acc: i64, x: T, _i: usize) -> i64 {
        acc + i64::from(x.widen() != T::Acc::ZERO)
    }
    #[inline(always)]
    fn merge(&self, a: i64, b: i64) -> i64 {
        a + b
    }
}

/// Calls `$body` with the element type of a dtype, `u8` for `bool`.
macro_rules! any {
    ($dtype:expr, $name:expr, $T:ident => $body:expr) => {{
        let dtype = if $dtype == ScalarType::Bool { ScalarType::UInt8 } else { $dtype };
        dispatch!(
            dtype,
            $name,
            [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>],
            $T => $body
        )
    }};
}

/// `out` is of `bool`s or of `u8`s.
pub(crate) fn truth(input: &Tensor, out: &Output<'_>, mask: &[bool], truth: Truth) -> Result<()> {
    let name = if truth == Truth::All { "and_cpu" } else { "or_cpu" };
    any!(input.dtype(), name, T => match truth {
        Truth::All => into(input, out, mask, Order::Any, &Together::<T, true>(PhantomData), u8::from),
        Truth::Any => into(input, out, mask, Order::Any, &Together::<T, false>(PhantomData), u8::from),
    })
}

/// `out` is of `i64`s.
pub(crate) fn count_nonzero(input: &Tensor, out: &Output<'_>, mask: &[bool]) -> Result<()> {
    any!(input.dtype(), "count_nonzero_cpu", T => {
        into(input, out, mask, Order::Any, &Count::<T>(PhantomData), |n| n)
    })
}
