//! The floats of eight bits: [`F8E4M3Fn`] and [`F8E5M2`].
//!
//! They only store: every value is exactly an `f32`, and an `f32` rounds to the nearest of theirs, ties to
//! even. What is out of range goes where PyTorch puts it: E4M3FN, which has no infinities, stops at its
//! largest value, infinities included; E5M2 goes to infinity, as IEEE has it. A NaN keeps its sign.

use std::cmp::Ordering;
use std::fmt;

/// Four bits of exponent and three of mantissa, largest value 448, no infinities, one NaN of each sign
/// (`c10::Float8_e4m3fn`).
///
/// ```
/// use c10_core::F8E4M3Fn;
///
/// assert_eq!(F8E4M3Fn::from_f32(0.3).to_f32(), 0.3125);
/// assert_eq!(F8E4M3Fn::from_f32(1e9), F8E4M3Fn::MAX);
/// ```
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct F8E4M3Fn(u8);

/// Five bits of exponent and two of mantissa, largest finite value 57344: the upper half of an IEEE half
/// (`c10::Float8_e5m2`).
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct F8E5M2(u8);

impl F8E4M3Fn {
    /// The largest value, 448.
    pub const MAX: Self = Self(0x7e);
    /// The smallest value, -448.
    pub const MIN: Self = Self(0xfe);
    /// The smallest positive normal value, 2⁻⁶.
    pub const MIN_POSITIVE: Self = Self(0x08);
    /// Not a number.
    pub const NAN: Self = Self(0x7f);

    /// The nearest value; the largest one of the sign for all that is beyond it.
    pub fn from_f32(value: f32) -> Self {
        let magnitude = if value.is_nan() {
            Self::NAN.0
        } else if value.is_infinite() {
            Self::MAX.0
        } else {
            round(value, 3, 7).min(Self::MAX.0.into()) as u8
        };
        Self(magnitude | sign_bit(value))
    }

    /// Whether it is not a number.
    pub const fn is_nan(self) -> bool {
        self.0 & 0x7f == Self::NAN.0
    }

    /// The same value.
    pub fn to_f32(self) -> f32 {
        if self.is_nan() { nan(self.0) } else { expand(self.0, 3, 7) }
    }
}

impl F8E5M2 {
    /// The largest finite value, 57344.
    pub const MAX: Self = Self(0x7b);
    /// The smallest finite value, -57344.
    pub const MIN: Self = Self(0xfb);
    /// The smallest positive normal value, 2⁻¹⁴.
    pub const MIN_POSITIVE: Self = Self(0x04);
    /// Positive infinity.
    pub const INFINITY: Self = Self(0x7c);
    /// Negative infinity.
    pub const NEG_INFINITY: Self = Self(0xfc);
    /// Not a number.
    pub const NAN: Self = Self(0x7f);

    /// The nearest value; an infinity for all that rounds beyond the largest finite one.
    pub fn from_f32(value: f32) -> Self {
        let magnitude = if value.is_nan() {
            Self::NAN.0
        } else if value.is_infinite() {
            Self::INFINITY.0
        } else {
            round(value, 2, 15).min(Self::INFINITY.0.into()) as u8
        };
        Self(magnitude | sign_bit(value))
    }

    /// Whether it is not a number.
    pub const fn is_nan(self) -> bool {
        self.0 & 0x7f > Self::INFINITY.0
    }

    /// Whether it is an infinity.
    pub const fn is_infinite(self) -> bool {
        self.0 & 0x7f == Self::INFINITY.0
    }

    /// The same value.
    pub fn to_f32(self) -> f32 {
        if self.is_nan() {
            nan(self.0)
        } else if self.is_infinite() {
            f32::INFINITY.copysign(signum(self.0))
        } else {
            expand(self.0, 2, 15)
        }
    }
}

macro_rules! eight_bit_float {
    ($($float:ident),*) => {$(
        impl $float {
            /// The value of these bits.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// Its bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }
        }

        impl From<$float> for f32 {
            fn from(value: $float) -> Self {
                value.to_f32()
            }
        }

        impl From<$float> for f64 {
            fn from(value: $float) -> Self {
                value.to_f32().into()
            }
        }

        impl PartialEq for $float {
            /// By value: the zeros are equal, a NaN equals nothing.
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $float {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Debug for $float {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $float {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    )*};
}

eight_bit_float!(F8E4M3Fn, F8E5M2);

/// The bits, without the sign, of the nearest float with so many bits of mantissa and an unbounded
/// exponent above the bias: a value beyond the format's range gives bits beyond it.
fn round(value: f32, mantissa_bits: u32, bias: i32) -> u32 {
    let bits = value.to_bits() & 0x7fff_ffff;
    let exponent = (bits >> 23) as i32 - 127 + bias;
    let shift = 23 - mantissa_bits;
    if exponent > 0 {
        // Exponent and mantissa are one number: a mantissa that rounds up carries into the exponent.
        return round_shift((exponent as u32) << 23 | (bits & 0x007f_ffff), shift);
    }
    // A subnormal of the format: the leading one is written out, and the shift grows. Below half of the
    // smallest value, subnormals of `f32` among them, nothing is left.
    match shift + exponent.unsigned_abs() + 1 {
        shift if shift <= 24 => round_shift((bits & 0x007f_ffff) | 0x0080_0000, shift),
        _ => 0,
    }
}

/// `bits >> shift` to nearest, ties to even.
fn round_shift(bits: u32, shift: u32) -> u32 {
    let odd = (bits >> shift) & 1;
    (bits + (1 << (shift - 1)) - 1 + odd) >> shift
}

/// The value of the bits of a finite float with so many bits of mantissa.
fn expand(bits: u8, mantissa_bits: u32, bias: i32) -> f32 {
    let mantissa = f32::from(bits & ((1 << mantissa_bits) - 1));
    let exponent = i32::from((bits & 0x7f) >> mantissa_bits);
    let one = (1 << mantissa_bits) as f32;
    // Products with powers of two within the range of `f32` are exact.
    let magnitude = match exponent {
        0 => mantissa / one * power_of_two(1 - bias),
        _ => (1.0 + mantissa / one) * power_of_two(exponent - bias),
    };
    magnitude * signum(bits)
}

/// 2ⁿ, for exponents of normal `f32`s.
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

fn sign_bit(value: f32) -> u8 {
    (value.to_bits() >> 24) as u8 & 0x80
}

fn signum(bits: u8) -> f32 {
    if bits & 0x80 == 0 { 1.0 } else { -1.0 }
}

fn nan(bits: u8) -> f32 {
    f32::NAN.copysign(signum(bits))
}
