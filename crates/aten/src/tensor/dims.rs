//! [`Dims`]: sizes or strides, inline up to five dimensions.

use std::fmt;
use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

/// Sizes or strides of a tensor, one `i64` a dimension, in elements. Up to five are held inline
/// (`c10::impl::SizesAndStrides`). It is a slice to whoever reads it.
#[derive(Clone, Default, Eq, Hash)]
pub struct Dims(SmallVec<[i64; 5]>);

impl Dims {
    /// No dimension.
    pub fn new() -> Self {
        Self(SmallVec::new())
    }

    /// `value`, in each of `len` dimensions.
    pub fn filled(value: i64, len: usize) -> Self {
        Self(SmallVec::from_elem(value, len))
    }

    /// Adds a last dimension.
    pub fn push(&mut self, value: i64) {
        self.0.push(value);
    }

    /// Adds a dimension before `at`.
    ///
    /// # Panics
    /// If `at` is above the number of dimensions.
    pub fn insert(&mut self, at: usize, value: i64) {
        self.0.insert(at, value);
    }

    /// Takes a dimension out.
    ///
    /// # Panics
    /// If there is no such dimension.
    pub fn remove(&mut self, at: usize) -> i64 {
        self.0.remove(at)
    }

    /// Keeps the first `len` dimensions.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl Deref for Dims {
    type Target = [i64];

    #[inline]
    fn deref(&self) -> &[i64] {
        &self.0
    }
}

impl DerefMut for Dims {
    #[inline]
    fn deref_mut(&mut self) -> &mut [i64] {
        &mut self.0
    }
}

impl AsRef<[i64]> for Dims {
    fn as_ref(&self) -> &[i64] {
        self
    }
}

impl From<&[i64]> for Dims {
    #[inline]
    fn from(values: &[i64]) -> Self {
        Self(SmallVec::from_slice(values))
    }
}

impl<const N: usize> From<[i64; N]> for Dims {
    fn from(values: [i64; N]) -> Self {
        Self::from(&values[..])
    }
}

impl From<Vec<i64>> for Dims {
    fn from(values: Vec<i64>) -> Self {
        Self::from(&values[..])
    }
}

impl FromIterator<i64> for Dims {
    fn from_iter<I: IntoIterator<Item = i64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Extend<i64> for Dims {
    fn extend<I: IntoIterator<Item = i64>>(&mut self, values: I) {
        self.0.extend(values);
    }
}

impl<'a> IntoIterator for &'a Dims {
    type Item = &'a i64;
    type IntoIter = std::slice::Iter<'a, i64>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: AsRef<[i64]> + ?Sized> PartialEq<T> for Dims {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
