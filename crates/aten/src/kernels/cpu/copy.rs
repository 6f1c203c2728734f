//! Copies with conversion between dtypes.

use c10_core::{Complex, F8E4M3Fn, F8E5M2, ScalarType, bf16, f16};

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::loops::{self, Elem, dispatch};

/// `out = a`, where a complex number loses its imaginary part, and a float becomes an integer by [one rule](OfFloat).
/// For dtypes with no [way between](way_between) them.
pub(crate) fn convert(iter: &TensorIter<'_>) -> Result<()> {
    if iter.dtype(0) == iter.dtype(1) {
        return same(iter);
    }
    dispatch!(
        iter.dtype(1),
        "copy_",
        [
            bool, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>,
            Complex<bf16>, F8E4M3Fn, F8E5M2
        ],
        A => A::to(iter)
    )
}

/// The dtype by which a conversion goes in two steps, where no loop does it in one.
///
/// Not all of the 361 pairs of dtypes have a loop: only those that are both common, those from what a number may
/// be (`fill_`), and those from and to the widest of the first one's category. That holds every number of the
/// category, so that nothing is lost on the way.
pub(crate) fn way_between(from: ScalarType, to: ScalarType) -> Option<ScalarType> {
    use ScalarType as S;
    let widest = match from {
        S::UInt64 => S::UInt64,
        _ if from.is_complex() => S::Complex128,
        _ if from.is_floating_point() => S::Float64,
        _ => S::Int64,
    };
    let is_common = |dtype| {
        matches!(
            dtype,
            S::Bool | S::UInt8 | S::Int32 | S::Int64 | S::Float16 | S::BFloat16 | S::Float32 | S::Float64
        )
    };
    let is_full = matches!(from, S::Bool | S::Float32) || from == widest;
    let direct = is_full || from == to || to == widest || (is_common(from) && is_common(to));
    if direct { None } else { Some(widest) }
}

/// A copy without conversion keeps every bit, those of a NaN too.
fn same(iter: &TensorIter<'_>) -> Result<()> {
    dispatch!(
        iter.dtype(0),
        "copy_",
        [
            bool, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>,
            Complex<bf16>, F8E4M3Fn, F8E5M2
        ],
        T => loops::unary(iter, |a: T| a)
    )
}

/// The loops of a dtype that is converted.
trait Source: Convert {
    fn to(iter: &TensorIter<'_>) -> Result<()>;
}

macro_rules! sources {
    ($($to:tt => $($from:ty),*;)*) => {$(
        sources! { @each $to $($from),* }
    )*};
    (@each $to:tt $($from:ty),*) => {$(
        impl Source for $from {
            fn to(iter: &TensorIter<'_>) -> Result<()> {
                dispatch!(iter.dtype(0), "copy_", $to, O => loops::unary(iter, |a: $from| O::of(a.wide())))
            }
        }
    )*};
}
sources! {
    [
        bool, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>,
        Complex<bf16>, F8E4M3Fn, F8E5M2
    ] => bool, u64, i64, f32, f64, Complex<f64>;
    [bool, u8, i32, i64, f16, bf16, f32, f64] => u8, i32, f16, bf16;
    [i64] => i8, u16, i16, u32;
    [f64] => F8E4M3Fn, F8E5M2;
    [Complex<f64>] => Complex<f16>, Complex<bf16>;
    [Complex<f16>, Complex<f64>] => Complex<f32>;
}

/// An element on its way from one dtype to another, without loss.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wide {
    Int(i64),
    UInt(u64),
    Float(f64),
    Complex(f64, f64),
}

/// An element that converts to and from all others.
pub(crate) trait Convert: Elem {
    fn wide(self) -> Wide;
    fn of(wide: Wide) -> Self;
}

/// How a float becomes an integer: the same number on every path, whichever loop or instruction converts.
///
/// The fraction is dropped, and a NaN is 0. Beyond the range of `i32`, `i64` and, above, `u64`, it is the nearest
/// end. The narrower integers take the low bits, as they do from integers: of an `i32` (of an `i64` for `u32`), and
/// are 0 beyond its range. A negative float becomes the `u64` with the bits of the `i64`.
///
/// This is PyTorch's answer wherever its paths agree, but for `i32` and `i64` out of range.
// Differs from PyTorch: its answer out of range is that of the processor's instruction, and differs with the
// machine and the path.
trait OfFloat {
    fn of_float(value: f64) -> Self;
}

macro_rules! of_floats {
    ($($int:ty, $value:ident => $of:expr;)*) => {$(
        impl OfFloat for $int {
            #[inline(always)]
            fn of_float($value: f64) -> Self {
                $of
            }
        }
    )*};
}
of_floats! {
    u8, value => low_bits(value) as Self;
    i8, value => low_bits(value) as Self;
    u16, value => low_bits(value) as Self;
    i16, value => low_bits(value) as Self;
    u32, value => if value < 9_223_372_036_854_775_808.0 { value as i64 as Self } else { 0 };
    i32, value => value as Self;
    i64, value => value as Self;
    u64, value => if value < 0.0 { value as i64 as Self } else { value as Self };
}

/// The integer whose low bits a narrow one takes. The least of `i32`, for which all lesser floats stand, has none.
#[inline(always)]
fn low_bits(value: f64) -> i32 {
    if value < 2_147_483_648.0 { value as i32 } else { 0 }
}

macro_rules! integers {
    ($($int:ty => $variant:ident,)*) => {$(
        impl Convert for $int {
            #[inline(always)]
            fn wide(self) -> Wide {
                Wide::$variant(self.into())
            }

            #[inline(always)]
            fn of(wide: Wide) -> Self {
                match wide {
                    Wide::Int(value) => value as Self,
                    Wide::UInt(value) => value as Self,
                    Wide::Float(value) | Wide::Complex(value, _) => <Self as OfFloat>::of_float(value),
                }
            }
        }
    )*};
}
integers! {
    u8 => Int, i8 => Int, u16 => Int, i16 => Int, u32 => Int, i32 => Int, i64 => Int, u64 => UInt,
}

macro_rules! floats {
    ($($float:ty, $value:ident => $of_f64:expr, $of_int:expr;)*) => {$(
        impl Convert for $float {
            #[inline(always)]
            fn wide(self) -> Wide {
                Wide::Float(self.into())
            }

            #[inline(always)]
            fn of(wide: Wide) -> Self {
                match wide {
                    Wide::Int($value) => $of_int,
                    Wide::UInt($value) => $of_int,
                    Wide::Float($value) | Wide::Complex($value, _) => $of_f64,
                }
            }
        }

    )*};
}
floats! {
    f16, value => Self::from_f32(value as f32), Self::from_f32(value as f32);
    f32, value => value as Self, value as Self;
    f64, value => value, value as Self;
}

macro_rules! small_floats {
    ($($float:ty),*) => {$(
        impl Convert for $float {
            #[inline(always)]
            fn wide(self) -> Wide {
                Wide::Float(self.to_f32().into())
            }

            #[inline(always)]
            fn of(wide: Wide) -> Self {
                Self::from_f32(f32::of(wide))
            }
        }
    )*};
}
small_floats!(bf16, F8E4M3Fn, F8E5M2);

macro_rules! complex_numbers {
    ($($part:ty),*) => {$(
        impl Convert for Complex<$part> {
            #[inline(always)]
            fn wide(self) -> Wide {
                Wide::Complex(self.re.into(), self.im.into())
            }

            #[inline(always)]
            fn of(wide: Wide) -> Self {
                let im = if let Wide::Complex(_, im) = wide { im } else { 0.0 };
                Self::new(<$part>::of(wide), <$part>::of(Wide::Float(im)))
            }
        }
    )*};
}
complex_numbers!(f16, bf16, f32, f64);

impl Convert for bool {
    #[inline(always)]
    fn wide(self) -> Wide {
        Wide::Int(self.into())
    }

    #[inline(always)]
    fn of(wide: Wide) -> Self {
        match wide {
            Wide::Int(value) => value != 0,
            Wide::UInt(value) => value != 0,
            Wide::Float(value) => value != 0.0,
            Wide::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }
}
