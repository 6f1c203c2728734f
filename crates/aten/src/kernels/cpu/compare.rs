//! Loops of comparisons, bits and truth values.

use c10_core::Complex;

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{binary, compute, unary};
use crate::math::Integer;

macro_rules! comparisons {
    ($($name:ident $operator:tt [$($lane:ty),*];)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            compute!(iter.common_dtype(), stringify!($name), [$($lane),*], T => {
                binary(iter, |a: T, b: T| a $operator b)
            })
        }
    )*};
}
comparisons! {
    eq == [bool, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>];
    ne != [bool, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>];
    lt < [bool, u8, i8, i16, i32, i64, f32, f64];
    le <= [bool, u8, i8, i16, i32, i64, f32, f64];
    gt > [bool, u8, i8, i16, i32, i64, f32, f64];
    ge >= [bool, u8, i8, i16, i32, i64, f32, f64];
}

macro_rules! bits {
    ($($name:ident $operator:tt;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            compute!(
                iter.common_dtype(),
                stringify!($name),
                [bool, u8, i8, u16, i16, u32, i32, u64, i64],
                T => binary(iter, |a: T, b: T| a $operator b)
            )
        }
    )*};
}
bits! {
    bitwise_and &;
    bitwise_or |;
    bitwise_xor ^;
}

pub(crate) fn bitwise_not(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "bitwise_not", [bool, u8, i8, i16, i32, i64], T => {
        unary(iter, |a: T| !a)
    })
}

pub(crate) fn shift_left(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "lshift_cpu", [u8, i8, i16, i32, i64], T => {
        binary(iter, |a: T, b: T| Integer::shift_left(a, b))
    })
}

pub(crate) fn shift_right(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "rshift_cpu", [u8, i8, i16, i32, i64], T => {
        binary(iter, |a: T, b: T| Integer::shift_right(a, b))
    })
}

macro_rules! truths {
    ($($name:ident $operator:tt;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            compute!(
                iter.common_dtype(),
                stringify!($name),
                [bool, u8, i8, i16, i32, i64, f32, f64, Complex<f32>, Complex<f64>],
                T => {
                    let zero = T::default();
                    binary(iter, |a: T, b: T| (a != zero) $operator (b != zero))
                }
            )
        }
    )*};
}
truths! {
    logical_and &;
    logical_or |;
    logical_xor ^;
}

pub(crate) fn logical_not(iter: &TensorIter<'_>) -> Result<()> {
    compute!(
        iter.common_dtype(),
        "logical_not",
        [bool, u8, i8, i16, i32, i64, f32, f64, Complex<f32>, Complex<f64>],
        T => {
            let zero = T::default();
            unary(iter, |a: T| a == zero)
        }
    )
}
