//! Variances and means, in `f64`. Each block is looked at twice, first for its mean and then for its squares
//! around it; blocks are merged by Chan's formula, so that nothing cancels.

use std::marker::PhantomData;

use c10_core::{Complex, bf16, f16};

use super::element::Reduced;
use super::engine::{Reducer, reduce};
use super::into_two;
use super::layout::{Layout, Order};
use crate::error::Result;
use crate::iter::loops::dispatch;
use crate::ops::Output;
use crate::tensor::{Plain, Tensor};

/// Which of the two is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Variance,
    StandardDeviation,
}

/// How many elements, their mean, and their squared distances from it.
#[derive(Clone, Copy, Debug)]
struct Moments<M> {
    n: f64,
    mean: M,
    squares: f64,
}

/// A mean: real or complex.
pub(crate) trait Mean: Copy + Send + Sync {
    const ZERO: Self;
    fn add_scaled(self, other: Self, factor: f64) -> Self;
    /// The square of the distance.
    fn distance(self, other: Self) -> f64;
}

impl Mean for f64 {
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn add_scaled(self, other: Self, factor: f64) -> Self {
        self + other * factor
    }
    #[inline(always)]
    fn distance(self, other: Self) -> f64 {
        (self - other) * (self - other)
    }
}

impl Mean for Complex<f64> {
    const ZERO: Self = Self::new(0.0, 0.0);
    #[inline(always)]
    fn add_scaled(self, other: Self, factor: f64) -> Self {
        Self::new(self.re + other.re * factor, self.im + other.im * factor)
    }
    #[inline(always)]
    fn distance(self, other: Self) -> f64 {
        self.re.distance(other.re) + self.im.distance(other.im)
    }
}

/// An element that has moments.
pub(crate) trait Element: Reduced {
    type Mean: Mean;
    type Real: Plain;
    fn wide(self) -> Self::Mean;
    fn of_mean(mean: Self::Mean) -> Self;
    fn real(value: f64) -> Self::Real;
}

macro_rules! elements {
    ($($float:ty => $wide:expr, $of:expr;)*) => {$(
        impl Element for $float {
            type Mean = f64;
            type Real = Self;
            #[inline(always)]
            fn wide(self) -> f64 {
                $wide(self)
            }
            #[inline(always)]
            fn of_mean(mean: f64) -> Self {
                $of(mean)
            }
            #[inline(always)]
            fn real(value: f64) -> Self {
                $of(value)
            }
        }

        impl Element for Complex<$float> {
            type Mean = Complex<f64>;
            type Real = $float;
            #[inline(always)]
            fn wide(self) -> Complex<f64> {
                self.map($wide)
            }
            #[inline(always)]
            fn of_mean(mean: Complex<f64>) -> Self {
                mean.map($of)
            }
            #[inline(always)]
            fn real(value: f64) -> $float {
                $of(value)
            }
        }
    )*};
}
elements! {
    f16 => f16::to_f64, |x: f64| f16::from_f32(x as f32);
    f32 => f64::from, |x: f64| x as f32;
    f64 => std::convert::identity, std::convert::identity;
}

impl Element for bf16 {
    type Mean = f64;
    type Real = Self;
    #[inline(always)]
    fn wide(self) -> f64 {
        self.to_f64()
    }
    #[inline(always)]
    fn of_mean(mean: f64) -> Self {
        Self::from_f32(mean as f32)
    }
    #[inline(always)]
    fn real(value: f64) -> Self {
        Self::from_f32(value as f32)
    }
}

struct Spread<T>(PhantomData<T>);

impl<T: Element> Reducer for Spread<T> {
    type In = T;
    type Acc = Moments<T::Mean>;
    const VECTORISED: bool = <T as Reduced>::VECTORISED;

    #[inline(always)]
    fn start(&self) -> Self::Acc {
        Moments { n: 0.0, mean: T::Mean::ZERO, squares: 0.0 }
    }

    #[inline(always)]
    fn step(&self, acc: Self::Acc, x: T, _i: usize) -> Self::Acc {
        let x = x.wide();
        let n = acc.n + 1.0;
        let mean = acc.mean.add_scaled(x.add_scaled(acc.mean, -1.0), 1.0 / n);
        Moments { n, mean, squares: acc.squares + acc.mean.distance(x) * (acc.n / n) }
    }

    #[inline(always)]
    fn merge(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc {
        if a.n == 0.0 {
            return b;
        }
        if b.n == 0.0 {
            return a;
        }
        let n = a.n + b.n;
        let part = b.n / n;
        let mean = a.mean.add_scaled(b.mean.add_scaled(a.mean, -1.0), part);
        Moments { n, mean, squares: a.squares + b.squares + a.mean.distance(b.mean) * (a.n * part) }
    }

    #[inline(always)]
    fn block(&self, xs: &[T], _first: usize) -> Self::Acc {
        const LANES: usize = 8;
        let n = xs.len() as f64;
        let (chunks, rest) = (xs.chunks_exact(LANES), xs.chunks_exact(LANES).remainder());
        let mut sums = [T::Mean::ZERO; LANES];
        for chunk in chunks.clone() {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum = sum.add_scaled(x.wide(), 1.0);
            }
        }
        let sum = sums.into_iter().chain(rest.iter().map(|x| x.wide()));
        let sum = sum.fold(T::Mean::ZERO, |sum, x| sum.add_scaled(x, 1.0));
        let mean = T::Mean::ZERO.add_scaled(sum, 1.0 / n);
        let mut squares = [0.0; LANES];
        for chunk in chunks {
            for (square, x) in squares.iter_mut().zip(chunk) {
                *square += mean.distance(x.wide());
            }
        }
        let squares = squares.into_iter().chain(rest.iter().map(|x| mean.distance(x.wide()))).sum();
        Moments { n, mean, squares }
    }
}

/// The variance, or its root, to the first output, which is real, and the mean to the second.
pub(crate) fn moments(
    input: &Tensor,
    outs: [&Output<'_>; 2],
    mask: &[bool],
    correction: f64,
    moment: Moment,
) -> Result<()> {
    dispatch!(
        input.dtype(),
        "std_var_cpu",
        [f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>],
        T => {
            let finish = |m: Moments<<T as Element>::Mean>| {
                // Without elements there is no mean.
                let mean = if m.n == 0.0 { <T as Element>::Mean::ZERO.add_scaled(<T as Element>::Mean::ZERO, f64::NAN) } else { m.mean };
                let variance = m.squares / (m.n - correction).max(0.0);
                let value = if moment == Moment::Variance { variance } else { variance.sqrt() };
                (T::real(value), T::of_mean(mean))
            };
            into_two(input, outs, mask, Order::Any, &Spread::<T>(PhantomData), finish)
        }
    )
}

/// A sum in `f64`.
struct WideSum<T>(PhantomData<T>);

impl<T: Element<Mean = f64>> Reducer for WideSum<T> {
    type In = T;
    type Acc = f64;
    #[inline(always)]
    fn start(&self) -> f64 {
        0.0
    }
    #[inline(always)]
    fn step(&self, acc: f64, x: T, _i: usize) -> f64 {
        acc + x.wide()
    }
    #[inline(always)]
    fn merge(&self, a: f64, b: f64) -> f64 {
        a + b
    }
}

/// Mean and sum of squares around it of each output of a layout, of real elements.
pub(crate) fn means_and_squares<T: Element<Mean = f64>>(xs: &[T], layout: &Layout) -> Vec<(f64, f64)> {
    let moments = reduce(&Spread::<T>(PhantomData), xs, layout).into_iter().map(|m| (m.mean, m.squares));
    let mut moments: Vec<_> = moments.collect();
    if moments.iter().any(|(mean, _)| mean.is_nan()) {
        // Infinities on the way are no reason why there is no mean.
        let sums = reduce(&WideSum::<T>(PhantomData), xs, layout);
        moments.iter_mut().zip(sums).for_each(|((mean, _), sum)| *mean = sum / layout.count as f64);
    }
    moments
}
