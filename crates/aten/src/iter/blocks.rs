#![expect(unsafe_code, reason = "makes slices of the rows of a walk")]
//! Loops over blocks: the kernel is a loop over slices of the types that it computes in, and what the operands
//! are in memory (strides, single numbers, narrow floats) is no concern of it: see [`lane`](super::lane).
//!
//! Each element goes through the same loop however it lies, so that strided and contiguous operands give the
//! same bits. The loops of the `_simd` functions are compiled for several instruction sets: see
//! [`simd`](crate::simd). Give them closures that are `#[inline(always)]`.

use std::mem::MaybeUninit;

use c10_core::ScalarType;

use super::TensorIter;
use super::lane::{
    BLOCK, Buffer, Format, Lane, RowOf, are_all_apart, are_all_direct, are_apart, is_direct, lent, lent_mut,
};
use super::run::{Further, for_each_rows};
use crate::error::{Error, Result};
use crate::simd;

/// Calls `$body` with `$T` being the type that a dtype is computed in, for the types of a list: `f32` for the
/// narrow floats too, `Complex<f32>` for the narrow complex numbers.
macro_rules! compute {
    ($dtype:expr, $operator:expr, [$($lane:ty),* $(,)?], $T:ident => $body:expr) => {
        match $crate::iter::blocks::computed_in($dtype) {
            $(<$lane as c10_core::Element>::SCALAR_TYPE => {
                type $T = $lane;
                $body
            })*
            #[allow(unreachable_patterns, reason = "some lists have every type")]
            _ => Err($crate::iter::loops::no_kernel($operator, $dtype)),
        }
    };
}
pub(crate) use compute;

/// The dtype whose element type a dtype is computed in (`opmath_t`).
pub(crate) fn computed_in(dtype: ScalarType) -> ScalarType {
    match dtype {
        ScalarType::Float16 | ScalarType::BFloat16 | ScalarType::Float8E4M3Fn | ScalarType::Float8E5M2 => {
            ScalarType::Float32
        }
        ScalarType::Complex32 | ScalarType::BComplex32 => ScalarType::Complex64,
        other => other,
    }
}

/// That operand `i`, which is of `dtype`, can be read or written as a `C`.
#[inline]
fn check<C: Lane>(i: usize, dtype: ScalarType) -> Result<()> {
    if C::format(dtype).is_some() { Ok(()) } else { Err(not_computed_in(C::SCALAR_TYPE, i, dtype)) }
}

// Each of these is a call of its own, so that operands of the lanes' own dtypes, which most are, are seen to be that with
// one comparison each.

#[inline(never)]
fn check_1<A: Lane, O: Lane>(dtypes: [ScalarType; 2]) -> Result<()> {
    check::<O>(0, dtypes[0])?;
    check::<A>(1, dtypes[1])
}

#[inline(never)]
fn check_2<A: Lane, B: Lane, O: Lane>(dtypes: [ScalarType; 3]) -> Result<()> {
    check_1::<A, O>([dtypes[0], dtypes[1]])?;
    check::<B>(2, dtypes[2])
}

#[inline(never)]
fn check_3<A: Lane, B: Lane, C: Lane, O: Lane>(dtypes: [ScalarType; 4]) -> Result<()> {
    check_2::<A, B, O>([dtypes[0], dtypes[1], dtypes[2]])?;
    check::<C>(3, dtypes[3])
}

#[cold]
fn not_computed_in(lane: ScalarType, i: usize, dtype: ScalarType) -> Error {
    Error::dtype(format!("a loop of {} over operand {i}, which is {}", lane.name(), dtype.name()))
}

/// How elements of a dtype that was [looked at](check) are read or written as a `C`.
fn format<C: Lane>(dtype: ScalarType) -> Format<C> {
    C::format(dtype).expect("the dtype is computed in this type")
}

/// Cuts a row into blocks.
fn blocks(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).step_by(BLOCK).map(move |start| (start, BLOCK.min(n - start)))
}

/// How the elements of `N` operands lie in the rows of a walk.
#[derive(Clone, Copy)]
struct Lying<'r, const N: usize> {
    dtypes: [ScalarType; N],
    /// The dtypes are those of the lanes, whose memory may be seen as slices.
    are_plain: bool,
    strides: &'r [i64; N],
    n: i64,
}

/// A loop over blocks of one input.
type Kernel1<'k, A, O> = &'k (dyn Fn(&[A], &mut [O]) + Sync);
/// A loop over blocks of two inputs.
type Kernel2<'k, A, B, O> = &'k (dyn Fn(&[A], &[B], &mut [O]) + Sync);
/// A loop over blocks of three inputs.
type Kernel3<'k, A, B, C, O> = &'k (dyn Fn(&[A], &[B], &[C], &mut [O]) + Sync);

/// `kernel(a, out)` for blocks of every row.
pub(crate) fn unary_blocks<A: Lane, O: Lane>(iter: &TensorIter<'_>, kernel: Kernel1<'_, A, O>) -> Result<()> {
    let dtypes = iter.dtypes::<2>(1)?;
    let are_own = dtypes == [O::SCALAR_TYPE, A::SCALAR_TYPE];
    if !are_own {
        check_1::<A, O>(dtypes)?;
    }
    let are_plain = are_own && O::PLAIN && A::PLAIN;
    for_each_rows(iter, &|first: &[*mut u8; 2], strides, n, further| {
        let lying = Lying { dtypes, are_plain, strides, n };
        if further.rows > 0 {
            // SAFETY: the rows of a walk, of these dtypes.
            return unsafe { rows_1(lying, first, further, kernel) };
        }
        // SAFETY: as above.
        unsafe { row_1(lying, first, false, kernel) };
    })
}

/// The kernel of [`unary_blocks`] on a row and those that follow it.
///
/// # Safety
/// They are rows of a walk, of elements of these dtypes.
#[inline(never)]
unsafe fn rows_1<A: Lane, O: Lane>(
    lying: Lying<'_, 2>,
    first: &[*mut u8; 2],
    further: Further<'_, 2>,
    kernel: Kernel1<'_, A, O>,
) {
    let Lying { are_plain, strides, n, .. } = lying;
    let are_direct = are_plain
        && are_all_direct::<O, _>((first, strides, n), further, 0)
        && are_all_direct::<A, _>((first, strides, n), further, 1)
        && are_all_apart::<A, O, _>(first, n, further, 1);
    // SAFETY: the caller's.
    further.with(first, |pointers| unsafe { row_1(lying, pointers, are_direct, kernel) });
}

/// The kernel of [`unary_blocks`] on a row, of which it may be known that all of it lies as it is lent.
///
/// # Safety
/// It is a row of a walk, of elements of these dtypes; and it lies so, if `are_direct` says so.
#[inline(always)]
unsafe fn row_1<A: Lane, O: Lane>(
    lying: Lying<'_, 2>,
    pointers: &[*mut u8; 2],
    are_direct: bool,
    kernel: Kernel1<'_, A, O>,
) {
    let Lying { dtypes, are_plain, strides, n } = lying;
    let [out, a] = *pointers;
    let is_direct = are_direct
        || (are_plain
            && is_direct::<O>(out, strides[0], n)
            && is_direct::<A>(a, strides[1], n)
            && are_apart::<A, O>(a, out, n));
    if is_direct {
        // SAFETY: the row's pointer, for `n` elements of this type; nothing writes there.
        let a = unsafe { lent::<A>(a, n) };
        // SAFETY: as above; the inputs lie elsewhere.
        return kernel(a, unsafe { lent_mut::<O>(out, n) });
    }
    // SAFETY: the row's pointers and strides, of these dtypes; nothing else is done there.
    unsafe { by_blocks_1(dtypes, pointers, strides, n, kernel) };
}

/// The kernel of [`unary_blocks`] on blocks of rows of which some are not lent as they lie.
///
/// # Safety
/// They are rows of a walk, of `n` elements of the dtypes each.
#[inline(never)]
unsafe fn by_blocks_1<A: Lane, O: Lane>(
    dtypes: [ScalarType; 2],
    pointers: &[*mut u8; 2],
    strides: &[i64; 2],
    n: i64,
    kernel: Kernel1<'_, A, O>,
) {
    // SAFETY: the caller's; the format is that of the dtype.
    let out = unsafe { RowOf::new(pointers[0], strides[0], n, format::<O>(dtypes[0])) };
    // SAFETY: as above.
    let a = unsafe { RowOf::input(pointers[1], strides[1], n, format::<A>(dtypes[1]), &out) };
    let mut out_buffer: Buffer<O> = [const { MaybeUninit::uninit() }; BLOCK];
    let mut a_buffer: Buffer<A> = [const { MaybeUninit::uninit() }; BLOCK];
    for (start, len) in blocks(n as usize) {
        // SAFETY: the block is within the row.
        let a = unsafe { a.read(start, len, &mut a_buffer) };
        // SAFETY: as above; inputs that are lent lie elsewhere.
        let room = unsafe { out.room(start, len, &mut out_buffer) };
        kernel(a, room);
        // SAFETY: as above.
        unsafe { out.write_back(start, room) };
    }
}

/// `kernel(a, b, out)` for blocks of every row.
pub(crate) fn binary_blocks<A: Lane, B: Lane, O: Lane>(
    iter: &TensorIter<'_>,
    kernel: Kernel2<'_, A, B, O>,
) -> Result<()> {
    let dtypes = iter.dtypes::<3>(1)?;
    let are_own = dtypes == [O::SCALAR_TYPE, A::SCALAR_TYPE, B::SCALAR_TYPE];
    if !are_own {
        check_2::<A, B, O>(dtypes)?;
    }
    let are_plain = are_own && O::PLAIN && A::PLAIN && B::PLAIN;
    for_each_rows(iter, &|first: &[*mut u8; 3], strides, n, further| {
        let lying = Lying { dtypes, are_plain, strides, n };
        if further.rows > 0 {
            // SAFETY: the rows of a walk, of these dtypes.
            return unsafe { rows_2(lying, first, further, kernel) };
        }
        // SAFETY: as above.
        unsafe { row_2(lying, first, false, kernel) };
    })
}

/// The kernel of [`binary_blocks`] on a row and those that follow it.
///
/// # Safety
/// They are rows of a walk, of elements of these dtypes.
#[inline(never)]
unsafe fn rows_2<A: Lane, B: Lane, O: Lane>(
    lying: Lying<'_, 3>,
    first: &[*mut u8; 3],
    further: Further<'_, 3>,
    kernel: Kernel2<'_, A, B, O>,
) {
    let Lying { are_plain, strides, n, .. } = lying;
    let are_direct = are_plain
        && are_all_direct::<O, _>((first, strides, n), further, 0)
        && are_all_direct::<A, _>((first, strides, n), further, 1)
        && are_all_direct::<B, _>((first, strides, n), further, 2)
        && are_all_apart::<A, O, _>(first, n, further, 1)
        && are_all_apart::<B, O, _>(first, n, further, 2);
    // SAFETY: the caller's.
    further.with(first, |pointers| unsafe { row_2(lying, pointers, are_direct, kernel) });
}

/// The kernel of [`binary_blocks`] on a row, of which it may be known that all of it lies as it is lent.
///
/// # Safety
/// It is a row of a walk, of elements of these dtypes; and it lies so, if `are_direct` says so.
#[inline(always)]
unsafe fn row_2<A: Lane, B: Lane, O: Lane>(
    lying: Lying<'_, 3>,
    pointers: &[*mut u8; 3],
    are_direct: bool,
    kernel: Kernel2<'_, A, B, O>,
) {
    let Lying { dtypes, are_plain, strides, n } = lying;
    let [out, a, b] = *pointers;
    let is_direct = are_direct
        || (are_plain
            && is_direct::<O>(out, strides[0], n)
            && is_direct::<A>(a, strides[1], n)
            && are_apart::<A, O>(a, out, n)
            && is_direct::<B>(b, strides[2], n)
            && are_apart::<B, O>(b, out, n));
    if is_direct {
        // SAFETY: the row's pointer, for `n` elements of this type; nothing writes there.
        let a = unsafe { lent::<A>(a, n) };
        // SAFETY: the row's pointer, for `n` elements of this type; nothing writes there.
        let b = unsafe { lent::<B>(b, n) };
        // SAFETY: as above; the inputs lie elsewhere.
        return kernel(a, b, unsafe { lent_mut::<O>(out, n) });
    }
    // SAFETY: the row's pointers and strides, of these dtypes; nothing else is done there.
    unsafe { by_blocks_2(dtypes, pointers, strides, n, kernel) };
}

/// The kernel of [`binary_blocks`] on blocks of rows of which some are not lent as they lie.
///
/// # Safety
/// They are rows of a walk, of `n` elements of the dtypes each.
#[inline(never)]
unsafe fn by_blocks_2<A: Lane, B: Lane, O: Lane>(
    dtypes: [ScalarType; 3],
    pointers: &[*mut u8; 3],
    strides: &[i64; 3],
    n: i64,
    kernel: Kernel2<'_, A, B, O>,
) {
    // SAFETY: the caller's; the format is that of the dtype.
    let out = unsafe { RowOf::new(pointers[0], strides[0], n, format::<O>(dtypes[0])) };
    // SAFETY: as above.
    let a = unsafe { RowOf::input(pointers[1], strides[1], n, format::<A>(dtypes[1]), &out) };
    // SAFETY: as above.
    let b = unsafe { RowOf::input(pointers[2], strides[2], n, format::<B>(dtypes[2]), &out) };
    let mut out_buffer: Buffer<O> = [const { MaybeUninit::uninit() }; BLOCK];
    let mut a_buffer: Buffer<A> = [const { MaybeUninit::uninit() }; BLOCK];
    let mut b_buffer: Buffer<B> = [const { MaybeUninit::uninit() }; BLOCK];
    for (start, len) in blocks(n as usize) {
        // SAFETY: the block is within the row.
        let a = unsafe { a.read(start, len, &mut a_buffer) };
        // SAFETY: as above.
        let b = unsafe { b.read(start, len, &mut b_buffer) };
        // SAFETY: as above; inputs that are lent lie elsewhere.
        let room = unsafe { out.room(start, len, &mut out_buffer) };
        kernel(a, b, room);
        // SAFETY: as above.
        unsafe { out.write_back(start, room) };
    }
}

/// `kernel(a, b, c, out)` for blocks of every row.
pub(crate) fn ternary_blocks<A: Lane, B: Lane, C: Lane, O: Lane>(
    iter: &TensorIter<'_>,
    kernel: Kernel3<'_, A, B, C, O>,
) -> Result<()> {
    let dtypes = iter.dtypes::<4>(1)?;
    let are_own = dtypes == [O::SCALAR_TYPE, A::SCALAR_TYPE, B::SCALAR_TYPE, C::SCALAR_TYPE];
    if !are_own {
        check_3::<A, B, C, O>(dtypes)?;
    }
    let are_plain = are_own && O::PLAIN && A::PLAIN && B::PLAIN && C::PLAIN;
    for_each_rows(iter, &|first: &[*mut u8; 4], strides, n, further| {
        let lying = Lying { dtypes, are_plain, strides, n };
        if further.rows > 0 {
            // SAFETY: the rows of a walk, of these dtypes.
            return unsafe { rows_3(lying, first, further, kernel) };
        }
        // SAFETY: as above.
        unsafe { row_3(lying, first, false, kernel) };
    })
}

/// The kernel of [`ternary_blocks`] on a row and those that follow it.
///
/// # Safety
/// They are rows of a walk, of elements of these dtypes.
#[inline(never)]
unsafe fn rows_3<A: Lane, B: Lane, C: Lane, O: Lane>(
    lying: Lying<'_, 4>,
    first: &[*mut u8; 4],
    further: Further<'_, 4>,
    kernel: Kernel3<'_, A, B, C, O>,
) {
    let Lying { are_plain, strides, n, .. } = lying;
    let are_direct = are_plain
        && are_all_direct::<O, _>((first, strides, n), further, 0)
        && are_all_direct::<A, _>((first, strides, n), further, 1)
        && are_all_direct::<B, _>((first, strides, n), further, 2)
        && are_all_direct::<C, _>((first, strides, n), further, 3)
        && are_all_apart::<A, O, _>(first, n, further, 1)
        && are_all_apart::<B, O, _>(first, n, further, 2)
        && are_all_apart::<C, O, _>(first, n, further, 3);
    // SAFETY: the caller's.
    further.with(first, |pointers| unsafe { row_3(lying, pointers, are_direct, kernel) });
}

/// The kernel of [`ternary_blocks`] on a row, of which it may be known that all of it lies as it is lent.
///
/// # Safety
/// It is a row of a walk, of elements of these dtypes; and it lies so, if `are_direct` says so.
#[inline(always)]
unsafe fn row_3<A: Lane, B: Lane, C: Lane, O: Lane>(
    lying: Lying<'_, 4>,
    pointers: &[*mut u8; 4],
    are_direct: bool,
    kernel: Kernel3<'_, A, B, C, O>,
) {
    let Lying { dtypes, are_plain, strides, n } = lying;
    let [out, a, b, c] = *pointers;
    let is_direct = are_direct
        || (are_plain
            && is_direct::<O>(out, strides[0], n)
            && is_direct::<A>(a, strides[1], n)
            && are_apart::<A, O>(a, out, n)
            && is_direct::<B>(b, strides[2], n)
            && are_apart::<B, O>(b, out, n)
            && is_direct::<C>(c, strides[3], n)
            && are_apart::<C, O>(c, out, n));
    if is_direct {
        // SAFETY: the row's pointer, for `n` elements of this type; nothing writes there.
        let a = unsafe { lent::<A>(a, n) };
        // SAFETY: the row's pointer, for `n` elements of this type; nothing writes there.
        let b = unsafe { lent::<B>(b, n) };
        // SAFETY: the row's pointer, for `n` elements of this type; nothing writes there.
        let c = unsafe { lent::<C>(c, n) };
        // SAFETY: as above; the inputs lie elsewhere.
        return kernel(a, b, c, unsafe { lent_mut::<O>(out, n) });
    }
    // SAFETY: the row's pointers and strides, of these dtypes; nothing else is done there.
    unsafe { by_blocks_3(dtypes, pointers, strides, n, kernel) };
}

/// The kernel of [`ternary_blocks`] on blocks of rows of which some are not lent as they lie.
///
/// # Safety
/// They are rows of a walk, of `n` elements of the dtypes each.
#[inline(never)]
unsafe fn by_blocks_3<A: Lane, B: Lane, C: Lane, O: Lane>(
    dtypes: [ScalarType; 4],
    pointers: &[*mut u8; 4],
    strides: &[i64; 4],
    n: i64,
    kernel: Kernel3<'_, A, B, C, O>,
) {
    // SAFETY: the caller's; the format is that of the dtype.
    let out = unsafe { RowOf::new(pointers[0], strides[0], n, format::<O>(dtypes[0])) };
    // SAFETY: as above.
    let a = unsafe { RowOf::input(pointers[1], strides[1], n, format::<A>(dtypes[1]), &out) };
    // SAFETY: as above.
    let b = unsafe { RowOf::input(pointers[2], strides[2], n, format::<B>(dtypes[2]), &out) };
    // SAFETY: as above.
    let c = unsafe { RowOf::input(pointers[3], strides[3], n, format::<C>(dtypes[3]), &out) };
    let mut out_buffer: Buffer<O> = [const { MaybeUninit::uninit() }; BLOCK];
    let mut a_buffer: Buffer<A> = [const { MaybeUninit::uninit() }; BLOCK];
    let mut b_buffer: Buffer<B> = [const { MaybeUninit::uninit() }; BLOCK];
    let mut c_buffer: Buffer<C> = [const { MaybeUninit::uninit() }; BLOCK];
    for (start, len) in blocks(n as usize) {
        // SAFETY: the block is within the row.
        let a = unsafe { a.read(start, len, &mut a_buffer) };
        // SAFETY: as above.
        let b = unsafe { b.read(start, len, &mut b_buffer) };
        // SAFETY: as above.
        let c = unsafe { c.read(start, len, &mut c_buffer) };
        // SAFETY: as above; inputs that are lent lie elsewhere.
        let room = unsafe { out.room(start, len, &mut out_buffer) };
        kernel(a, b, c, room);
        // SAFETY: as above.
        unsafe { out.write_back(start, room) };
    }
}

/// `out = f(a)` for every element.
pub(crate) fn unary<A: Lane, O: Lane>(iter: &TensorIter<'_>, f: impl Fn(A) -> O + Sync) -> Result<()> {
    unary_blocks(iter, &|a, out| a.iter().zip(out).for_each(|(&a, out)| *out = f(a)))
}

/// `out = f(a, b)` for every element.
pub(crate) fn binary<A: Lane, B: Lane, O: Lane>(
    iter: &TensorIter<'_>,
    f: impl Fn(A, B) -> O + Sync,
) -> Result<()> {
    binary_blocks(iter, &|a, b, out| {
        a.iter().zip(b).zip(out).for_each(|((&a, &b), out)| *out = f(a, b));
    })
}

/// `out = f(a, b, c)` for every element.
pub(crate) fn ternary<A: Lane, B: Lane, C: Lane, O: Lane>(
    iter: &TensorIter<'_>,
    f: impl Fn(A, B, C) -> O + Sync,
) -> Result<()> {
    ternary_blocks(iter, &|a, b, c, out| {
        a.iter().zip(b).zip(c).zip(out).for_each(|(((&a, &b), &c), out)| *out = f(a, b, c));
    })
}

/// [`unary`], as vector code.
#[inline]
pub(crate) fn unary_simd<A: Lane, O: Lane>(iter: &TensorIter<'_>, f: impl Fn(A) -> O + Sync) -> Result<()> {
    let f = &f;
    unary_blocks(iter, &|a, out| {
        simd::dispatch_for(
            out.len(),
            #[inline(always)]
            move || {
                for (&a, out) in a.iter().zip(out) {
                    *out = f(a);
                }
            },
        );
    })
}

/// [`binary`], as vector code.
#[inline]
pub(crate) fn binary_simd<A: Lane, B: Lane, O: Lane>(
    iter: &TensorIter<'_>,
    f: impl Fn(A, B) -> O + Sync,
) -> Result<()> {
    let f = &f;
    binary_blocks(iter, &|a, b, out| {
        simd::dispatch_for(
            out.len(),
            #[inline(always)]
            move || {
                for ((&a, &b), out) in a.iter().zip(b).zip(out) {
                    *out = f(a, b);
                }
            },
        );
    })
}

/// [`ternary`], as vector code.
#[inline]
pub(crate) fn ternary_simd<A: Lane, B: Lane, C: Lane, O: Lane>(
    iter: &TensorIter<'_>,
    f: impl Fn(A, B, C) -> O + Sync,
) -> Result<()> {
    let f = &f;
    ternary_blocks(iter, &|a, b, c, out| {
        simd::dispatch_for(
            out.len(),
            #[inline(always)]
            move || {
                for (((&a, &b), &c), out) in a.iter().zip(b).zip(c).zip(out) {
                    *out = f(a, b, c);
                }
            },
        );
    })
}
