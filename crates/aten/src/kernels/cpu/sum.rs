//! [`Summed`]: in which type elements are added up.

use c10_core::{Complex, bf16, f16};

use crate::tensor::Plain;

/// An element, and the type that sums of such elements are kept in until they are rounded once.
pub(crate) trait Summed: Plain {
    type Sum: Copy + Default + Send + Sync;

    fn widen(self) -> Self::Sum;
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
}

macro_rules! summed {
    ($($element:ty, $sum:ty, $widen:expr, $add:expr, $narrow:expr;)*) => {$(
        impl Summed for $element {
            type Sum = $sum;

            #[inline]
            fn widen(self) -> $sum {
                let widen: fn($element) -> $sum = $widen;
                widen(self)
            }

            #[inline]
            fn add(a: $sum, b: $sum) -> $sum {
                let add: fn($sum, $sum) -> $sum = $add;
                add(a, b)
            }

            #[inline]
            fn narrow(sum: $sum) -> Self {
                let narrow: fn($sum) -> $element = $narrow;
                narrow(sum)
            }
        }
    )*};
}

summed! {
    u8, u8, |x| x, u8::wrapping_add, |x| x;
    i8, i8, |x| x, i8::wrapping_add, |x| x;
    i16, i16, |x| x, i16::wrapping_add, |x| x;
    i32, i32, |x| x, i32::wrapping_add, |x| x;
    i64, i64, |x| x, i64::wrapping_add, |x| x;
    f16, f32, f16::to_f32, |a, b| a + b, f16::from_f32;
    bf16, f32, bf16::to_f32, |a, b| a + b, bf16::from_f32;
    f32, f32, |x| x, |a, b| a + b, |x| x;
    f64, f64, |x| x, |a, b| a + b, |x| x;
    Complex<f32>, Complex<f32>, |x| x, |a, b| Complex::new(a.re + b.re, a.im + b.im), |x| x;
    Complex<f64>, Complex<f64>, |x| x, |a, b| Complex::new(a.re + b.re, a.im + b.im), |x| x;
}
