//! [`IndexItem`]: what one place between the brackets may be (`at::indexing::TensorIndex`).

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::tensor::Tensor;

/// One of the things between the brackets. It is made by `From`; see the [module](super).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum IndexItem {
    /// One place, counted from the end if negative. The dimension goes.
    Integer(i64),
    /// A part of a dimension.
    Slice(Slice),
    /// As many whole dimensions as are left.
    Ellipsis,
    /// A new dimension of size 1.
    NewAxis,
    /// A new dimension of size 1, or of size 0.
    Bool(bool),
    /// The places where a `bool` or `uint8` tensor is not 0, or whose numbers another tensor holds.
    Tensor(Tensor),
}

/// `start:end:step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The first place; the first there is, without it.
    pub start: Option<i64>,
    /// The place after the last; the end, without it.
    pub end: Option<i64>,
    /// How far one place is from the next.
    pub step: i64,
}

/// A new dimension of size 1, as `None` is in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAxis;

/// A whole dimension, as `:` is in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct All;

/// Every `step`th place of a range.
///
/// ```
/// use aten::indexing::step;
///
/// assert_eq!(step(0..10, 2).end, Some(10));
/// ```
pub fn step(range: impl RangeBounds<i64>, step: i64) -> Slice {
    Slice { step, ..Slice::of(&range) }
}

impl Slice {
    /// `start:end`; `None` leaves an end open.
    ///
    /// It is what `1..-1` would be, which Rust's lints take for a mistake.
    ///
    /// ```
    /// use aten::Tensor;
    /// use aten::indexing::Slice;
    ///
    /// let x = Tensor::from_elements(&[0, 1, 2, 3, 4])?;
    /// assert_eq!(x.i(Slice::new(1, -1))?.to_vec::<i32>()?, [1, 2, 3]);
    /// assert_eq!(x.i(Slice::new(None, -1).by(2))?.to_vec::<i32>()?, [0, 2]);
    /// # Ok::<(), aten::Error>(())
    /// ```
    pub fn new(start: impl Into<Option<i64>>, end: impl Into<Option<i64>>) -> Self {
        Self { start: start.into(), end: end.into(), step: 1 }
    }

    /// Only every `step`th place.
    #[must_use]
    pub fn by(self, step: i64) -> Self {
        Self { step, ..self }
    }

    /// A range's ends. One that is included and the last there is (-1, `i64::MAX`) is no end.
    fn of(range: &impl RangeBounds<i64>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&start) => Some(start),
            Bound::Excluded(&before) => Some(before.saturating_add(1)),
            Bound::Unbounded => None,
        };
        let end = match range.end_bound() {
            Bound::Included(&(-1 | i64::MAX)) | Bound::Unbounded => None,
            Bound::Included(&last) => Some(last + 1),
            Bound::Excluded(&end) => Some(end),
        };
        Self { start, end, step: 1 }
    }
}

impl From<Slice> for IndexItem {
    fn from(slice: Slice) -> Self {
        Self::Slice(slice)
    }
}

impl From<All> for IndexItem {
    fn from(_: All) -> Self {
        Self::Slice(Slice::of(&(..)))
    }
}

impl From<RangeFull> for IndexItem {
    fn from(_: RangeFull) -> Self {
        Self::Ellipsis
    }
}

impl From<NewAxis> for IndexItem {
    fn from(_: NewAxis) -> Self {
        Self::NewAxis
    }
}

impl From<bool> for IndexItem {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Tensor> for IndexItem {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<&Tensor> for IndexItem {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.clone())
    }
}

macro_rules! from_ranges {
    ($($range:ty),*) => {$(
        impl From<$range> for IndexItem {
            fn from(range: $range) -> Self {
                Self::Slice(Slice::of(&range))
            }
        }
    )*};
}
from_ranges!(Range<i64>, RangeFrom<i64>, RangeTo<i64>, RangeInclusive<i64>, RangeToInclusive<i64>);

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for IndexItem {
            fn from(index: $integer) -> Self {
                Self::Integer(index.into())
            }
        }
    )*};
}
from_integers!(i8, i16, i32, i64, u8, u16, u32);

impl From<usize> for IndexItem {
    /// What is beyond `i64` is beyond every dimension, as `i64::MAX` is.
    fn from(index: usize) -> Self {
        Self::Integer(i64::try_from(index).unwrap_or(i64::MAX))
    }
}
