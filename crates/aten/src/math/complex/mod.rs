//! [`ComplexFloat`]: functions of one complex number.
//!
//! They are written for `Complex<f64>`; those of `Complex<f32>` are taken there and rounded once, so that no
//! intermediate value overflows or cancels. Branch cuts, the sides of them that a signed zero picks, and
//! infinities are C99's.

mod exponential;
mod hyperbolic;
mod inverse;
mod root;

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

use c10_core::Complex;

use super::Float;

mod sealed {
    pub trait Sealed {}
}

type C64 = Complex<f64>;

/// A complex number that kernels compute with.
///
/// A method whose name says no more is C's function of that name.
pub trait ComplexFloat:
    sealed::Sealed
    + Copy
    + Debug
    + Default
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// What its parts are.
    type Part: Float;

    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// The number with these parts.
    fn of_parts(re: Self::Part, im: Self::Part) -> Self;
    /// The real part.
    fn re(self) -> Self::Part;
    /// The imaginary part.
    fn im(self) -> Self::Part;
    /// The same number, wider.
    fn wide(self) -> Complex<f64>;
    /// The nearest number of this type.
    fn of(value: Complex<f64>) -> Self;

    /// The number whose imaginary part has the other sign.
    fn conj(self) -> Self;
    /// The distance from zero.
    fn abs(self) -> Self::Part;
    /// The angle from the positive real axis.
    fn arg(self) -> Self::Part;
    /// The number of size 1 in the same direction, or 0.
    fn sgn(self) -> Self;
    /// `1 / self`.
    fn reciprocal(self) -> Self;
    /// The root whose real part is not negative.
    fn sqrt(self) -> Self;
    /// `1 / √self`.
    fn rsqrt(self) -> Self;
    /// e to this power.
    fn exp(self) -> Self;
    /// 2 to this power.
    fn exp2(self) -> Self;
    /// `exp(self) − 1`.
    fn expm1(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The logarithm to base 2.
    fn log2(self) -> Self;
    /// The logarithm to base 10.
    fn log10(self) -> Self;
    /// `ln(1 + self)`.
    fn log1p(self) -> Self;
    /// `self` to a power.
    fn pow(self, exponent: Self) -> Self;
    /// The sine.
    fn sin(self) -> Self;
    /// The cosine.
    fn cos(self) -> Self;
    /// The tangent.
    fn tan(self) -> Self;
    /// The inverse of `sin`.
    fn asin(self) -> Self;
    /// The inverse of `cos`.
    fn acos(self) -> Self;
    /// The inverse of `tan`.
    fn atan(self) -> Self;
    /// The hyperbolic sine.
    fn sinh(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The inverse of `sinh`.
    fn asinh(self) -> Self;
    /// The inverse of `cosh`.
    fn acosh(self) -> Self;
    /// The inverse of `tanh`.
    fn atanh(self) -> Self;
    /// `1 / (1 + exp(−self))`.
    fn sigmoid(self) -> Self;
    /// `sin(πz) / (πz)`, and 1 at zero.
    fn sinc(self) -> Self;

    /// Whether a part is not a number.
    fn is_nan(self) -> bool {
        self.re().is_nan() || self.im().is_nan()
    }
}

macro_rules! through_f64 {
    ($($name:ident = $function:path;)*) => {$(
        fn $name(self) -> Self {
            Self::of($function(self.wide()))
        }
    )*};
}

macro_rules! complex_floats {
    ($($part:ty),*) => {$(
        impl sealed::Sealed for Complex<$part> {}

        impl ComplexFloat for Complex<$part> {
            type Part = $part;

            const ZERO: Self = Self::new(0.0, 0.0);
            const ONE: Self = Self::new(1.0, 0.0);

            #[inline(always)]
            fn of_parts(re: $part, im: $part) -> Self {
                Self::new(re, im)
            }

            #[inline(always)]
            fn re(self) -> $part {
                self.re
            }

            #[inline(always)]
            fn im(self) -> $part {
                self.im
            }

            #[inline(always)]
            fn wide(self) -> C64 {
                self.map(Float::wide)
            }

            #[inline(always)]
            fn of(value: C64) -> Self {
                value.map(Float::of)
            }

            #[inline(always)]
            fn conj(self) -> Self {
                self.conj()
            }

            #[inline]
            fn abs(self) -> $part {
                self.abs()
            }

            #[inline]
            fn arg(self) -> $part {
                self.arg()
            }

            fn pow(self, exponent: Self) -> Self {
                Self::of(exponential::pow(self.wide(), exponent.wide()))
            }

            through_f64! {
                sgn = root::sgn;
                reciprocal = root::reciprocal;
                sqrt = root::sqrt;
                rsqrt = root::rsqrt;
                exp = exponential::exp;
                exp2 = exponential::exp2;
                expm1 = exponential::expm1;
                ln = exponential::ln;
                log2 = exponential::log2;
                log10 = exponential::log10;
                log1p = exponential::log1p;
                sigmoid = exponential::sigmoid;
                sin = hyperbolic::sin;
                cos = hyperbolic::cos;
                tan = hyperbolic::tan;
                sinh = hyperbolic::sinh;
                cosh = hyperbolic::cosh;
                tanh = hyperbolic::tanh;
                sinc = hyperbolic::sinc;
                asin = inverse::asin;
                acos = inverse::acos;
                atan = inverse::atan;
                asinh = inverse::asinh;
                acosh = inverse::acosh;
                atanh = inverse::atanh;
            }
        }
    )*};
}

complex_floats!(f32, f64);

/// `z · i`.
fn times_i(z: C64) -> C64 {
    C64::new(-z.im, z.re)
}

/// `z / i`.
fn over_i(z: C64) -> C64 {
    C64::new(z.im, -z.re)
}
