//! Norms of vectors, and logarithms of sums of exponentials.

use std::marker::PhantomData;

use c10_core::{Complex, bf16, f16};

use super::element::{RealElement, Reduced};
use super::engine::Reducer;
use super::into;
use super::layout::Order;
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::math::Float;
use crate::ops::Output;
use crate::tensor::{Plain, Tensor};

/// An element that has a size: a real float, in the type that norms are computed in.
trait Magnitude: Reduced {
    type Real: Float;
    type Norm: Plain;
    fn size(self) -> Self::Real;
    /// The square of the size.
    fn square(self) -> Self::Real;
    fn norm(value: Self::Real) -> Self::Norm;
}

macro_rules! sized {
    ($($float:ty => $real:ty, $narrow:expr;)*) => {$(
        impl Magnitude for $float {
            type Real = $real;
            type Norm = $float;
            #[inline(always)]
            fn size(self) -> $real {
                Float::abs(self.widen())
            }
            #[inline(always)]
            fn square(self) -> $real {
                self.widen() * self.widen()
            }
            #[inline(always)]
            fn norm(value: $real) -> $float {
                $narrow(value)
            }
        }
    )*};
}
sized! {
    f16 => f32, f16::from_f32;
    bf16 => f32, bf16::from_f32;
    f32 => f32, std::convert::identity;
    f64 => f64, std::convert::identity;
}

macro_rules! sized_complex {
    ($($float:ty => $real:ty, $narrow:expr;)*) => {$(
        impl Magnitude for Complex<$float> {
            type Real = $real;
            type Norm = $float;
            #[inline(always)]
            fn size(self) -> $real {
                let x = self.widen();
                Float::hypot(x.re, x.im)
            }
            #[inline(always)]
            fn square(self) -> $real {
                let x = self.widen();
                x.re * x.re + x.im * x.im
            }
            #[inline(always)]
            fn norm(value: $real) -> $float {
                $narrow(value)
            }
        }
    )*};
}
sized_complex! {
    f16 => f32, f16::from_f32;
    f32 => f32, std::convert::identity;
    f64 => f64, std::convert::identity;
}

/// A sum of `$of` each element.
macro_rules! norms {
    ($($name:ident $(($field:ident: $fty:ty))?, $x:ident => $of:expr, ($a:ident, $b:ident) => $merge:expr;)*) => {$(
        struct $name<T: Magnitude> { $($field: $fty,)? of: PhantomData<T> }

        impl<T: Magnitude> Reducer for $name<T> {
            type In = T;
            type Acc = T::Real;
            const VECTORISED: bool = <T as Reduced>::VECTORISED;
            #[inline(always)]
            fn start(&self) -> T::Real {
                T::Real::ZERO
            }
            #[inline(always)]
            fn step(&self, acc: T::Real, $x: T, _i: usize) -> T::Real {
                $(let $field = self.$field;)?
                self.merge(acc, $of)
            }
            #[inline(always)]
            fn merge(&self, $a: T::Real, $b: T::Real) -> T::Real {
                $merge
            }
        }
    )*};
}
norms! {
    Nonzero, x => if x.size() == T::Real::ZERO { T::Real::ZERO } else { T::Real::ONE }, (a, b) => a + b;
    Absolute, x => x.size(), (a, b) => a + b;
    Squares, x => x.square(), (a, b) => a + b;
    Power(p: T::Real), x => x.size().pow(p), (a, b) => a + b;
    Greatest, x => x.size(), (a, b) => a.maximum(b);
}

struct Least<T>(PhantomData<T>);

impl<T: Magnitude> Reducer for Least<T> {
    type In = T;
    type Acc = T::Real;
    #[inline(always)]
    fn start(&self) -> T::Real {
        T::Real::INFINITY
    }
    #[inline(always)]
    fn step(&self, acc: T::Real, x: T, _i: usize) -> T::Real {
        acc.minimum(x.size())
    }
    #[inline(always)]
    fn merge(&self, a: T::Real, b: T::Real) -> T::Real {
        a.minimum(b)
    }
}

/// `(Σ |x|^p)^(1/p)`, with the limits at 0 and ±∞. `out` is of the real dtype of `input`.
pub(crate) fn vector_norm(input: &Tensor, out: &Output<'_>, mask: &[bool], p: f64) -> Result<()> {
    dispatch!(
        input.dtype(),
        "linalg_vector_norm_cpu",
        [f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>],
        T => {
            let (order, of) = (Order::Any, PhantomData);
            if p == 0.0 {
                into(input, out, mask, order, &Nonzero::<T> { of }, T::norm)
            } else if p == 1.0 {
                into(input, out, mask, order, &Absolute::<T> { of }, T::norm)
            } else if p == 2.0 {
                into(input, out, mask, order, &Squares::<T> { of }, |x| T::norm(x.sqrt()))
            } else if p == f64::INFINITY {
                into(input, out, mask, order, &Greatest::<T> { of }, T::norm)
            } else if p == f64::NEG_INFINITY {
                into(input, out, mask, order, &Least::<T>(of), T::norm)
            } else {
                let p: <T as Magnitude>::Real = Float::of(p);
                let root = <<T as Magnitude>::Real as Float>::ONE / p;
                into(input, out, mask, order, &Power::<T> { p, of }, |x| T::norm(x.pow(root)))
            }
        }
    )
}

/// The greatest element, and the sum of exponentials of the distances to it.
struct LogSumExp<T>(PhantomData<T>);

impl<T: RealElement> LogSumExp<T> {
    /// `exp(x − m)`, with an infinite `m` taken for zero.
    #[inline(always)]
    fn relative(x: T::Real, m: T::Real) -> T::Real {
        let m = if Float::abs(m) == <T::Real as Float>::INFINITY { <T::Real as Float>::ZERO } else { m };
        (x - m).exp()
    }
}

impl<T: RealElement> Reducer for LogSumExp<T> {
    type In = T;
    type Acc = (T::Real, T::Real);

    #[inline(always)]
    fn start(&self) -> Self::Acc {
        (-<T::Real as Float>::INFINITY, <T::Real as Float>::ZERO)
    }

    #[inline(always)]
    fn step(&self, acc: Self::Acc, x: T, _i: usize) -> Self::Acc {
        self.merge(acc, (x.widen(), <T::Real as Float>::ONE))
    }

    #[inline(always)]
    fn merge(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc {
        let m = a.0.maximum(b.0);
        let scaled = |x: Self::Acc| {
            if x.1 == <T::Real as Float>::ZERO {
                <T::Real as Float>::ZERO
            } else {
                x.1 * Self::relative(x.0, m)
            }
        };
        // An infinite element is not taken away from: its exponential is the sum.
        if m == <T::Real as Float>::INFINITY {
            (m, <T::Real as Float>::ONE)
        } else {
            (m, scaled(a) + scaled(b))
        }
    }

    /// Its maximum first, so that each element needs one exponential.
    #[inline(always)]
    fn block(&self, xs: &[T], _first: usize) -> Self::Acc {
        let m = xs.iter().fold(-<T::Real as Float>::INFINITY, |m, x| m.maximum(x.widen()));
        if m == <T::Real as Float>::INFINITY {
            return (m, <T::Real as Float>::ONE);
        }
        let sum = xs.iter().fold(<T::Real as Float>::ZERO, |sum, x| sum + Self::relative(x.widen(), m));
        (m, sum)
    }
}

/// `ln Σ exp(x)`, without overflow on the way.
pub(crate) fn log_sum_exp(input: &Tensor, out: &Output<'_>, mask: &[bool]) -> Result<()> {
    dispatch!(input.dtype(), "logsumexp_cpu", [f16, bf16, f32, f64], T => {
        let finish = |(m, sum): (<T as RealElement>::Real, <T as RealElement>::Real)| {
            let infinite = Float::abs(m) == Float::INFINITY;
            T::narrow(if infinite { m } else { m + Float::ln(sum) })
        };
        into(input, out, mask, Order::Any, &LogSumExp::<T>(PhantomData), finish)
    })
}
