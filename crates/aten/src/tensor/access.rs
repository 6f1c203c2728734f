#![expect(
    unsafe_code,
    reason = "reads the bytes of a locked storage as elements of the dtype that the tensor has"
)]
//! Access to the elements of tensors, for kernels that are no loop over a [`TensorIter`](crate::iter).
//!
//! [`access`] locks each storage once, in its strongest mode, and lends the elements as slices that begin at
//! a tensor's first element. Kernels index them by the tensor's strides, so that a wrong index is a panic in
//! the worst case and never an access outside the storage. Nothing may be called inside but loops: no
//! operator, allocator or hook.

use std::slice;

use c10_core::storage::{self, AccessOptions};
use c10_core::{Complex, Element, F8E4M3Fn, F8E5M2, ScalarType, bf16, f16};

use super::Tensor;
use super::geometry::{Geometry, Snapshot};
use crate::error::{Error, ErrorKind, Result};

/// An element of whose bytes every value is one. `bool` is not: its tensors are read as [`u8`]s, of which all
/// but 0 are true.
///
/// # Safety
/// Every bit pattern is a value, and `SCALAR_TYPE` is [`Element`]'s.
pub(crate) unsafe trait Plain: Element {}

macro_rules! plain {
    ($($element:ty),*) => {$(
        // SAFETY: integers and floats of any bits, or pairs of them.
        unsafe impl Plain for $element {}
    )*};
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64);
plain!(Complex<f16>, Complex<bf16>, Complex<f32>, Complex<f64>, F8E4M3Fn, F8E5M2);

/// The elements of a tensor that is read.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    geometry: &'a Geometry,
    dtype: ScalarType,
    bytes: &'a [u8],
}

/// The elements of a tensor that is written.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    geometry: &'a Geometry,
    dtype: ScalarType,
    bytes: &'a mut [u8],
}

/// Whether the tensors written are new, so that their version stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fresh {
    Yes,
    No,
}

/// Runs `kernel` on the elements of tensors of the host that are read and written. A tensor that is written
/// may share its storage with no other.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] when one that is written shares its storage with another,
/// [`ErrorKind::NotImplemented`] when the host cannot reach one, [`ErrorKind::Shape`] when a storage was
/// shrunk below its tensor; else as `c10_core::storage::Access`, or what `kernel` returns.
pub(crate) fn access<const R: usize, const W: usize, T>(
    reads: [&Tensor; R],
    writes: [&Tensor; W],
    fresh: Fresh,
    kernel: impl FnOnce([Read<'_>; R], [Write<'_>; W]) -> Result<T>,
) -> Result<T> {
    let (mut kernel, mut result) = (Some(kernel), None);
    lend(reads, writes, fresh, &mut |reads, writes| {
        let kernel = kernel.take().expect("the elements are lent once");
        result = Some(kernel(reads, writes)?);
        Ok(())
    })?;
    Ok(result.expect("a kernel that did not fail has returned"))
}

/// What a kernel is to [`lend`].
type Lent<'k, const R: usize, const W: usize> =
    &'k mut dyn FnMut([Read<'_>; R], [Write<'_>; W]) -> Result<()>;

/// [`access`], compiled once for all kernels of so many operands.
fn lend<const R: usize, const W: usize>(
    reads: [&Tensor; R],
    writes: [&Tensor; W],
    fresh: Fresh,
    kernel: Lent<'_, R, W>,
) -> Result<()> {
    reads.iter().chain(&writes).try_for_each(|tensor| tensor.check_as_stored())?;
    let read = reads.map(Tensor::geometry);
    let written = writes.map(Tensor::geometry);
    let storages = read.each_ref().map(|g| &g.storage);
    let written_storages = written.each_ref().map(|g| &g.storage);
    let options = AccessOptions { bump_version: fresh == Fresh::No, host: true };
    let mut set = storage::Access::acquire_with(&storages, &written_storages, options)?;
    let (read_bytes, written_bytes) = set.slices::<R, W>()?;
    let mut read_bytes = read_bytes.into_iter();
    let mut written_bytes = written_bytes.into_iter();
    check_bounds(&read)?;
    check_bounds(&written)?;
    let read_views = std::array::from_fn(|i| Read {
        geometry: &read[i],
        dtype: reads[i].dtype(),
        bytes: read_bytes.next().expect("one for each"),
    });
    let written_views = std::array::from_fn(|i| Write {
        geometry: &written[i],
        dtype: writes[i].dtype(),
        bytes: written_bytes.next().expect("one for each"),
    });
    kernel(read_views, written_views)
}

/// Under the lock: each storage holds its tensor.
fn check_bounds(geometries: &[Snapshot<'_>]) -> Result<()> {
    geometries.iter().try_for_each(|geometry| check_end(geometry.end_bytes, geometry.storage.nbytes()))
}

/// The elements end within the storage, which has `nbytes`.
#[inline]
pub(crate) fn check_end(end_bytes: usize, nbytes: usize) -> Result<()> {
    if end_bytes <= nbytes { Ok(()) } else { Err(has_shrunk(end_bytes, nbytes)) }
}

#[cold]
fn has_shrunk(end_bytes: usize, nbytes: usize) -> Error {
    Error::new(
        ErrorKind::Shape,
        format!("the storage has shrunk to {nbytes} bytes, and the tensor needs {end_bytes}"),
    )
}

impl<'a> Read<'a> {
    /// The type of an element.
    pub(crate) fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// The size of each dimension.
    pub(crate) fn sizes(&self) -> &'a [i64] {
        &self.geometry.sizes
    }

    /// The stride of each dimension, in elements.
    pub(crate) fn strides(&self) -> &'a [i64] {
        &self.geometry.strides
    }

    /// The elements from the tensor's first to its last in the storage, whatever lies between.
    ///
    /// # Errors
    /// [`ErrorKind::Dtype`] when the tensor's elements are no `T`s; a `bool` tensor gives `u8`s, and every real one
    /// gives its bits as unsigned integers, too.
    pub(crate) fn elements<T: Plain>(&self) -> Result<&'a [T]> {
        let bytes = span(self.geometry, self.dtype, T::SCALAR_TYPE, self.bytes.len())?;
        cast(&self.bytes[bytes])
    }

    /// A copy of the elements of a contiguous tensor, whose dtype is that of `T`.
    pub(crate) fn copied<T: Element>(&self) -> Result<Vec<T>> {
        check_contiguous(self.geometry)?;
        if self.dtype != T::SCALAR_TYPE {
            return Err(Error::dtype(format!(
                "expected {}, found {}",
                T::SCALAR_TYPE.name(),
                self.dtype.name()
            )));
        }
        let bytes = &self.bytes[span(self.geometry, self.dtype, self.dtype, self.bytes.len())?];
        if self.dtype == ScalarType::Bool {
            return bytes.iter().map(|&byte| Ok(T::from_scalar((byte != 0).into())?)).collect();
        }
        let mut elements = vec![T::default(); bytes.len() / size_of::<T>()];
        // SAFETY: as many bytes as the elements have; of every dtype but `bool` any bits are a value.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), elements.as_mut_ptr().cast(), bytes.len());
        }
        Ok(elements)
    }

    /// The elements of a contiguous tensor.
    ///
    /// # Errors
    /// As [`elements`](Self::elements); [`ErrorKind::InvalidArgument`] when it is not contiguous.
    pub(crate) fn slice<T: Plain>(&self) -> Result<&'a [T]> {
        check_contiguous(self.geometry)?;
        self.elements()
    }
}

impl<'a> Write<'a> {
    /// The size of each dimension.
    pub(crate) fn sizes(&self) -> &'a [i64] {
        &self.geometry.sizes
    }

    /// The stride of each dimension, in elements.
    pub(crate) fn strides(&self) -> &'a [i64] {
        &self.geometry.strides
    }

    pub(crate) fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// As [`Read::elements`], to write.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn elements<T: Plain>(self) -> Result<&'a mut [T]> {
        let bytes = span(self.geometry, self.dtype, T::SCALAR_TYPE, self.bytes.len())?;
        cast_mut(&mut self.bytes[bytes])
    }

    /// As [`Read::slice`], to write.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn slice<T: Plain>(self) -> Result<&'a mut [T]> {
        check_contiguous(self.geometry)?;
        self.elements()
    }
}

/// Writes `elements` to a contiguous tensor of the host that was just made and is nobody else's.
pub(super) fn write_elements<T: Element>(tensor: &Tensor, elements: &[T]) -> Result<()> {
    // SAFETY: the bytes of a slice of numbers or `bool`s; no element has padding.
    let bytes = unsafe { slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements)) };
    let geometry = tensor.geometry();
    let options = AccessOptions { bump_version: false, host: true };
    let mut set = storage::Access::acquire_with(&[], &[&geometry.storage], options)?;
    set.write(0)?.copy_from_slice(bytes);
    Ok(())
}

pub(super) fn check_contiguous(geometry: &Geometry) -> Result<()> {
    if geometry.flags.is_contiguous(c10_core::MemoryFormat::Contiguous) {
        return Ok(());
    }
    Err(Error::invalid_argument("a tensor that is not contiguous is no slice"))
}

/// The bytes of the tensor in those of its storage.
pub(super) fn span(
    geometry: &Geometry,
    dtype: ScalarType,
    wanted: ScalarType,
    nbytes: usize,
) -> Result<std::ops::Range<usize>> {
    if dtype != wanted && word_type(dtype) != wanted {
        return Err(Error::dtype(format!("expected elements of {}, found {}", wanted.name(), dtype.name())));
    }
    check_end(geometry.end_bytes, nbytes)?;
    if geometry.numel == 0 {
        return Ok(0..0);
    }
    let begin = geometry.storage_offset as usize * dtype.element_size();
    Ok(begin..geometry.end_bytes)
}

/// The type of as many bits that kernels may move elements by, whatever they mean: a complex number goes by
/// itself, since it need not be aligned as one integer.
const fn word_type(dtype: ScalarType) -> ScalarType {
    use ScalarType as S;
    match dtype {
        S::Bool | S::UInt8 | S::Int8 | S::Float8E5M2 | S::Float8E4M3Fn => S::UInt8,
        S::UInt16 | S::Int16 | S::Float16 | S::BFloat16 => S::UInt16,
        S::UInt32 | S::Int32 | S::Float32 => S::UInt32,
        S::UInt64 | S::Int64 | S::Float64 => S::UInt64,
        S::Complex32 | S::Complex64 | S::Complex128 | S::BComplex32 => dtype,
    }
}

/// Calls `$body` with `$W` being the word of a dtype: what kernels take that move elements and never compute.
macro_rules! for_words {
    ($dtype:expr, $W:ident => $body:expr) => {
        match $dtype {
            c10_core::ScalarType::Complex32 => {
                type $W = c10_core::Complex<c10_core::f16>;
                $body
            }
            c10_core::ScalarType::BComplex32 => {
                type $W = c10_core::Complex<c10_core::bf16>;
                $body
            }
            c10_core::ScalarType::Complex64 => {
                type $W = c10_core::Complex<f32>;
                $body
            }
            c10_core::ScalarType::Complex128 => {
                type $W = c10_core::Complex<f64>;
                $body
            }
            dtype => match dtype.element_size() {
                1 => {
                    type $W = u8;
                    $body
                }
                2 => {
                    type $W = u16;
                    $body
                }
                4 => {
                    type $W = u32;
                    $body
                }
                _ => {
                    type $W = u64;
                    $body
                }
            },
        }
    };
}
pub(crate) use for_words;

fn cast<T: Plain>(bytes: &[u8]) -> Result<&[T]> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    let start = bytes.as_ptr().cast::<T>();
    check_aligned(start)?;
    // SAFETY: aligned; `Plain` says that any bytes are a `T`, and there are as many as fit. The lifetime is that
    // of the bytes.
    Ok(unsafe { slice::from_raw_parts(start, bytes.len() / size_of::<T>()) })
}

fn cast_mut<T: Plain>(bytes: &mut [u8]) -> Result<&mut [T]> {
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    let start = bytes.as_mut_ptr().cast::<T>();
    check_aligned(start)?;
    // SAFETY: as in `cast`, and the bytes are borrowed exclusively.
    Ok(unsafe { slice::from_raw_parts_mut(start, bytes.len() / size_of::<T>()) })
}

pub(super) fn check_aligned<T>(start: *const T) -> Result<()> {
    if start.is_aligned() {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "the elements begin at {start:?}, which is no multiple of {}",
        align_of::<T>()
    )))
}
