//! What `f32` and `f64` bring to [`Float`]: our own functions, the standard library's, or those of `special`.

use super::Float;
use crate::math::{single, special};

macro_rules! standard_methods {
    () => {
        standard_methods! {
            mul_add(factor, summand) abs() copysign(sign) floor() ceil() trunc() sqrt() hypot(other)
        }
        #[inline(always)]
        fn is_nan(self) -> bool {
            self.is_nan()
        }
        #[inline(always)]
        fn is_sign_negative(self) -> bool {
            self.is_sign_negative()
        }
        #[inline(always)]
        fn round(self) -> Self {
            self.round_ties_even()
        }
        fn nextafter(self, towards: Self) -> Self {
            if self.is_nan() || towards.is_nan() {
                Self::NAN
            } else if self == towards {
                towards
            } else if self < towards {
                self.next_up()
            } else {
                self.next_down()
            }
        }
    };
    ($($name:ident($($argument:ident),*))*) => {$(
        #[inline(always)]
        fn $name(self $(, $argument: Self)*) -> Self {
            self.$name($($argument),*)
        }
    )*};
}

/// Methods that call a function of `f32`.
macro_rules! own_methods {
    ($($name:ident($($argument:ident),*) = $function:path;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $argument: Self)*) -> Self {
            $function(self $(, $argument)*)
        }
    )*};
}

/// Methods that compute in `f64` and round once.
macro_rules! wide_methods {
    ($($name:ident = $function:expr;)*) => {$(
        #[inline]
        fn $name(self) -> Self {
            let function: fn(f64) -> f64 = $function;
            function(f64::from(self)) as Self
        }
    )*};
}

macro_rules! angle_methods {
    ($($name:ident small $small:ident;)*) => {$(
        #[inline(always)]
        fn $small(self) -> Self {
            single::$name(self)
        }
        #[inline]
        fn $name(self) -> Self {
            if Float::is_small_angle(self) { single::$name(self) } else { f64::from(self).$name() as Self }
        }
    )*};
}

impl Float for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NAN: Self = Self::NAN;
    const INFINITY: Self = Self::INFINITY;
    const MAX: Self = Self::MAX;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    standard_methods! {}

    own_methods! {
        exp() = single::exp;
        exp2() = single::exp2;
        expm1() = single::expm1;
        ln() = single::ln;
        log2() = single::log2;
        log10() = single::log10;
        log1p() = single::log1p;
        pow(exponent) = single::pow;
        asin() = single::asin;
        acos() = single::acos;
        atan() = single::atan;
        atan2(x) = single::atan2;
        sinh() = single::sinh;
        cosh() = single::cosh;
        tanh() = single::tanh;
        erf() = single::erf;
        erfc() = single::erfc;
        sigmoid() = single::sigmoid;
    }

    #[inline(always)]
    fn is_small_angle(self) -> bool {
        self.abs() <= single::SMALL_ANGLE
    }

    angle_methods! {
        sin small small_sin;
        cos small small_cos;
        tan small small_tan;
    }

    wide_methods! {
        asinh = special::asinh;
        acosh = f64::acosh;
        atanh = special::atanh;
        erfinv = special::erfinv;
        lgamma = special::lgamma;
        digamma = special::digamma;
        i0 = special::i0;
    }
}

macro_rules! same_at_any_angle {
    ($($name:ident small $small:ident;)*) => {$(
        #[inline]
        fn $small(self) -> Self {
            self.$name()
        }
        #[inline]
        fn $name(self) -> Self {
            self.$name()
        }
    )*};
}

impl Float for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NAN: Self = Self::NAN;
    const INFINITY: Self = Self::INFINITY;
    const MAX: Self = Self::MAX;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    standard_methods! {}

    own_methods! {
        exp() = f64::exp;
        exp2() = f64::exp2;
        expm1() = f64::exp_m1;
        ln() = f64::ln;
        log2() = f64::log2;
        log10() = f64::log10;
        log1p() = f64::ln_1p;
        pow(exponent) = f64::powf;
        asin() = f64::asin;
        acos() = f64::acos;
        atan() = f64::atan;
        atan2(x) = f64::atan2;
        sinh() = f64::sinh;
        cosh() = f64::cosh;
        tanh() = f64::tanh;
        asinh() = special::asinh;
        acosh() = f64::acosh;
        atanh() = special::atanh;
        erf() = libm::erf;
        erfc() = libm::erfc;
        erfinv() = special::erfinv;
        lgamma() = special::lgamma;
        digamma() = special::digamma;
        i0() = special::i0;
    }

    #[inline(always)]
    fn sigmoid(self) -> Self {
        let e = (-self.abs()).exp();
        (if self < 0.0 { e } else { 1.0 }) / (1.0 + e)
    }

    #[inline(always)]
    fn is_small_angle(self) -> bool {
        true
    }

    same_at_any_angle! {
        sin small small_sin;
        cos small small_cos;
        tan small small_tan;
    }
}
