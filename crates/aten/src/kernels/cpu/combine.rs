//! How two elements become one where several meet in one place: sums, products, extrema.

use c10_core::{Complex, bf16, f16};

use crate::error::{Error, Result};
use crate::tensor::Plain;

/// What becomes of elements that meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Replace,
    Sum,
    Prod,
    Mean,
    Max,
    Min,
}

impl Reduction {
    /// The reductions of `scatter_reduce` and `index_reduce`.
    pub(crate) fn from_name(name: &str, names: &[(&str, Self)]) -> Result<Self> {
        names.iter().find(|(known, _)| *known == name).map(|(_, reduction)| *reduction).ok_or_else(|| {
            let known: Vec<_> = names.iter().map(|(known, _)| *known).collect();
            Error::invalid_argument(format!(
                "reduce argument must be one of {}, not '{name}'",
                known.join(", ")
            ))
        })
    }
}

/// An element that can meet another.
pub(crate) trait Combine: Plain {
    /// What the two become.
    fn combine(reduction: Reduction, a: Self, b: Self) -> Self;

    /// A sum of `count` elements as their mean: rounded down for integers.
    fn over(self, count: i64) -> Self;

    /// The number as an element.
    fn of_count(count: i64) -> Self;

    /// What changes nothing that it meets.
    fn identity(reduction: Reduction) -> Self;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Combine for $int {
            #[inline(always)]
            fn combine(reduction: Reduction, a: Self, b: Self) -> Self {
                match reduction {
                    Reduction::Replace => b,
                    Reduction::Sum | Reduction::Mean => a.wrapping_add(b),
                    Reduction::Prod => a.wrapping_mul(b),
                    Reduction::Max => a.max(b),
                    Reduction::Min => a.min(b),
                }
            }

            #[inline(always)]
            fn over(self, count: i64) -> Self {
                let wide = i128::from(self);
                wide.div_euclid(i128::from(count)) as Self
            }

            #[inline(always)]
            fn of_count(count: i64) -> Self {
                count as Self
            }

            #[inline(always)]
            fn identity(reduction: Reduction) -> Self {
                match reduction {
                    Reduction::Prod => 1,
                    Reduction::Max => Self::MIN,
                    Reduction::Min => Self::MAX,
                    _ => 0,
                }
            }
        }
    )*};
}
integers!(u8, i8, i16, i32, i64);

macro_rules! floats {
    ($($float:ty, $nan:expr, $infinity:expr, $of:expr;)*) => {$(
        impl Combine for $float {
            #[inline(always)]
            fn combine(reduction: Reduction, a: Self, b: Self) -> Self {
                match reduction {
                    Reduction::Replace => b,
                    Reduction::Sum | Reduction::Mean => a + b,
                    Reduction::Prod => a * b,
                    // A NaN stays, whichever of the two it is.
                    Reduction::Max => if b > a || b.is_nan() { b } else { a },
                    Reduction::Min => if b < a || b.is_nan() { b } else { a },
                }
            }

            #[inline(always)]
            fn over(self, count: i64) -> Self {
                self / Self::of_count(count)
            }

            #[inline(always)]
            fn of_count(count: i64) -> Self {
                ($of)(count as f64)
            }

            #[inline(always)]
            fn identity(reduction: Reduction) -> Self {
                match reduction {
                    Reduction::Prod => Self::of_count(1),
                    Reduction::Max => -$infinity,
                    Reduction::Min => $infinity,
                    _ => Self::of_count(0),
                }
            }
        }
    )*};
}
floats! {
    f16, Self::NAN, Self::INFINITY, Self::from_f64;
    bf16, Self::NAN, Self::INFINITY, Self::from_f64;
    f32, Self::NAN, Self::INFINITY, |x| x as Self;
    f64, Self::NAN, Self::INFINITY, |x| x;
}

macro_rules! complex_numbers {
    ($($float:ty),*) => {$(
        impl Combine for Complex<$float> {
            #[inline(always)]
            fn combine(reduction: Reduction, a: Self, b: Self) -> Self {
                match reduction {
                    Reduction::Sum | Reduction::Mean => Self::new(a.re + b.re, a.im + b.im),
                    Reduction::Prod => Self::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re),
                    // Complex numbers have no order: callers refuse the others.
                    _ => b,
                }
            }

            #[inline(always)]
            fn over(self, count: i64) -> Self {
                let count = <$float>::of_count(count);
                Self::new(self.re / count, self.im / count)
            }

            #[inline(always)]
            fn of_count(count: i64) -> Self {
                Self::from(<$float>::of_count(count))
            }

            #[inline(always)]
            fn identity(reduction: Reduction) -> Self {
                Self::of_count(i64::from(reduction == Reduction::Prod))
            }
        }
    )*};
}
complex_numbers!(f16, f32, f64);

/// As [`Combine::combine`], of truth values in bytes.
#[inline(always)]
pub(crate) fn combine_bools(reduction: Reduction, a: u8, b: u8) -> u8 {
    let (a, b) = (a != 0, b != 0);
    u8::from(match reduction {
        Reduction::Replace => b,
        Reduction::Sum | Reduction::Mean | Reduction::Max => a || b,
        Reduction::Prod | Reduction::Min => a && b,
    })
}

/// Calls `$body` with `$T` being the element of a dtype and `$f` how two of them meet.
macro_rules! for_combination {
    ($dtype:expr, $operator:expr, $reduction:expr, $T:ident, $f:ident => $body:expr) => {
        match $dtype {
            c10_core::ScalarType::Bool => {
                type $T = u8;
                let $f = |a: u8, b: u8| $crate::kernels::cpu::combine::combine_bools($reduction, a, b);
                $body
            }
            dtype => $crate::iter::loops::dispatch!(
                dtype,
                $operator,
                [
                    u8, i8, i16, i32, i64, c10_core::f16, c10_core::bf16, f32, f64,
                    c10_core::Complex<c10_core::f16>, c10_core::Complex<f32>, c10_core::Complex<f64>
                ],
                $T => {
                    let $f = |a: $T, b: $T| {
                        <$T as $crate::kernels::cpu::combine::Combine>::combine($reduction, a, b)
                    };
                    $body
                }
            ),
        }
    };
}
pub(crate) use for_combination;
