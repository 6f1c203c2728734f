//! What the dtype of a tensor decides when random numbers fill it.
//!
//! A distribution computes in `f64`, except where noted, and each result is rounded once more to the
//! element: by way of `f32` for the types of 16 bits.

use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Div, DivAssign, Sub};

use c10_core::{Element, bf16, f16};

use super::generator::Draws;

/// An element that can hold random integers and the results of a distribution.
pub trait Discrete: Element {
    /// The lower bits of an integer, or the nearest float.
    fn from_integer(value: i64) -> Self;

    /// A float rounded to this type, or its whole part.
    fn from_real(value: f64) -> Self;

    /// The bounds of `random_(from, to)` drawn in so far that no integer between them rounds to `to` or
    /// beyond, or below `from`. For types that hold all their integers exactly these are `from` and `to`.
    fn exact_bounds(from: i64, to: i64) -> (i64, i64) {
        (from, to)
    }

    /// An integer from 0 to what the type holds exactly: its maximum, or two to the number of bits in its
    /// significand (`random_()` without bounds).
    fn random(draws: &mut Draws<'_>) -> Self;

    /// An integer from `base` on, `range` of them (`random_(from, to)`).
    #[inline]
    fn random_from_to(draws: &mut Draws<'_>, range: NonZeroU64, base: i64) -> Self {
        // A remainder prefers small numbers: by one part in sixteen at most with 32 bits below this range.
        let value = if range.get() >= 1 << 28 { draws.random64() } else { u64::from(draws.random()) };
        Self::from_integer((value % range).wrapping_add_signed(base) as i64)
    }

    /// Any integer of 64 bits (`random_` from `i64::MIN` on without an upper bound).
    #[inline]
    fn random_of_64_bits(draws: &mut Draws<'_>) -> Self {
        Self::from_integer(draws.random64() as i64)
    }
}

/// A real floating-point element: the types that can be filled with continuous distributions.
pub trait Continuous: Discrete + PartialOrd {
    /// In what it is computed: `f64` for itself, `f32` for all others.
    type Op: Real;

    /// Rounded to this type.
    fn from_op(value: Self::Op) -> Self;

    /// Exact.
    fn to_op(self) -> Self::Op;
}

/// `f32` or `f64`.
pub trait Real:
    Continuous<Op = Self> + Add<Output = Self> + Sub<Output = Self> + Div<Output = Self> + AddAssign + DivAssign
{
    /// A number in [0, 1) with as many random bits as its significand has.
    fn unit(draws: &mut Draws<'_>) -> Self;

    /// Sixteen uniform numbers become sixteen normal ones: the first eight give the radii, the last eight
    /// the angles.
    fn box_muller(block: &mut [Self; 16], mean: Self, std: Self);

    /// Exact.
    fn to_f64(self) -> f64;

    /// `self · factor + offset`, rounded once.
    fn mul_add(self, factor: Self, offset: Self) -> Self;
}

/// Numbers in [from, to) (`uniform_`).
#[derive(Clone, Copy, Debug)]
pub struct Uniform<T: Continuous> {
    from: T::Op,
    width: T::Op,
    rounded_from: T,
    rounded_to: T,
}

impl<T: Continuous> Uniform<T> {
    /// The distribution between bounds, which are rounded to the type first.
    pub fn new(from: f64, to: f64) -> Self {
        let (op_from, op_to) = (T::Op::from_real(from), T::Op::from_real(to));
        Self {
            from: op_from,
            width: op_to - op_from,
            rounded_from: T::from_real(from),
            rounded_to: T::from_real(to),
        }
    }

    /// The next number.
    #[inline]
    pub fn sample(&self, draws: &mut Draws<'_>) -> T {
        let value = T::from_op(T::Op::unit(draws).mul_add(self.width, self.from));
        // Rounding may reach the upper bound, which is not part of the range.
        if value == self.rounded_to { self.rounded_from } else { value }
    }
}

impl Discrete for bool {
    fn from_integer(value: i64) -> Self {
        value != 0
    }

    fn from_real(value: f64) -> Self {
        value != 0.0
    }

    #[inline]
    fn random(draws: &mut Draws<'_>) -> Self {
        draws.random() & 1 == 1
    }
}

macro_rules! integers {
    ($($int:ty: $word:ident;)*) => {$(
        impl Discrete for $int {
            #[inline]
            fn from_integer(value: i64) -> Self {
                value as Self
            }

            // By way of 64 bits, as processors convert: what is too large keeps its lower bits.
            #[inline]
            fn from_real(value: f64) -> Self {
                value as i64 as Self
            }

            // The count of values is a power of two: the remainder is a mask.
            #[inline]
            fn random(draws: &mut Draws<'_>) -> Self {
                draws.$word() as Self & Self::MAX
            }
        }
    )*};
}

integers! {
    u8: random;
    i8: random;
    u16: random;
    i16: random;
    u32: random;
    i32: random;
    u64: random64;
    i64: random64;
}

macro_rules! floats {
    ($($float:ty: $word:ident, $op:ty, $from_integer:expr, $from_real:expr, $from_op:expr, $to_op:expr;)*) => {$(
        impl Discrete for $float {
            #[inline]
            fn from_integer(value: i64) -> Self {
                $from_integer(value)
            }

            #[inline]
            fn from_real(value: f64) -> Self {
                $from_real(value)
            }

            fn exact_bounds(from: i64, to: i64) -> (i64, i64) {
                let rounded = |value: i64| whole(Self::from_integer(value).to_op().to_f64());
                let (above, below) = (from.wrapping_add(1), to.wrapping_sub(1));
                let (rounded_above, rounded_below) = (rounded(above), rounded(below));
                let from = if rounded_above < from {
                    rounded_above.wrapping_add(spacing(above, Self::MANTISSA_DIGITS))
                } else {
                    from
                };
                let to = if rounded_below >= to {
                    rounded_below.wrapping_sub(spacing(below, Self::MANTISSA_DIGITS))
                } else {
                    to
                };
                (from, to)
            }

            #[inline]
            fn random(draws: &mut Draws<'_>) -> Self {
                let count = (1_u64 << Self::MANTISSA_DIGITS) + 1;
                Self::from_integer((u64::from(draws.$word()) % count) as i64)
            }
        }

        impl Continuous for $float {
            type Op = $op;

            #[inline]
            fn from_op(value: $op) -> Self {
                $from_op(value)
            }

            #[inline]
            fn to_op(self) -> $op {
                $to_op(self)
            }
        }
    )*};
}

floats! {
    f16: random, f32, |i| Self::from_f32(i as f32), |x| Self::from_f32(x as f32), Self::from_f32, Self::to_f32;
    bf16: random, f32, |i| Self::from_f32(i as f32), |x| Self::from_f32(x as f32), Self::from_f32, Self::to_f32;
    f32: random, f32, |i| i as Self, |x| x as Self, |x| x, |x| x;
    f64: random64, f64, |i| i as Self, |x| x, |x| x, |x| x;
}

/// The distance of floats near `value` whose significand has so many bits.
fn spacing(value: i64, digits: u32) -> i64 {
    let exponent = value.unsigned_abs().checked_ilog2().unwrap_or(0);
    1_i64 << (exponent + 1).saturating_sub(digits)
}

/// The whole part as PyTorch's processors convert it: one that does not fit becomes the least integer.
fn whole(value: f64) -> i64 {
    if value < -(i64::MIN as f64) { value as i64 } else { i64::MIN }
}

macro_rules! reals {
    ($($real:ident: $word:ident;)*) => {$(
        impl Real for $real {
            #[inline]
            fn unit(draws: &mut Draws<'_>) -> Self {
                const ONE: u64 = 1 << $real::MANTISSA_DIGITS;
                (u64::from(draws.$word()) & (ONE - 1)) as Self * (1.0 / ONE as Self)
            }

            #[inline]
            fn box_muller(block: &mut [Self; 16], mean: Self, std: Self) {
                let (radii, angles) = block.split_at_mut(8);
                for (first, second) in radii.iter_mut().zip(angles) {
                    // 1 - u lies in (0, 1]: its logarithm is finite.
                    let radius = (-2.0 * (1.0 - *first).ln()).sqrt();
                    let (sin, cos) = ((2.0 * std::f64::consts::PI) as Self * *second).sin_cos();
                    *first = (radius * cos).mul_add(std, mean);
                    *second = (radius * sin).mul_add(std, mean);
                }
            }

            #[inline]
            fn to_f64(self) -> f64 {
                self.into()
            }

            #[inline]
            fn mul_add(self, factor: Self, offset: Self) -> Self {
                Self::mul_add(self, factor, offset)
            }
        }
    )*};
}

reals! {
    f32: random;
    f64: random64;
}
