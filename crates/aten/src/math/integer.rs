//! [`Integer`]: arithmetic of one integer, which wraps and never panics.

use std::fmt::Debug;

mod sealed {
    pub trait Sealed {}
}

/// An integer that kernels compute with: any of 8, 16, 32 or 64 bits.
///
/// What does not fit wraps. A division by zero is refused by the operators before it comes here; here it
/// gives 0.
pub trait Integer: sealed::Sealed + Copy + Debug + Default + Ord + Send + Sync + 'static {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// `self + other`, wrapping.
    fn add(self, other: Self) -> Self;
    /// `self − other`, wrapping.
    fn sub(self, other: Self) -> Self;
    /// `self · other`, wrapping.
    fn mul(self, other: Self) -> Self;
    /// `−self`, wrapping.
    fn neg(self) -> Self;
    /// The size; of the least number, that number.
    fn abs(self) -> Self;
    /// −1, 0 or 1.
    fn sign(self) -> Self;
    /// The quotient, cut off towards zero.
    fn trunc_divide(self, divisor: Self) -> Self;
    /// The quotient, rounded towards −∞.
    fn floor_divide(self, divisor: Self) -> Self;
    /// The rest of [`trunc_divide`](Self::trunc_divide): the sign of the dividend.
    fn fmod(self, divisor: Self) -> Self;
    /// The rest of [`floor_divide`](Self::floor_divide): the sign of the divisor.
    fn remainder(self, divisor: Self) -> Self;
    /// A power, wrapping. A negative one is ±1 for a base of ±1, and 0 for any other.
    fn pow(self, exponent: Self) -> Self;
    /// Shifted to higher bits; 0 where the shift is negative or not less than the width.
    fn shift_left(self, by: Self) -> Self;
    /// Shifted to lower bits with the sign; all sign where the shift is negative or not less than the width.
    fn shift_right(self, by: Self) -> Self;
    /// The greatest common divisor, not negative; of zeros, 0.
    fn gcd(self, other: Self) -> Self;
    /// The least common multiple, not negative; with a zero, 0.
    fn lcm(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($int:ty, signed: $signed:literal;)*) => {$(
        impl sealed::Sealed for $int {}

        #[allow(unused_comparisons, reason = "the same text for the types without a sign")]
        impl Integer for $int {
            const ZERO: Self = 0;
            const ONE: Self = 1;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }

            #[inline(always)]
            fn abs(self) -> Self {
                if self < 0 { self.wrapping_neg() } else { self }
            }

            #[inline(always)]
            fn sign(self) -> Self {
                // In a type without a sign nothing is below zero.
                Self::from(self > 0).wrapping_sub(Self::from(self < 0))
            }

            #[inline(always)]
            fn trunc_divide(self, divisor: Self) -> Self {
                if divisor == 0 { 0 } else { self.wrapping_div(divisor) }
            }

            #[inline(always)]
            fn floor_divide(self, divisor: Self) -> Self {
                let rest = self.fmod(divisor);
                let borrows = rest != 0 && (rest < 0) != (divisor < 0);
                self.trunc_divide(divisor).wrapping_sub(Self::from(borrows))
            }

            #[inline(always)]
            fn fmod(self, divisor: Self) -> Self {
                if divisor == 0 { 0 } else { self.wrapping_rem(divisor) }
            }

            #[inline(always)]
            fn remainder(self, divisor: Self) -> Self {
                let rest = self.fmod(divisor);
                if rest != 0 && (rest < 0) != (divisor < 0) { rest.wrapping_add(divisor) } else { rest }
            }

            #[inline]
            fn pow(self, exponent: Self) -> Self {
                if exponent < 0 {
                    let minus_one = (0 as Self).wrapping_sub(1);
                    return match self {
                        1 => 1,
                        base if base == minus_one && exponent % 2 == 0 => 1,
                        base if base == minus_one => minus_one,
                        _ => 0,
                    };
                }
                let (mut base, mut exponent, mut result) = (self, exponent, 1 as Self);
                while exponent != 0 {
                    if exponent & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    exponent >>= 1;
                }
                result
            }

            #[inline(always)]
            fn shift_left(self, by: Self) -> Self {
                match u32::try_from(by) {
                    Ok(by) if by < Self::BITS => self.wrapping_shl(by),
                    _ => 0,
                }
            }

            #[inline(always)]
            fn shift_right(self, by: Self) -> Self {
                // One less than the width leaves the sign alone in a signed type.
                let most = if $signed { Self::BITS - 1 } else { Self::BITS };
                match u32::try_from(by) {
                    Ok(by) if by < Self::BITS => self >> by,
                    _ => self.checked_shr(most).unwrap_or(0),
                }
            }

            fn gcd(self, other: Self) -> Self {
                let (mut a, mut b) = (Integer::abs(self), Integer::abs(other));
                while a != 0 {
                    (a, b) = (b.wrapping_rem(a), a);
                }
                Integer::abs(b)
            }

            fn lcm(self, other: Self) -> Self {
                match self.gcd(other) {
                    0 => 0,
                    divisor => Integer::abs(self.wrapping_div(divisor).wrapping_mul(other)),
                }
            }
        }
    )*};
}

integers! {
    u8, signed: false;
    i8, signed: true;
    u16, signed: false;
    i16, signed: true;
    u32, signed: false;
    i32, signed: true;
    u64, signed: false;
    i64, signed: true;
}
