//! The checked conversions of [`Scalar`] to the types of elements: what fits, and what it becomes.
//!
//! The rules are c10's (`overflows`, `checked_convert`). Half, bfloat16 and the eight-bit floats are reached
//! through `f32`, as there: their results are rounded twice.

use super::{Real, Scalar};
use crate::error::{Error, ErrorKind};
use crate::scalar_type::ScalarType;

/// What a floating-point type has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatRange {
    /// Its largest finite value.
    pub(crate) max: f64,
    /// Whether it has infinities.
    pub(crate) has_infinity: bool,
}

impl Real {
    #[inline]
    pub(crate) fn to_f32(self) -> f32 {
        match self {
            // Machines convert what fits a word at once.
            Self::Int(value) => i64::try_from(value).map_or_else(|_| value as f32, |value| value as f32),
            Self::Float(value) => value as f32,
        }
    }

    #[inline]
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => i64::try_from(value).map_or_else(|_| value as f64, |value| value as f64),
            Self::Float(value) => value,
        }
    }

    fn is_zero(self) -> bool {
        match self {
            Self::Int(value) => value == 0,
            Self::Float(value) => value == 0.0,
        }
    }

    /// Whether it lies within the range before rounding: what would round into it does not fit.
    fn fits(self, range: FloatRange) -> bool {
        let value = self.to_f64();
        value.is_nan() || (value.is_infinite() && range.has_infinity) || value.abs() <= range.max
    }
}

impl Scalar {
    /// The real part, when there is no other.
    fn real(self) -> Option<Real> {
        let (re, im) = self.parts();
        (im == 0.0).then_some(re)
    }

    pub(crate) fn to_bool(self) -> bool {
        let (re, im) = self.parts();
        !re.is_zero() || im != 0.0
    }

    /// The whole part within the bounds of an integer type, or a negative integer that an unsigned type
    /// holds after wrapping round: the caller casts.
    pub(crate) fn to_integer(self, min: i128, max: i128) -> Option<i128> {
        match self.real()? {
            Real::Int(value) if min == 0 => (-max..=max).contains(&value).then_some(value),
            Real::Int(value) => (min..=max).contains(&value).then_some(value),
            // Both bounds are exact: powers of two and 0. The upper one itself does not fit.
            Real::Float(value) => (value >= min as f64 && value < (max + 1) as f64).then_some(value as i128),
        }
    }

    /// The real part of a number without another, within the range of a floating-point type.
    pub(crate) fn to_float(self, range: FloatRange) -> Option<Real> {
        self.real().filter(|re| re.fits(range))
    }

    /// Both parts, each within the range of a floating-point type.
    pub(crate) fn to_complex(self, range: FloatRange) -> Option<(Real, Real)> {
        let (re, im) = self.parts();
        let im = Real::Float(im);
        (re.fits(range) && im.fits(range)).then_some((re, im))
    }

    /// The error for a number that does not fit.
    #[cold]
    pub(crate) fn does_not_fit(self, target: ScalarType, min: &str, max: &str) -> Error {
        let why = match self.real() {
            None if !target.is_complex() => "the imaginary part is not zero".to_owned(),
            _ => format!("the range is {min} to {max}"),
        };
        Error::new(ErrorKind::Overflow, format!("the value {self} does not fit {target}: {why}"))
    }
}
