//! Products of matrices and vectors.

use c10_core::{Complex, Scalar, ScalarType, bf16, f16};

use crate::error::{Error, ErrorKind, Result};
use crate::iter::loops::dispatch;
use crate::linalg::accumulate::Accumulate;
use crate::linalg::matrices::{Matrices, MatricesMut, MatrixLayout};
use crate::linalg::product::Product;
use crate::linalg::simd::Ring;
use crate::reserve::reserved;
use crate::tensor::{Plain, Read, Write};

/// `out = beta·out + alpha·a·b`, of batches `[n, rows, cols]`, or of single matrices. If `out` alone is a single
/// one, the products are added to it one after the other.
pub(crate) fn product(
    dtype: ScalarType,
    alpha: Scalar,
    a: &Read<'_>,
    b: &Read<'_>,
    beta: Scalar,
    out: Write<'_>,
) -> Result<()> {
    dispatch!(
        dtype,
        "addmm_impl_cpu_",
        [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>],
        T => product_of::<T>(alpha, a, b, beta, out)
    )
}

fn product_of<T: Product>(
    alpha: Scalar,
    a: &Read<'_>,
    b: &Read<'_>,
    beta: Scalar,
    out: Write<'_>,
) -> Result<()> {
    let layout = layout(out.sizes(), out.strides());
    check_sizes(self::layout(a.sizes(), a.strides()), self::layout(b.sizes(), b.strides()), layout)?;
    let a = Matrices::new(a.elements::<T>()?, 0, self::layout(a.sizes(), a.strides()));
    let b = Matrices::new(b.elements::<T>()?, 0, self::layout(b.sizes(), b.strides()));
    let mut out = MatricesMut::new(out.elements::<T>()?, 0, layout);
    if a.layout().batch == layout.batch {
        return T::product(alpha, a, b, beta, out);
    }
    if a.layout().batch == 0 {
        let (a, b) = (a.without_depth(layout.rows, 0), b.without_depth(0, layout.cols));
        return T::product(alpha, a, b, beta, out);
    }
    for index in 0..a.layout().batch {
        let beta = if index == 0 { beta } else { Scalar::from(1_i64) };
        T::product(alpha, a.matrix(index), b.matrix(index), beta, out.reborrow())?;
    }
    Ok(())
}

fn layout(sizes: &[i64], strides: &[i64]) -> MatrixLayout {
    let at = |numbers: &[i64], from_last: usize, default: i64| {
        numbers.len().checked_sub(from_last).map_or(default, |index| numbers[index])
    };
    MatrixLayout {
        batch: at(sizes, 3, 1) as usize,
        rows: at(sizes, 2, 1) as usize,
        cols: at(sizes, 1, 1) as usize,
        batch_stride: at(strides, 3, 0) as isize,
        row_stride: at(strides, 2, 0) as isize,
        col_stride: at(strides, 1, 0) as isize,
    }
}

/// `out = Σ a·b`, of two vectors; `conjugate` is for the first.
pub(crate) fn dot(
    dtype: ScalarType,
    conjugate: bool,
    a: &Read<'_>,
    b: &Read<'_>,
    out: Write<'_>,
) -> Result<()> {
    if dtype.is_complex() {
        return dispatch!(dtype, "dot", [Complex<f32>, Complex<f64>], T => {
            let (a, b) = (vector::<T>(a)?, vector::<T>(b)?);
            let part = |of_a: fn(&T) -> _, of_b: fn(&T) -> _| {
                let (a, b): (Vec<_>, Vec<_>) = (a.iter().map(of_a).collect(), b.iter().map(of_b).collect());
                sum_of_products(&a, &b)
            };
            let sign = if conjugate { -1.0 } else { 1.0 };
            out.elements::<T>()?[0] = Complex::new(
                part(|a| a.re, |b| b.re) - sign * part(|a| a.im, |b| b.im),
                part(|a| a.re, |b| b.im) + sign * part(|a| a.im, |b| b.re),
            );
            Ok(())
        });
    }
    dispatch!(dtype, "dot", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
        let sum = sum_of_products(&vector::<T>(a)?, &vector::<T>(b)?);
        out.elements::<T>()?[0] = T::narrow(sum);
        Ok(())
    })
}

/// What was checked is what is here, unless another thread has changed it; and operands that repeat elements can
/// be written side by side.
fn check_sizes(a: MatrixLayout, b: MatrixLayout, out: MatrixLayout) -> Result<()> {
    const WORTH_ASKING: usize = 1 << 32;
    if a.batch != 0 && (a.rows, a.cols, b.cols) != (out.rows, b.rows, out.cols) {
        return Err(Error::new(ErrorKind::Busy, "another thread changes the sizes of a tensor in use"));
    }
    for matrices in [a, b] {
        let bytes =
            matrices.batch.saturating_mul(matrices.rows).saturating_mul(matrices.cols).saturating_mul(16);
        if bytes > WORTH_ASKING && Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("no memory for {} elements of 16 bytes, side by side", bytes / 16),
            ));
        }
    }
    Ok(())
}

/// The elements of a vector, adjacent.
fn vector<'a, T: Plain>(read: &Read<'a>) -> Result<std::borrow::Cow<'a, [T]>> {
    let elements = read.elements::<T>()?;
    let len = read.sizes()[0] as usize;
    match read.strides()[0] as usize {
        1 => Ok(elements[..len].into()),
        stride => {
            let mut adjacent = reserved(len)?;
            adjacent.extend((0..len).map(|index| elements[index * stride]));
            Ok(adjacent.into())
        }
    }
}

/// The sum of a vector's products, in halves, so that rounding grows with the logarithm of its length.
fn sum_of_products<T: Accumulate>(a: &[T], b: &[T]) -> T::Sum {
    const LANES: usize = 16;
    if a.len() > 64 * LANES {
        let middle = a.len() / 2;
        return sum_of_products(&a[..middle], &b[..middle])
            .ring_add(sum_of_products(&a[middle..], &b[middle..]));
    }
    let product = |(a, b): (&T, &T)| a.widen().ring_mul(b.widen());
    let mut lanes = [T::Sum::ZERO; LANES];
    let whole = a.len() - a.len() % LANES;
    for (a, b) in a[..whole].chunks_exact(LANES).zip(b[..whole].chunks_exact(LANES)) {
        let products = a.iter().zip(b).map(product);
        lanes.iter_mut().zip(products).for_each(|(lane, product)| *lane = lane.ring_add(product));
    }
    let sum = lanes.into_iter().fold(T::Sum::ZERO, Ring::ring_add);
    a[whole..].iter().zip(&b[whole..]).map(product).fold(sum, Ring::ring_add)
}
