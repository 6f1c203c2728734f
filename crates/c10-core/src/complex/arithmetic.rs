//! Arithmetic of [`Complex`] numbers whose parts are `f32` or `f64`.
//!
//! Products are the plain formula, as `c10::complex` has them: an infinite factor gives NaN parts where the
//! formula does. Quotients divide by the greater part of the divisor first, so that no intermediate value
//! overflows or vanishes where the quotient itself would not. `half` floats have no arithmetic of their own:
//! it is done in `f32` and rounded once.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::Complex;

macro_rules! assigning {
    ($($float:ty: $($name:ident $method:ident $operator:tt),*;)*) => {$($(
        impl $name for Complex<$float> {
            #[inline(always)]
            fn $method(&mut self, other: Self) {
                *self = *self $operator other;
            }
        }
    )*)*};
}

macro_rules! arithmetic {
    ($($float:ty),*) => {$(
        impl Complex<$float> {
            /// The number whose imaginary part has the other sign.
            #[inline(always)]
            pub const fn conj(self) -> Self {
                Self { re: self.re, im: -self.im }
            }

            /// The distance from zero, without overflow on the way (`std::abs`).
            #[inline]
            pub fn abs(self) -> $float {
                self.re.hypot(self.im)
            }

            /// The angle from the positive real axis, in radians from −π to π (`std::arg`).
            #[inline]
            pub fn arg(self) -> $float {
                self.im.atan2(self.re)
            }

            /// Both parts times a real number.
            #[inline(always)]
            pub fn scale(self, factor: $float) -> Self {
                Self { re: self.re * factor, im: self.im * factor }
            }
        }

        impl Neg for Complex<$float> {
            type Output = Self;

            #[inline(always)]
            fn neg(self) -> Self {
                Self { re: -self.re, im: -self.im }
            }
        }

        impl Add for Complex<$float> {
            type Output = Self;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self { re: self.re + other.re, im: self.im + other.im }
            }
        }

        impl Sub for Complex<$float> {
            type Output = Self;

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self { re: self.re - other.re, im: self.im - other.im }
            }
        }

        impl Mul for Complex<$float> {
            type Output = Self;

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self {
                    re: self.re * other.re - self.im * other.im,
                    im: self.re * other.im + self.im * other.re,
                }
            }
        }

        impl Div for Complex<$float> {
            type Output = Self;

            #[inline]
            fn div(self, by: Self) -> Self {
                if by.re.abs() >= by.im.abs() {
                    if by.re == 0.0 && by.im == 0.0 {
                        return Self { re: self.re / by.re.abs(), im: self.im / by.im.abs() };
                    }
                    let ratio = by.im / by.re;
                    let divisor = by.re + by.im * ratio;
                    Self {
                        re: (self.re + self.im * ratio) / divisor,
                        im: (self.im - self.re * ratio) / divisor,
                    }
                } else {
                    let ratio = by.re / by.im;
                    let divisor = by.re * ratio + by.im;
                    Self {
                        re: (self.re * ratio + self.im) / divisor,
                        im: (self.im * ratio - self.re) / divisor,
                    }
                }
            }
        }
    )*};
}

arithmetic!(f32, f64);

assigning! {
    f32: AddAssign add_assign +, SubAssign sub_assign -, MulAssign mul_assign *, DivAssign div_assign /;
    f64: AddAssign add_assign +, SubAssign sub_assign -, MulAssign mul_assign *, DivAssign div_assign /;
}
