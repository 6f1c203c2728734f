//! [`Element`]: the Rust types that are elements of tensors, one for each [`ScalarType`].

use std::fmt::{Debug, Display};

use half::{bf16, f16};

use crate::complex::Complex;
use crate::error::Result;
use crate::float8::{F8E4M3Fn, F8E5M2};
use crate::scalar::Scalar;
use crate::scalar::convert::FloatRange;
use crate::scalar_type::ScalarType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that an element of a tensor can have (`c10::CppTypeToScalarType`).
///
/// Sealed: its implementors are exactly one type for each [`ScalarType`], of that type's
/// [`element_size`](ScalarType::element_size). A byte of a tensor of `bool`s may hold any value and is read
/// as `!= 0`; of every other type all bits are valid.
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + Debug + Display + Into<Scalar> + Send + Sync + 'static
{
    /// The type of an element that is a `Self`.
    const SCALAR_TYPE: ScalarType;

    /// [`Scalar::to`].
    ///
    /// # Errors
    /// As there.
    fn from_scalar(scalar: Scalar) -> Result<Self>;
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const SCALAR_TYPE: ScalarType = ScalarType::Bool;

    fn from_scalar(scalar: Scalar) -> Result<Self> {
        Ok(scalar.to_bool())
    }
}

macro_rules! integers {
    ($($int:ty => $scalar_type:ident;)*) => {$(
        impl sealed::Sealed for $int {}

        impl Element for $int {
            const SCALAR_TYPE: ScalarType = ScalarType::$scalar_type;

            fn from_scalar(scalar: Scalar) -> Result<Self> {
                scalar.to_integer(Self::MIN.into(), Self::MAX.into()).map(|value| value as Self).ok_or_else(
                    || scalar.does_not_fit(Self::SCALAR_TYPE, &Self::MIN.to_string(), &Self::MAX.to_string()),
                )
            }
        }
    )*};
}

integers! {
    u8 => UInt8;
    i8 => Int8;
    u16 => UInt16;
    i16 => Int16;
    u32 => UInt32;
    i32 => Int32;
    u64 => UInt64;
    i64 => Int64;
}

macro_rules! floats {
    ($($float:ty => $scalar_type:ident, infinity: $has_infinity:literal, $from_real:expr;)*) => {$(
        impl sealed::Sealed for $float {}

        impl Element for $float {
            const SCALAR_TYPE: ScalarType = ScalarType::$scalar_type;

            fn from_scalar(scalar: Scalar) -> Result<Self> {
                let range = FloatRange { max: Self::MAX.into(), has_infinity: $has_infinity };
                scalar.to_float(range).map($from_real).ok_or_else(|| {
                    scalar.does_not_fit(Self::SCALAR_TYPE, &format!("{:?}", Self::MIN), &format!("{:?}", Self::MAX))
                })
            }
        }
    )*};
}

floats! {
    F8E4M3Fn => Float8E4M3Fn, infinity: false, |real| Self::from_f32(real.to_f32());
    F8E5M2 => Float8E5M2, infinity: true, |real| Self::from_f32(real.to_f32());
    f16 => Float16, infinity: true, |real| Self::from_f32(real.to_f32());
    bf16 => BFloat16, infinity: true, |real| Self::from_f32(real.to_f32());
    f32 => Float32, infinity: true, |real| real.to_f32();
    f64 => Float64, infinity: true, |real| real.to_f64();
}

macro_rules! complex_numbers {
    ($($float:ty => $scalar_type:ident, $from_real:expr;)*) => {$(
        impl sealed::Sealed for Complex<$float> {}

        impl Element for Complex<$float> {
            const SCALAR_TYPE: ScalarType = ScalarType::$scalar_type;

            fn from_scalar(scalar: Scalar) -> Result<Self> {
                let range = FloatRange { max: <$float>::MAX.into(), has_infinity: true };
                match scalar.to_complex(range) {
                    Some((re, im)) => Ok(Complex::new(re, im).map($from_real)),
                    None => Err(scalar.does_not_fit(
                        Self::SCALAR_TYPE,
                        &format!("{:?}", <$float>::MIN),
                        &format!("{:?} in each part", <$float>::MAX),
                    )),
                }
            }
        }
    )*};
}

complex_numbers! {
    f16 => Complex32, |real| f16::from_f32(real.to_f32());
    bf16 => BComplex32, |real| bf16::from_f32(real.to_f32());
    f32 => Complex64, |real| real.to_f32();
    f64 => Complex128, |real| real.to_f64();
}
