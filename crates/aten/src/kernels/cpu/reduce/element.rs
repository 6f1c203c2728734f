//! [`Reduced`]: what an element is summed up in, and what that comes to.

use c10_core::{Complex, Element, ScalarType, bf16, f16};

use crate::math::Float;
use crate::tensor::Plain;

/// An element that reductions read.
pub(crate) trait Reduced: Plain {
    /// Whether loops over it are worth being compiled for each instruction set.
    const VECTORISED: bool = false;
    /// Wide enough for sums: `i64` for integers, `f32` for half floats.
    type Acc: Number;
    /// What sums are stored as: `i64` for integers, else the element's own type.
    type Sum: Plain;

    fn widen(self) -> Self::Acc;
    fn narrow(acc: Self::Acc) -> Self;
    fn sum(acc: Self::Acc) -> Self::Sum;
}

/// What sums and products are computed in.
pub(crate) trait Number: Copy + Send + Sync + PartialEq + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// By a count.
    fn div(self, n: f64) -> Self;
    fn is_nan(self) -> bool;
}

/// A real element, in order but for NaN.
pub(crate) trait Ordered: Plain + PartialOrd {
    const LEAST: Self;
    const GREATEST: Self;
    fn is_nan(self) -> bool;
}

/// A real float, computed with in `f32` at least.
pub(crate) trait RealElement: Reduced<Acc = <Self as RealElement>::Real> + Ordered {
    type Real: Float + Number + Plain;
}

impl RealElement for f16 {
    type Real = f32;
}
impl RealElement for bf16 {
    type Real = f32;
}
impl RealElement for f32 {
    type Real = f32;
}
impl RealElement for f64 {
    type Real = f64;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Reduced for $int {
            type Acc = i64;
            type Sum = i64;
            #[inline(always)]
            fn widen(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn narrow(acc: i64) -> Self {
                acc as Self
            }
            #[inline(always)]
            fn sum(acc: i64) -> i64 {
                acc
            }
        }
        impl Ordered for $int {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
        }
    )*};
}
integers!(u8, i8, i16, i32, i64);

macro_rules! floats {
    ($($float:ty => $acc:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Reduced for $float {
            const VECTORISED: bool = matches!(<Self as Element>::SCALAR_TYPE, ScalarType::Float32 | ScalarType::Float64);
            type Acc = $acc;
            type Sum = Self;
            #[inline(always)]
            fn widen(self) -> $acc {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(acc: $acc) -> Self {
                $narrow(acc)
            }
            #[inline(always)]
            fn sum(acc: $acc) -> Self {
                $narrow(acc)
            }
        }
    )*};
}
floats! {
    f16 => f32, f16::to_f32, f16::from_f32;
    bf16 => f32, bf16::to_f32, bf16::from_f32;
    f32 => f32, std::convert::identity, std::convert::identity;
    f64 => f64, std::convert::identity, std::convert::identity;
    Complex<f16> => Complex<f32>, |x: Complex<f16>| x.map(f16::to_f32), |x: Complex<f32>| x.map(f16::from_f32);
    Complex<f32> => Complex<f32>, std::convert::identity, std::convert::identity;
    Complex<f64> => Complex<f64>, std::convert::identity, std::convert::identity;
}

macro_rules! ordered_floats {
    ($($float:ty),*) => {$(
        impl Ordered for $float {
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }
    )*};
}
ordered_floats!(f16, bf16, f32, f64);

impl Number for i64 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn div(self, n: f64) -> Self {
        self / n as i64
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! float_numbers {
    ($($float:ty),*) => {$(
        impl Number for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn div(self, n: f64) -> Self {
                self / n as Self
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                Float::is_nan(self)
            }
        }

        impl Number for Complex<$float> {
            const ZERO: Self = Self::new(0.0, 0.0);
            const ONE: Self = Self::new(1.0, 0.0);
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn div(self, n: f64) -> Self {
                self.map(|part| part / n as $float)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                Float::is_nan(self.re) || Float::is_nan(self.im)
            }
        }
    )*};
}
float_numbers!(f32, f64);
