//! [`Scalar`]: one number of any kind, as operators take it beside tensors.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};

use crate::complex::{Complex, float_text, pad_number};
use crate::element::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::float8::{F8E4M3Fn, F8E5M2};
use crate::scalar_type::ScalarType;

pub(crate) mod convert;

/// One number, in the widest form of its kind (`c10::Scalar`).
///
/// Equality is by value: an integer equals the same number as a float or a complex number, and `bool`
/// equals `bool` alone. It is exact.
///
/// ```
/// use c10_core::Scalar;
///
/// assert_eq!(Scalar::from(2_u8), Scalar::from(2.0));
/// assert_eq!(Scalar::from(-1).to::<u8>()?, 255);
/// assert!(Scalar::from(300).to::<u8>().is_err());
/// # Ok::<(), c10_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that may be above `i64::MAX`. One that is not counts as an [`Int`](Self::Int), and is
    /// never made by `From`.
    UInt(u64),
    /// A floating-point number.
    Double(f64),
    /// A complex number.
    Complex(Complex<f64>),
}

/// The real part of a scalar; `i128` has room for both kinds of integers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Real {
    Int(i128),
    Float(f64),
}

impl Scalar {
    /// The number as a `T`, if it fits (`c10::Scalar::to`).
    ///
    /// As c10 has it: a fraction is cut off for an integer type, a negative *integer* whose absolute value
    /// fits an unsigned type wraps round (so that adding -1 to a `uint8` tensor subtracts), anything but zero
    /// is `true`, and floats round to the nearest.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] when the number is beyond the range of `T`, is a NaN or an infinity that `T`
    /// lacks, or has an imaginary part other than zero that `T` lacks.
    pub fn to<T: Element>(self) -> Result<T> {
        T::from_scalar(self)
    }

    /// The widest type of its kind: `bool`, `int64`, `uint64` above `i64::MAX`, `float64` or `complex128`
    /// (`c10::Scalar::type`).
    pub const fn scalar_type(self) -> ScalarType {
        match self {
            Self::Bool(_) => ScalarType::Bool,
            Self::Int(_) => ScalarType::Int64,
            Self::UInt(value) if value <= i64::MAX as u64 => ScalarType::Int64,
            Self::UInt(_) => ScalarType::UInt64,
            Self::Double(_) => ScalarType::Float64,
            Self::Complex(_) => ScalarType::Complex128,
        }
    }

    /// Whether it is an integer; a `bool` counts if `include_bool`.
    pub const fn is_integral(self, include_bool: bool) -> bool {
        self.scalar_type().is_integral(include_bool)
    }

    /// Whether it is a real floating-point number.
    pub const fn is_floating_point(self) -> bool {
        matches!(self, Self::Double(_))
    }

    /// Whether it is a complex number, be its imaginary part zero.
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::Complex(_))
    }

    /// Whether it is a truth value.
    pub const fn is_bool(self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// The real and the imaginary part; `true` is 1.
    pub(crate) const fn parts(self) -> (Real, f64) {
        match self {
            Self::Bool(value) => (Real::Int(value as i128), 0.0),
            Self::Int(value) => (Real::Int(value as i128), 0.0),
            Self::UInt(value) => (Real::Int(value as i128), 0.0),
            Self::Double(value) => (Real::Float(value), 0.0),
            Self::Complex(value) => (Real::Float(value.re), value.im),
        }
    }
}

impl Default for Scalar {
    /// The integer 0.
    fn default() -> Self {
        Self::Int(0)
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        let ((re, im), (other_re, other_im)) = (self.parts(), other.parts());
        // Differs from PyTorch: an integer and a float are compared as numbers, not after rounding the
        // integer, so that equality is transitive.
        self.is_bool() == other.is_bool() && re.equals(other_re) && im == other_im
    }
}

impl<T: Element> PartialEq<T> for Scalar {
    fn eq(&self, other: &T) -> bool {
        *self == (*other).into()
    }
}

impl Real {
    /// Whether the two are the same number; a NaN is none.
    fn equals(self, other: Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            // An infinity has no fraction of 0, and the cast of a float beyond `i128` saturates at a value
            // that no integer of 64 bits has.
            (Self::Int(int), Self::Float(float)) | (Self::Float(float), Self::Int(int)) => {
                float.fract() == 0.0 && float as i128 == int
            }
        }
    }
}

macro_rules! from_numbers {
    ($($number:ty => $scalar:expr;)*) => {$(
        impl From<$number> for Scalar {
            fn from(value: $number) -> Self {
                $scalar(value.into())
            }
        }
    )*};
}

from_numbers! {
    bool => Self::Bool;
    u8 => Self::Int;
    i8 => Self::Int;
    u16 => Self::Int;
    i16 => Self::Int;
    u32 => Self::Int;
    i32 => Self::Int;
    i64 => Self::Int;
    F8E4M3Fn => Self::Double;
    F8E5M2 => Self::Double;
    f16 => Self::Double;
    bf16 => Self::Double;
    f32 => Self::Double;
    f64 => Self::Double;
    Complex<f16> => Self::Complex;
    Complex<bf16> => Self::Complex;
    Complex<f32> => Self::Complex;
    Complex<f64> => Self::Complex;
}

impl From<u64> for Scalar {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::UInt(value), Self::Int)
    }
}

impl fmt::Display for Scalar {
    /// `true`, `3`, `2.5`, `1e300`, `nan`, `1.0-2.0j`: a float always has a point or an exponent, unless a
    /// precision is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => f.pad(if *value { "true" } else { "false" }),
            Self::Int(value) => f.pad_integral(*value >= 0, "", &value.unsigned_abs().to_string()),
            Self::UInt(value) => f.pad_integral(true, "", &value.to_string()),
            Self::Double(value) => pad_number(f, &float_text(value, f.precision())),
            Self::Complex(value) => value.fmt(f),
        }
    }
}

impl FromStr for Scalar {
    type Err = Error;

    /// The inverse of `Display`. Python's `True` and `False` are taken too.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when the text is no number, [`ErrorKind::Overflow`] for an integer that neither
    /// `i64` nor `u64` holds.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "true" | "True" => return Ok(Self::Bool(true)),
            "false" | "False" => return Ok(Self::Bool(false)),
            _ if text.ends_with('j') => return Ok(Self::Complex(text.parse()?)),
            _ => {}
        }
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return text
                .parse()
                .map(Self::Double)
                .map_err(|_| Error::new(ErrorKind::Parse, format!("{} is no number", Error::quoted(text))));
        }
        text.parse::<i64>().map(Self::Int).or_else(|_| text.parse::<u64>().map(Self::UInt)).map_err(|_| {
            Error::new(ErrorKind::Overflow, format!("{} fits no integer of 64 bits", Error::quoted(text)))
        })
    }
}
