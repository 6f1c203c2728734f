//! [`Complex`]: two numbers in a row, the element of the complex types.
//!
//! The type, its texts and its conversions here; its arithmetic beside.

mod arithmetic;

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};

use crate::error::{Error, ErrorKind, Result};

/// A complex number: the real part, then the imaginary part, without padding (`c10::complex`).
///
/// Differs from PyTorch: its alignment is that of a part, not of the pair, as in Rust's other complex types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

impl<T> Complex<T> {
    /// `re + im·j`.
    pub const fn new(re: T, im: T) -> Self {
        Self { re, im }
    }

    /// The same conversion of both parts.
    pub fn map<U>(self, convert: impl Fn(T) -> U) -> Complex<U> {
        Complex { re: convert(self.re), im: convert(self.im) }
    }
}

impl<T: Default> From<T> for Complex<T> {
    fn from(re: T) -> Self {
        Self { re, im: T::default() }
    }
}

impl From<Complex<f32>> for Complex<f64> {
    fn from(value: Complex<f32>) -> Self {
        value.map(f64::from)
    }
}

impl From<Complex<f16>> for Complex<f64> {
    fn from(value: Complex<f16>) -> Self {
        value.map(f64::from)
    }
}

impl From<Complex<bf16>> for Complex<f64> {
    fn from(value: Complex<bf16>) -> Self {
        value.map(f64::from)
    }
}

impl From<Complex<f16>> for Complex<f32> {
    fn from(value: Complex<f16>) -> Self {
        value.map(f32::from)
    }
}

impl From<Complex<bf16>> for Complex<f32> {
    fn from(value: Complex<bf16>) -> Self {
        value.map(f32::from)
    }
}

impl<T: Copy + fmt::Debug + Into<f64>> fmt::Display for Complex<T> {
    /// `1.5-2.0j`: both parts, each in the shortest text that gives it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let im: f64 = self.im.into();
        // A negative number brings its sign along; a NaN never shows one.
        let plus = if im.is_nan() || im.is_sign_positive() { "+" } else { "" };
        let (re, im) = (float_text(self.re, f.precision()), float_text(self.im, f.precision()));
        pad_number(f, &format!("{re}{plus}{im}j"))
    }
}

impl<T: FromStr + Default> FromStr for Complex<T> {
    type Err = Error;

    /// `1.5-2j`, or `-2j` alone; a text without the `j` is a real number.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when a part is no number.
    fn from_str(text: &str) -> Result<Self> {
        let part = |part: &str| {
            part.parse::<T>().map_err(|_| {
                Error::new(ErrorKind::Parse, format!("{} is no complex number", Error::quoted(text)))
            })
        };
        let Some(body) = text.strip_suffix('j') else { return Ok(Self::from(part(text)?)) };
        match sign_of_second_number(body) {
            None => Ok(Self { re: T::default(), im: part(body)? }),
            Some(at) => Ok(Self { re: part(&body[..at])?, im: part(&body[at..])? }),
        }
    }
}

/// Where the last sign stands that neither begins the text nor belongs to an exponent.
fn sign_of_second_number(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (1..bytes.len()).rev().find(|&i| matches!(bytes[i], b'+' | b'-') && !matches!(bytes[i - 1], b'e' | b'E'))
}

/// The shortest text that gives a float back, always with a point or an exponent, or as many decimals as
/// are asked for; `nan` and `inf` as PyTorch writes them.
pub(crate) fn float_text(value: impl fmt::Debug, decimals: Option<usize>) -> String {
    let text = match decimals {
        None => format!("{value:?}"),
        Some(decimals) => format!("{value:.decimals$?}"),
    };
    if text == "NaN" { "nan".to_owned() } else { text }
}

/// [`pad`](fmt::Formatter::pad), which would cut a text to the precision that its decimals already have.
pub(crate) fn pad_number(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if f.precision().is_some() { f.write_str(text) } else { f.pad(text) }
}
