//! The elements of a recorded tensor: from JSON to bytes, and back to text and numbers.
//!
//! The bytes are those of a storage of the type, in the machine's order. The text gives each element back: a
//! float of 16 or 8 bits is written as the `f32` of the same value.

use std::fmt::Write;

use c10_core::{Complex, F8E4M3Fn, F8E5M2, ScalarType, bf16, f16};
use serde_json::Value as Json;

/// An expression for the Rust type of a scalar type.
macro_rules! with_type {
    ($dtype:expr, $name:ident => $body:expr) => {{
        macro_rules! case {
            ($type:ty) => {{
                type $name = $type;
                $body
            }};
        }
        match $dtype {
            ScalarType::Bool => case!(bool),
            ScalarType::UInt8 => case!(u8),
            ScalarType::Int8 => case!(i8),
            ScalarType::UInt16 => case!(u16),
            ScalarType::Int16 => case!(i16),
            ScalarType::UInt32 => case!(u32),
            ScalarType::Int32 => case!(i32),
            ScalarType::UInt64 => case!(u64),
            ScalarType::Int64 => case!(i64),
            ScalarType::Float8E5M2 => case!(F8E5M2),
            ScalarType::Float8E4M3Fn => case!(F8E4M3Fn),
            ScalarType::Float16 => case!(f16),
            ScalarType::BFloat16 => case!(bf16),
            ScalarType::Float32 => case!(f32),
            ScalarType::Float64 => case!(f64),
            ScalarType::Complex32 => case!(Complex<f16>),
            ScalarType::BComplex32 => case!(Complex<bf16>),
            ScalarType::Complex64 => case!(Complex<f32>),
            ScalarType::Complex128 => case!(Complex<f64>),
        }
    }};
}

/// One element, as a number to compare.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

/// The bytes of the elements.
///
/// # Errors
/// An element that is none of the type, with its index.
pub(super) fn to_bytes(dtype: ScalarType, elements: &[Json]) -> Result<Vec<u8>, String> {
    with_type!(dtype, T => {
        let mut bytes = Vec::with_capacity(elements.len() * size_of::<T>());
        for (index, element) in elements.iter().enumerate() {
            let Some(value) = T::from_json(element) else {
                return Err(format!("element {index} is no {dtype}"));
            };
            value.push_to(&mut bytes);
        }
        Ok(bytes)
    })
}

/// The element at an index.
///
/// # Panics
/// There is none.
pub(super) fn number_at(dtype: ScalarType, bytes: &[u8], index: usize) -> Number {
    let size = dtype.element_size();
    let bytes = &bytes[index * size..(index + 1) * size];
    with_type!(dtype, T => T::from_bytes(bytes).number())
}

/// Writes the elements as a JSON array.
pub(super) fn write_elements(dtype: ScalarType, bytes: &[u8], text: &mut String) {
    text.push('[');
    with_type!(dtype, T => {
        for (index, bytes) in bytes.chunks_exact(size_of::<T>()).enumerate() {
            if index > 0 {
                text.push(',');
            }
            T::from_bytes(bytes).write_to(text);
        }
    });
    text.push(']');
}

/// Writes a float as JSON: the shortest text that gives it back, always with a point or an exponent; what
/// JSON has no number for is a string.
pub(super) fn write_float(value: impl Into<f64> + Copy + std::fmt::Debug, text: &mut String) {
    let wide: f64 = value.into();
    match non_finite_name(wide) {
        Some(name) => text.extend(["\"", name, "\""]),
        // Writing to a string cannot fail.
        None => {
            let _ = write!(text, "{value:?}");
        }
    }
}

/// `nan`, `inf` or `-inf`; `None` for what has digits.
pub(super) fn non_finite_name(value: f64) -> Option<&'static str> {
    match value {
        f64::INFINITY => Some("inf"),
        f64::NEG_INFINITY => Some("-inf"),
        _ => value.is_nan().then_some("nan"),
    }
}

/// A number, or the name of one that has no digits.
pub(super) fn float_from_json(json: &Json) -> Option<f64> {
    match json {
        Json::String(name) => non_finite(name),
        _ => json.as_f64(),
    }
}

/// The inverse of [`non_finite_name`].
pub(super) fn non_finite(name: &str) -> Option<f64> {
    match name {
        "nan" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// What a type of elements has to know.
trait Coded: Sized {
    fn from_json(json: &Json) -> Option<Self>;
    fn from_bytes(bytes: &[u8]) -> Self;
    fn push_to(self, bytes: &mut Vec<u8>);
    fn write_to(self, text: &mut String);
    fn number(self) -> Number;
}

impl Coded for bool {
    fn from_json(json: &Json) -> Option<Self> {
        json.as_bool()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        bytes != [0]
    }

    fn push_to(self, bytes: &mut Vec<u8>) {
        bytes.push(self.into());
    }

    fn write_to(self, text: &mut String) {
        text.push_str(if self { "true" } else { "false" });
    }

    fn number(self) -> Number {
        Number::Int(self.into())
    }
}

macro_rules! coded_integers {
    ($($int:ty),*) => {$(
        impl Coded for $int {
            fn from_json(json: &Json) -> Option<Self> {
                let wide = json.as_i64().map(i128::from).or_else(|| json.as_u64().map(i128::from))?;
                Self::try_from(wide).ok()
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("the bytes of one element"))
            }

            fn push_to(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_ne_bytes());
            }

            fn write_to(self, text: &mut String) {
                text.push_str(&self.to_string());
            }

            fn number(self) -> Number {
                Number::Int(self.into())
            }
        }
    )*};
}

coded_integers!(u8, i8, u16, i16, u32, i32, u64, i64);

/// `$round` takes an `f64` to the type, `$text` to the float whose text is written.
macro_rules! coded_floats {
    ($($float:ty, $bits:ty, $round:expr, $text:expr;)*) => {$(
        impl Coded for $float {
            fn from_json(json: &Json) -> Option<Self> {
                let wide = float_from_json(json)?;
                let value: Self = ($round)(wide);
                // A number that only infinity is near to is none of the type.
                (f64::from(value).is_finite() || !wide.is_finite()).then_some(value)
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_bits(<$bits>::from_bytes(bytes))
            }

            fn push_to(self, bytes: &mut Vec<u8>) {
                self.to_bits().push_to(bytes);
            }

            fn write_to(self, text: &mut String) {
                write_float($text(self), text);
            }

            fn number(self) -> Number {
                Number::Float(self.into())
            }
        }
    )*};
}

coded_floats! {
    F8E5M2, u8, |wide: f64| Self::from_f32(wide as f32), Self::to_f32;
    F8E4M3Fn, u8, |wide: f64| Self::from_f32(wide as f32), Self::to_f32;
    f16, u16, |wide: f64| Self::from_f32(wide as f32), Self::to_f32;
    bf16, u16, |wide: f64| Self::from_f32(wide as f32), Self::to_f32;
    f32, u32, |wide: f64| wide as f32, std::convert::identity;
    f64, u64, std::convert::identity, std::convert::identity;
}

impl<T: Coded + Copy + Into<f64>> Coded for Complex<T> {
    fn from_json(json: &Json) -> Option<Self> {
        match json.as_array()?.as_slice() {
            [re, im] => Some(Self::new(T::from_json(re)?, T::from_json(im)?)),
            _ => None,
        }
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let (re, im) = bytes.split_at(bytes.len() / 2);
        Self::new(T::from_bytes(re), T::from_bytes(im))
    }

    fn push_to(self, bytes: &mut Vec<u8>) {
        self.re.push_to(bytes);
        self.im.push_to(bytes);
    }

    fn write_to(self, text: &mut String) {
        text.push('[');
        self.re.write_to(text);
        text.push(',');
        self.im.write_to(text);
        text.push(']');
    }

    fn number(self) -> Number {
        Number::Complex(self.re.into(), self.im.into())
    }
}
