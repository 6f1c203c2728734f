#![expect(unsafe_code, reason = "reads and writes elements through the pointers of a walk, by their dtypes")]
//! Typed loops over a [`TensorIter`]: kernels give a closure of elements, and nothing here depends on what it
//! computes.
//!
//! Each loop checks that the operands have the closure's types, which is what makes reading them as such
//! sound. Elements are read and written unaligned: storages of other libraries may begin anywhere.

use c10_core::{Complex, Element, F8E4M3Fn, F8E5M2, Scalar, ScalarType, bf16, f16};

use super::TensorIter;
use super::run::for_each_row;
use crate::error::{Error, Result};
use crate::kernels::cpu::copy::{Convert, Wide};
use crate::tensor::AccessElement;

/// An element that loops read and write: what outside kernels may read, and how it is stored.
pub(crate) trait Elem: AccessElement {
    /// # Safety
    /// `to` is valid for writes of `size_of::<Self>()` bytes.
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { to.cast::<Self>().write_unaligned(self) };
    }
}

impl<T: AccessElement> Elem for T {}

/// Calls `$body` with `$T` being the element type of a dtype, for the types of a list.
macro_rules! dispatch {
    ($dtype:expr, $operator:expr, [$($element:ty),* $(,)?], $T:ident => $body:expr) => {
        match $dtype {
            $(<$element as c10_core::Element>::SCALAR_TYPE => {
                type $T = $element;
                $body
            })*
            #[allow(unreachable_patterns, reason = "some lists have every dtype")]
            other => Err($crate::iter::loops::no_kernel($operator, other)),
        }
    };
}
pub(crate) use dispatch;

/// The refusal of a dtype that an operator has no loop for.
#[cold]
pub(crate) fn no_kernel(operator: &str, dtype: ScalarType) -> Error {
    // PyTorch's text.
    Error::not_implemented(format!("\"{operator}\" not implemented for '{}'", dtype.c10_name()))
}

/// That operand `i`, which is of `dtype`, is one of `T`.
fn check<T: Element>(i: usize, dtype: ScalarType) -> Result<()> {
    if dtype == T::SCALAR_TYPE {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "a loop of {} over operand {i}, which is {}",
        T::SCALAR_TYPE.name(),
        dtype.name()
    )))
}

/// `out = f(a)` for every element.
pub(crate) fn unary<A: Elem, O: Elem>(iter: &TensorIter<'_>, f: impl Fn(A) -> O + Sync) -> Result<()> {
    let dtypes = iter.dtypes::<2>(1)?;
    check::<O>(0, dtypes[0])?;
    check::<A>(1, dtypes[1])?;
    for_each_row(iter, &|&[out, a], strides: &[i64; 2], n| {
        let at = |i: isize| {
            // SAFETY: the row's element, of the input's dtype.
            let value = unsafe { A::load(a.wrapping_offset(i * strides[1] as isize)) };
            // SAFETY: the row's element, of the output's dtype.
            unsafe { f(value).store(out.wrapping_offset(i * strides[0] as isize)) };
        };
        (0..n as isize).for_each(at);
    })
}

/// `out = f(a, b)` for every element.
pub(crate) fn binary<A: Elem, B: Elem, O: Elem>(
    iter: &TensorIter<'_>,
    f: impl Fn(A, B) -> O + Sync,
) -> Result<()> {
    let dtypes = iter.dtypes::<3>(1)?;
    check::<O>(0, dtypes[0])?;
    check::<A>(1, dtypes[1])?;
    check::<B>(2, dtypes[2])?;
    for_each_row(iter, &|&[out, a, b], strides: &[i64; 3], n| {
        for i in 0..n as isize {
            // SAFETY: the row's element, of the first input's dtype.
            let a = unsafe { A::load(a.wrapping_offset(i * strides[1] as isize)) };
            // SAFETY: the row's element, of the second input's dtype.
            let b = unsafe { B::load(b.wrapping_offset(i * strides[2] as isize)) };
            // SAFETY: the row's element, of the output's dtype.
            unsafe { f(a, b).store(out.wrapping_offset(i * strides[0] as isize)) };
        }
    })
}

/// `out = f(a, b, c)` for every element.
pub(crate) fn ternary<A: Elem, B: Elem, C: Elem, O: Elem>(
    iter: &TensorIter<'_>,
    f: impl Fn(A, B, C) -> O + Sync,
) -> Result<()> {
    let dtypes = iter.dtypes::<4>(1)?;
    check::<O>(0, dtypes[0])?;
    check::<A>(1, dtypes[1])?;
    check::<B>(2, dtypes[2])?;
    check::<C>(3, dtypes[3])?;
    for_each_row(iter, &|&[out, a, b, c], strides: &[i64; 4], n| {
        for i in 0..n as isize {
            // SAFETY: the row's element, of the first input's dtype.
            let a = unsafe { A::load(a.wrapping_offset(i * strides[1] as isize)) };
            // SAFETY: the row's element, of the second input's dtype.
            let b = unsafe { B::load(b.wrapping_offset(i * strides[2] as isize)) };
            // SAFETY: the row's element, of the third input's dtype.
            let c = unsafe { C::load(c.wrapping_offset(i * strides[3] as isize)) };
            // SAFETY: the row's element, of the output's dtype.
            unsafe { f(a, b, c).store(out.wrapping_offset(i * strides[0] as isize)) };
        }
    })
}

/// A number as a tensor of it would be cast: an integer wraps.
pub(crate) fn converted<T: Convert>(number: Scalar) -> T {
    T::of(match number {
        Scalar::Bool(value) => Wide::Int(value.into()),
        Scalar::Int(value) => Wide::Int(value),
        Scalar::UInt(value) => Wide::UInt(value),
        Scalar::Double(value) => Wide::Float(value),
        Scalar::Complex(value) => Wide::Complex(value.re, value.im),
    })
}

/// A number as the bytes of an element of `dtype`, as [`converted`].
pub(super) fn number_bytes(number: Scalar, dtype: ScalarType) -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // What most numbers are, without the widest types between.
    if let (ScalarType::Float32, Scalar::Double(value)) = (dtype, number) {
        bytes[..4].copy_from_slice(&(value as f32).to_ne_bytes());
        return Ok(bytes);
    }
    dispatch!(
        dtype,
        "number",
        [
            bool, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>,
            Complex<bf16>, F8E4M3Fn, F8E5M2
        ],
        T => {
            let value = converted::<T>(number);
            // SAFETY: no element is larger than 16 bytes.
            unsafe { value.store(bytes.as_mut_ptr()) };
            Ok(())
        }
    )?;
    Ok(bytes)
}

/// The elements of one operand in the order of the walk, which is row-major for an iterator of that operand
/// alone that was made to keep it.
pub(crate) fn each<A: Elem>(iter: &TensorIter<'_>, f: impl Fn(A) + Sync) -> Result<()> {
    let [dtype] = iter.dtypes(0)?;
    check::<A>(0, dtype)?;
    for_each_row(iter, &|&[a], &[stride], n| {
        for i in 0..n as isize {
            // SAFETY: the row's element, of the input's dtype.
            f(unsafe { A::load(a.wrapping_offset(i * stride as isize)) });
        }
    })
}
