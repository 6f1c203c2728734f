//! [`Product`]: the matrix product of every element type that has one.
//!
//! Integers wrap. Half precision is summed in `f32` and rounded once. The product of complex matrices is four
//! products of their parts.

use c10_core::{Complex, Scalar, bf16, f16};

use super::gemm::gemm;
use super::matrices::{Matrices, MatricesMut, MatrixLayout};
use super::microkernel::KernelElement;
use crate::error::Result;
use crate::tensor::Plain;

/// An element type that has matrix products.
pub(crate) trait Product: Plain {
    /// `c = beta·c + alpha·a·b`, for each matrix of the batch. Where `beta` is zero, `c` is not read.
    ///
    /// # Errors
    /// When a factor does not fit the type; nothing was written.
    fn product(
        alpha: Scalar,
        a: Matrices<'_, Self>,
        b: Matrices<'_, Self>,
        beta: Scalar,
        c: MatricesMut<'_, Self>,
    ) -> Result<()>;
}

macro_rules! own_sums {
    ($($element:ty)*) => {$(
        impl Product for $element {
            fn product(
                alpha: Scalar,
                a: Matrices<'_, Self>,
                b: Matrices<'_, Self>,
                beta: Scalar,
                c: MatricesMut<'_, Self>,
            ) -> Result<()> {
                gemm(alpha.to::<Self>()?, a, b, beta.to::<Self>()?, c);
                Ok(())
            }
        }
    )*};
}

own_sums!(u8 i8 i16 i32 i64 f32 f64);

macro_rules! halves {
    ($($element:ty)*) => {$(
        impl Product for $element {
            fn product(
                alpha: Scalar,
                a: Matrices<'_, Self>,
                b: Matrices<'_, Self>,
                beta: Scalar,
                mut c: MatricesMut<'_, Self>,
            ) -> Result<()> {
                let (alpha, beta) = (alpha.to::<f32>()?, beta.to::<f32>()?);
                let sums = dense_product(a.layout(), &a.to_dense(Self::to_f32), b.layout(), &b.to_dense(Self::to_f32));
                if beta == 0.0 {
                    c.update(&sums, |c, sum| *c = Self::from_f32(alpha * sum));
                } else {
                    c.update(&sums, |c, sum| *c = Self::from_f32(beta * c.to_f32() + alpha * sum));
                }
                Ok(())
            }
        }
    )*};
}

halves!(f16 bf16);

macro_rules! complex_numbers {
    ($($float:ty)*) => {$(
        impl Product for Complex<$float> {
            fn product(
                alpha: Scalar,
                a: Matrices<'_, Self>,
                b: Matrices<'_, Self>,
                beta: Scalar,
                mut c: MatricesMut<'_, Self>,
            ) -> Result<()> {
                let (alpha, beta) = (alpha.to::<Self>()?, beta.to::<Self>()?);
                let parts_a = [a.to_dense(|a| a.re), a.to_dense(|a| a.im)];
                let parts_b = [b.to_dense(|b| b.re), b.to_dense(|b| b.im)];
                let part = |i: usize, j: usize| dense_product(a.layout(), &parts_a[i], b.layout(), &parts_b[j]);
                let mut sums = part(0, 0);
                sums.iter_mut().zip(part(1, 1)).for_each(|(sum, part)| *sum -= part);
                let mut imaginary = part(0, 1);
                imaginary.iter_mut().zip(part(1, 0)).for_each(|(sum, part)| *sum += part);
                let sums: Vec<Self> = sums.into_iter().zip(imaginary).map(|(re, im)| Self::new(re, im)).collect();
                if beta == Self::default() {
                    c.update(&sums, |c, sum| *c = times(alpha, sum));
                } else {
                    c.update(&sums, |c, sum| {
                        let (before, sum) = (times(beta, *c), times(alpha, sum));
                        *c = Self::new(before.re + sum.re, before.im + sum.im);
                    });
                }
                Ok(())
            }
        }
    )*};
}

complex_numbers!(f32 f64);

fn times<T: Copy + std::ops::Mul<Output = T> + std::ops::Add<Output = T> + std::ops::Sub<Output = T>>(
    a: Complex<T>,
    b: Complex<T>,
) -> Complex<T> {
    Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}

/// The product of dense batches, dense.
fn dense_product<T: KernelElement>(
    layout_a: MatrixLayout,
    a: &[T],
    layout_b: MatrixLayout,
    b: &[T],
) -> Vec<T> {
    let layout = MatrixLayout { cols: layout_b.cols, ..layout_a }.dense();
    let mut c = vec![T::ZERO; layout.batch * layout.rows * layout.cols];
    gemm(
        T::ONE,
        Matrices::new(a, 0, layout_a.dense()),
        Matrices::new(b, 0, layout_b.dense()),
        T::ZERO,
        MatricesMut::new(&mut c, 0, layout),
    );
    c
}
