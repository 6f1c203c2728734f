#![expect(unsafe_code, reason = "makes slices of elements of bytes that were checked")]
//! Bytes as slices of elements, and [`ReadGuard`] and [`WriteGuard`]: the slice of one tensor.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use super::Tensor;
use super::access::check_aligned;
use super::access_element::AccessElement;
use super::access_set::{Access, AccessSet};
use crate::error::{Error, Result};

/// Bytes that are a whole number of elements, as those.
pub(super) fn cast_valid<T: AccessElement>(bytes: &[u8]) -> Result<&[T]> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    check::<T>(bytes)?;
    // SAFETY: aligned, values of the type, and as many as fit. The lifetime is that of the bytes.
    Ok(unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) })
}

/// As [`cast_valid`], to write.
pub(super) fn cast_valid_mut<T: AccessElement>(bytes: &mut [u8]) -> Result<&mut [T]> {
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    check::<T>(bytes)?;
    // SAFETY: as in `cast_valid`; borrowed exclusively, and every value of the type is good bytes.
    Ok(unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) })
}

fn check<T: AccessElement>(bytes: &[u8]) -> Result<()> {
    check_aligned(bytes.as_ptr().cast::<T>())?;
    if !T::is_valid(bytes) {
        return Err(Error::invalid_argument("bytes of the tensor are neither 0 nor 1, and so no `bool`s"));
    }
    Ok(())
}

/// The elements of a tensor, by [`Tensor::as_slice`]. Others may read them meanwhile.
#[must_use = "access ends as soon as the guard is dropped"]
pub struct ReadGuard<T> {
    elements: NonNull<[T]>,
    /// Has the storage locked, shared, and lends nothing else of it.
    _set: AccessSet,
}

/// The elements of a tensor, by [`Tensor::as_mut_slice`]. Nobody else reads or writes them meanwhile.
#[must_use = "access ends as soon as the guard is dropped"]
pub struct WriteGuard<T> {
    elements: NonNull<[T]>,
    /// Has the storage locked, exclusively, and lends nothing else of it.
    _set: AccessSet,
}

impl Tensor {
    /// The elements of a contiguous tensor of the host, where they are. It waits for writers, unless this thread
    /// holds access already.
    ///
    /// ```
    /// let tensor = aten::Tensor::from_elements(&[1_i64, 2, 3])?;
    /// assert_eq!(tensor.as_slice::<i64>()?.iter().sum::<i64>(), 6);
    /// tensor.as_mut_slice::<i64>()?[0] = 10;
    /// assert_eq!(tensor.to_vec::<i64>()?, [10, 2, 3]);
    /// # Ok::<(), aten::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Access::acquire`] and [`AccessSet::read_slice`].
    pub fn as_slice<T: AccessElement>(&self) -> Result<ReadGuard<T>> {
        let set = Access::acquire(&[self], &[])?;
        let elements = NonNull::from(set.read_slice::<T>(0)?);
        Ok(ReadGuard { elements, _set: set })
    }

    /// As [`as_slice`](Self::as_slice), to write. It waits for readers too, and counts as a write.
    ///
    /// # Errors
    /// As [`Access::acquire`] and [`AccessSet::write_slice`].
    pub fn as_mut_slice<T: AccessElement>(&self) -> Result<WriteGuard<T>> {
        let mut set = Access::acquire(&[], &[self])?;
        let elements = NonNull::from(set.write_slice::<T>(0)?);
        Ok(WriteGuard { elements, _set: set })
    }
}

impl<T> Deref for ReadGuard<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: a slice of the storage that the guard's set keeps and has locked until the guard's end.
        unsafe { self.elements.as_ref() }
    }
}

impl<T> Deref for WriteGuard<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as in `ReadGuard`; a `&mut` is lent by an exclusive borrow of the guard alone.
        unsafe { self.elements.as_ref() }
    }
}

impl<T> DerefMut for WriteGuard<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and the guard is borrowed exclusively.
        unsafe { self.elements.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for ReadGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&&**self).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for WriteGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGuard").field(&&**self).finish()
    }
}
