//! [`Float`]: functions of one real number.

mod widths;

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for f32 {}
impl sealed::Sealed for f64 {}

/// A real number that kernels compute with: `f32` or `f64`.
///
/// In generic code its methods shadow the standard library's of the same name: of `f32` they are our own, which
/// vectorise and round to within two units in the last place. A method whose name says no more is C's
/// function of that name.
pub trait Float:
    sealed::Sealed
    + Copy
    + Debug
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Not a number.
    const NAN: Self;
    /// The positive infinity.
    const INFINITY: Self;
    /// The greatest finite number.
    const MAX: Self;

    /// The nearest number of this type.
    fn of(value: f64) -> Self;
    /// The same number, wider.
    fn wide(self) -> f64;

    /// `self · factor + summand`, rounded once.
    fn mul_add(self, factor: Self, summand: Self) -> Self;
    /// The size without the sign.
    fn abs(self) -> Self;
    /// The size of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// Whether it is not a number.
    fn is_nan(self) -> bool;
    /// Whether the sign bit is set.
    fn is_sign_negative(self) -> bool;
    /// Rounded towards −∞.
    fn floor(self) -> Self;
    /// Rounded towards +∞.
    fn ceil(self) -> Self;
    /// Rounded towards zero.
    fn trunc(self) -> Self;
    /// Rounded to the nearest integer, a half to the even one.
    fn round(self) -> Self;

    /// √.
    fn sqrt(self) -> Self;
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
    /// `self` to a power, with C99's answers at the edges.
    fn pow(self, exponent: Self) -> Self;
    /// √(self² + other²), without overflow on the way.
    fn hypot(self, other: Self) -> Self;

    /// Whether [`small_sin`](Self::small_sin) and its kin are right for this angle.
    fn is_small_angle(self) -> bool;
    /// The sine of a small angle, in straight-line code.
    fn small_sin(self) -> Self;
    /// The cosine of a small angle, in straight-line code.
    fn small_cos(self) -> Self;
    /// The tangent of a small angle, in straight-line code.
    fn small_tan(self) -> Self;
    /// The sine of any angle.
    fn sin(self) -> Self;
    /// The cosine of any angle.
    fn cos(self) -> Self;
    /// The tangent of any angle.
    fn tan(self) -> Self;
    /// The angle whose sine this is.
    fn asin(self) -> Self;
    /// The angle whose cosine this is.
    fn acos(self) -> Self;
    /// The angle whose tangent this is.
    fn atan(self) -> Self;
    /// The angle of the point `(x, self)`.
    fn atan2(self, x: Self) -> Self;
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

    /// The error function.
    fn erf(self) -> Self;
    /// `1 − erf(self)`.
    fn erfc(self) -> Self;
    /// The inverse of `erf`.
    fn erfinv(self) -> Self;
    /// `1 / (1 + exp(−self))`.
    fn sigmoid(self) -> Self;
    /// The logarithm of the size of Γ.
    fn lgamma(self) -> Self;
    /// The derivative of `ln Γ`.
    fn digamma(self) -> Self;
    /// The modified Bessel function of the first kind, of order 0.
    fn i0(self) -> Self;

    /// The neighbouring number in the direction of `towards`.
    fn nextafter(self, towards: Self) -> Self;

    /// `1 / √self`.
    #[inline(always)]
    fn rsqrt(self) -> Self {
        Self::ONE / self.sqrt()
    }

    /// The remainder of a division that was cut off towards zero: the sign of the dividend.
    #[inline(always)]
    fn fmod(self, divisor: Self) -> Self {
        self % divisor
    }

    /// The remainder of a floor division: the sign of the divisor, of a zero too.
    #[inline(always)]
    fn remainder(self, divisor: Self) -> Self {
        let rest = self % divisor;
        if rest == Self::ZERO {
            rest.copysign(divisor)
        } else if (divisor < Self::ZERO) != (rest < Self::ZERO) {
            rest + divisor
        } else {
            rest
        }
    }

    /// Python's `//`: the quotient of the exact remainder, so that `7 // 0.1` is 69. By zero it is the
    /// plain quotient.
    #[inline(always)]
    fn floor_divide(self, divisor: Self) -> Self {
        if divisor == Self::ZERO {
            return self / divisor;
        }
        let rest = self % divisor;
        let quotient = (self - rest) / divisor;
        let borrows = rest != Self::ZERO && (divisor < Self::ZERO) != (rest < Self::ZERO);
        let quotient = if borrows { quotient - Self::ONE } else { quotient };
        if quotient == Self::ZERO {
            return Self::ZERO.copysign(self / divisor);
        }
        // The quotient is an integer but for its own rounding.
        let floor = quotient.floor();
        if quotient - floor > Self::of(0.5) { floor + Self::ONE } else { floor }
    }

    /// `sin(πx) / (πx)`, and 1 at zero.
    #[inline(always)]
    fn sinc(self) -> Self {
        if self == Self::ZERO {
            return Self::ONE;
        }
        let angle = Self::of(std::f64::consts::PI) * self;
        angle.sin() / angle
    }

    /// `ln(exp(self) + exp(other))`, without overflow on the way.
    #[inline(always)]
    fn logaddexp(self, other: Self) -> Self {
        let (low, high) = if self < other { (self, other) } else { (other, self) };
        // Two equal infinities have no difference.
        if self == other && (self - other).is_nan() { self } else { high + (low - high).exp().log1p() }
    }

    /// `log2(2^self + 2^other)`, without overflow on the way.
    #[inline(always)]
    fn logaddexp2(self, other: Self) -> Self {
        let (low, high) = if self < other { (self, other) } else { (other, self) };
        let ln_2_inverse = Self::of(std::f64::consts::LOG2_E);
        if self == other && (self - other).is_nan() {
            self
        } else {
            high + (low - high).exp2().log1p() * ln_2_inverse
        }
    }

    /// `ln(self / (1 − self))`.
    #[inline(always)]
    fn logit(self) -> Self {
        (self / (Self::ONE - self)).ln()
    }

    /// `self · ln(other)`, zero where `self` is zero unless `other` is NaN.
    #[inline(always)]
    fn xlogy(self, other: Self) -> Self {
        if other.is_nan() {
            Self::NAN
        } else if self == Self::ZERO {
            Self::ZERO
        } else {
            self * other.ln()
        }
    }

    /// `self · ln(1 + other)`, zero where `self` is zero unless `other` is NaN.
    #[inline(always)]
    fn xlog1py(self, other: Self) -> Self {
        if other.is_nan() {
            Self::NAN
        } else if self == Self::ZERO {
            Self::ZERO
        } else {
            self * other.log1p()
        }
    }

    /// −1, 0 or 1, and 0 for NaN.
    #[inline(always)]
    fn sign(self) -> Self {
        let below = if self < Self::ZERO { Self::ONE } else { Self::ZERO };
        let above = if self > Self::ZERO { Self::ONE } else { Self::ZERO };
        above - below
    }

    /// The greater; NaN if either is.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        let greater = if self < other { other } else { self };
        if other.is_nan() { other } else { greater }
    }

    /// The lesser; NaN if either is.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        let lesser = if self > other { other } else { self };
        if other.is_nan() { other } else { lesser }
    }

    /// The greater; a NaN only if both are.
    #[inline(always)]
    fn fmax(self, other: Self) -> Self {
        let greater = if self < other { other } else { self };
        if self.is_nan() { other } else { greater }
    }

    /// The lesser; a NaN only if both are.
    #[inline(always)]
    fn fmin(self, other: Self) -> Self {
        let lesser = if self > other { other } else { self };
        if self.is_nan() { other } else { lesser }
    }
}
