//! The innermost loops of a matrix product: one tile of `C = beta·C + alpha·A·B`.
//!
//! A tile has up to [`Microkernel::rows`] rows and [`Microkernel::cols`] columns, kept in registers while `k`
//! runs. `A` has any strides. A row of `B` is contiguous, and the rows are found by a table of offsets: equal
//! steps for a matrix, the taps of the kernel for a convolution that reads its image in place. Each element is
//! the sum over `k` in order, whatever the tile it falls in, so that no result depends on how `C` was cut.

#![expect(unsafe_code, reason = "works on raw strided memory whose bounds the caller promises")]

use std::marker::PhantomData;

use super::simd::{Portable, Ring, Simd};

/// What becomes of the values that `C` had.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Before<T> {
    /// They are not read.
    Dropped,
    /// The product is added to them.
    Kept,
    /// They are multiplied by this first.
    Scaled(T),
}

impl<T: Ring> Before<T> {
    pub(crate) fn times(beta: T) -> Self {
        match beta {
            beta if beta == T::ZERO => Self::Dropped,
            beta if beta == T::ONE => Self::Kept,
            beta => Self::Scaled(beta),
        }
    }
}

/// One tile of a product. Strides are in elements; columns of `b` and `c` are adjacent.
#[derive(Clone, Copy)]
pub(crate) struct Tile<T> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) depth: usize,
    pub(crate) a: *const T,
    pub(crate) a_row_stride: isize,
    pub(crate) a_depth_stride: isize,
    pub(crate) b: *const T,
    /// Where each of the `depth` rows of `b` begins.
    pub(crate) b_offsets: *const isize,
    pub(crate) c: *mut T,
    pub(crate) c_row_stride: isize,
    pub(crate) alpha: T,
    pub(crate) before: Before<T>,
}

/// The function that computes a tile on this processor, and the largest tile it takes.
#[derive(Clone, Copy)]
pub(crate) struct Microkernel<T> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    run: unsafe fn(&Tile<T>),
}

impl<T> Microkernel<T> {
    /// Computes the tile, of any number of rows and at most [`cols`](Self::cols) columns.
    ///
    /// # Safety
    /// All elements of `a` and `b` that the tile names are readable, those of `c` writable and not written by
    /// another thread, and `c` overlaps neither `a` nor `b`.
    #[inline]
    pub(crate) unsafe fn run(&self, tile: &Tile<T>) {
        debug_assert!(tile.cols <= self.cols);
        // SAFETY: as promised; the instructions were detected when `self` was made.
        unsafe { (self.run)(tile) };
    }
}

/// An element with a [`Microkernel`].
pub(crate) trait KernelElement: Ring {
    fn microkernel() -> Microkernel<Self>;
}

/// Rows of the tile in the numbers that the registers hold: 14 rows of two vectors fill the 32 registers of
/// AVX-512, six rows the 16 of AVX2. Columns that fit one vector have no second.
macro_rules! by_rows {
    ($simd:expr, $tile:expr, $($rows:literal)*) => {
        if $tile.cols <= one_vector($simd) {
            by_rows!(1, $simd, $tile, $($rows)*)
        } else {
            by_rows!(2, $simd, $tile, $($rows)*)
        }
    };
    ($vectors:literal, $simd:expr, $tile:expr, $($rows:literal)*) => {{
        let mut tile = *$tile;
        let mut left = tile.rows;
        while left > 0 {
            $(if left >= $rows {
                // SAFETY: the caller's promise covers all rows; the columns fit the vectors.
                unsafe { rows::<_, $rows, $vectors>($simd, &tile) };
                left -= $rows;
                tile.a = tile.a.wrapping_offset($rows * tile.a_row_stride);
                tile.c = tile.c.wrapping_offset($rows * tile.c_row_stride);
                continue;
            })*
        }
    }};
}

/// The columns that one vector holds.
fn one_vector<S: Simd>(_: S) -> usize {
    S::LANES
}

/// # Safety
/// As for [`Microkernel::run`], for `ROWS` rows and the columns of `VECTORS` vectors.
#[inline(always)]
unsafe fn rows<S: Simd, const ROWS: usize, const VECTORS: usize>(simd: S, tile: &Tile<S::Element>)
where
    S::Element: Ring,
{
    let mut masks = [simd.mask(tile.cols); VECTORS];
    for (vector, mask) in masks.iter_mut().enumerate().skip(1) {
        *mask = simd.mask(tile.cols.saturating_sub(vector * S::LANES));
    }
    let zero = simd.splat(S::Element::ZERO);
    let mut sums = [[zero; VECTORS]; ROWS];
    let mut a = tile.a;
    for depth in 0..tile.depth {
        // SAFETY: the table has `depth` entries.
        let offset = unsafe { *tile.b_offsets.wrapping_add(depth) };
        let b = tile.b.wrapping_offset(offset);
        let mut values = [zero; VECTORS];
        for (vector, value) in values.iter_mut().enumerate() {
            // SAFETY: the lanes of the row that this vector holds, up to `cols`.
            *value = unsafe { simd.load(b.wrapping_add(vector * S::LANES), masks[vector]) };
        }
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: within `rows` and `depth`.
            let factor = unsafe { a.wrapping_offset(row as isize * tile.a_row_stride).read() };
            let factor = simd.splat(factor);
            for (sum, &value) in sums.iter_mut().zip(&values) {
                *sum = simd.mul_add(factor, value, *sum);
            }
        }
        a = a.wrapping_offset(tile.a_depth_stride);
    }
    let alpha = simd.splat(tile.alpha);
    // What becomes of `C` is asked once and not for each row, so that the loops over rows are unrolled and the sums
    // stay in their registers.
    macro_rules! store {
        ($sum:ident, $c:ident, $mask:ident => $value:expr) => {
            for (row, sums) in sums.iter().enumerate() {
                let c = tile.c.wrapping_offset(row as isize * tile.c_row_stride);
                for (vector, (&$sum, &$mask)) in sums.iter().zip(&masks).enumerate() {
                    let $c = c.wrapping_add(vector * S::LANES);
                    let value = $value;
                    // SAFETY: elements of `c` within `rows` and `cols`.
                    unsafe { simd.store($c, value, $mask) };
                }
            }
        };
    }
    match tile.before {
        Before::Dropped => store!(sum, c, mask => simd.mul(alpha, sum)),
        Before::Kept => store!(sum, c, mask => {
            // SAFETY: elements of `c` within `rows` and `cols`.
            let before = unsafe { simd.load(c, mask) };
            simd.mul_add(alpha, sum, before)
        }),
        Before::Scaled(beta) => store!(sum, c, mask => {
            // SAFETY: elements of `c` within `rows` and `cols`.
            let before = unsafe { simd.load(c, mask) };
            simd.mul_add(alpha, sum, simd.mul(simd.splat(beta), before))
        }),
    }
}

/// # Safety
/// As for [`Microkernel::run`].
unsafe fn portable<T: Ring>(tile: &Tile<T>) {
    by_rows!(Portable::<T>(PhantomData), tile, 4 2 1)
}

fn portable_microkernel<T: Ring>() -> Microkernel<T> {
    Microkernel { rows: 4, cols: 2 * Portable::<T>::LANES, run: portable::<T> }
}

macro_rules! integers {
    ($($element:ty)*) => {$(
        impl KernelElement for $element {
            fn microkernel() -> Microkernel<Self> {
                portable_microkernel()
            }
        }
    )*};
}

integers!(u8 i8 i16 i32 i64);

macro_rules! floats {
    ($($element:ty, $avx512:ident, $avx2:ident;)*) => {$(
        impl KernelElement for $element {
            fn microkernel() -> Microkernel<Self> {
                #[cfg(target_arch = "x86_64")]
                {
                    use super::simd::{Avx2, Avx512};
                    if Avx512::<$element>::detect().is_some() {
                        return Microkernel { rows: 14, cols: 2 * Avx512::<$element>::LANES, run: $avx512 };
                    }
                    if Avx2::<$element>::detect().is_some() {
                        return Microkernel { rows: 6, cols: 2 * Avx2::<$element>::LANES, run: $avx2 };
                    }
                }
                portable_microkernel()
            }
        }

        /// # Safety
        /// As for [`Microkernel::run`], on a processor with the instructions.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        unsafe fn $avx512(tile: &Tile<$element>) {
            let Some(simd) = super::simd::Avx512::<$element>::detect() else { return };
            by_rows!(simd, tile, 14 12 10 8 6 4 2 1)
        }

        /// # Safety
        /// As for [`Microkernel::run`], on a processor with the instructions.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $avx2(tile: &Tile<$element>) {
            let Some(simd) = super::simd::Avx2::<$element>::detect() else { return };
            by_rows!(simd, tile, 6 4 2 1)
        }
    )*};
}

floats! {
    f32, avx512_f32, avx2_f32;
    f64, avx512_f64, avx2_f64;
}
