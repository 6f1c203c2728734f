//! [`Dims`]: sizes or strides, inline up to five dimensions.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// How many are held inline.
const INLINE: usize = 5;

/// Sizes or strides of a tensor, one `i64` a dimension, in elements. Up to five are held inline
/// (`c10::impl::SizesAndStrides`). It is a slice to whoever reads it.
///
/// // Note [Copies of sizes]
/// Operators copy sizes all the time. A copy is a few moves of fixed length, whatever it holds, and one look at
/// `more`: with one enum of the two forms it would be assembled, word by word, of what either form has there.
#[derive(Clone)]
pub struct Dims {
    /// How many of `values` count, where there is nothing in `more`. For an enum the compiler knows what it may be:
    /// indexing by it needs no check.
    len: Len,
    values: [i64; INLINE],
    /// All of them, once they were too many. It takes one word, and copies share it until they change.
    more: Option<Arc<Vec<i64>>>,
}

#[derive(Clone, Copy)]
#[repr(usize)]
enum Len {
    Zero,
    One,
    Two,
    Three,
    Four,
    Five,
}

const _: () = assert!(size_of::<Dims>() == 56 && INLINE == Len::Five as usize);

impl Len {
    #[inline]
    const fn of(len: usize) -> Option<Self> {
        match len {
            0 => Some(Self::Zero),
            1 => Some(Self::One),
            2 => Some(Self::Two),
            3 => Some(Self::Three),
            4 => Some(Self::Four),
            5 => Some(Self::Five),
            _ => None,
        }
    }
}

impl Dims {
    /// No dimension.
    #[inline]
    pub const fn new() -> Self {
        Self { len: Len::Zero, values: [0; INLINE], more: None }
    }

    #[cold]
    fn of_many(values: Vec<i64>) -> Self {
        Self { more: Some(Arc::new(values)), ..Self::new() }
    }

    /// `value`, in each of `len` dimensions.
    #[inline]
    pub fn filled(value: i64, len: usize) -> Self {
        match Len::of(len) {
            Some(len) => Self { len, values: [value; INLINE], more: None },
            None => Self::of_many(vec![value; len]),
        }
    }

    /// Whether copies of it are [of few moves](Self::inline_copy).
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.more.is_none()
    }

    /// A copy, of one that is inline.
    #[inline(always)]
    pub(crate) fn inline_copy(&self) -> Self {
        debug_assert!(self.is_inline(), "there are {} values", self.len());
        Self { len: self.len, values: self.values, more: None }
    }

    /// Makes it the values of another one; both are inline.
    #[inline(always)]
    pub(crate) fn assign_inline(&mut self, other: &Self) {
        debug_assert!(
            self.is_inline() && other.is_inline(),
            "there are {} and {} values",
            self.len(),
            other.len()
        );
        (self.len, self.values) = (other.len, other.values);
    }

    /// As many values as there are in a list, to be set one by one, in the place of its own; `None` if they do not fit
    /// inline.
    #[inline(always)]
    pub(crate) fn inline_for(&mut self, len: usize) -> Option<&mut [i64]> {
        let len = Len::of(len)?;
        if self.more.is_some() {
            return None;
        }
        self.len = len;
        Some(&mut self.values[..len as usize])
    }

    /// Makes it these values, in its place.
    #[inline]
    pub(crate) fn assign(&mut self, new: &[i64]) {
        if self.more.is_some() {
            return self.assign_many(new);
        }
        // Not by a call of `memcpy`, which takes longer than a few moves.
        let values = &mut self.values;
        self.len = match *new {
            [] => Len::Zero,
            [a] => {
                values[0] = a;
                Len::One
            }
            [a, b] => {
                values[..2].copy_from_slice(&[a, b]);
                Len::Two
            }
            [a, b, c] => {
                values[..3].copy_from_slice(&[a, b, c]);
                Len::Three
            }
            [a, b, c, d] => {
                values[..4].copy_from_slice(&[a, b, c, d]);
                Len::Four
            }
            [a, b, c, d, e] => {
                *values = [a, b, c, d, e];
                Len::Five
            }
            _ => return self.assign_many(new),
        };
    }

    #[cold]
    fn assign_many(&mut self, new: &[i64]) {
        *self = Self::from(new);
    }

    /// Makes the one these sizes and the other their row-major strides, each in its place. The number of elements,
    /// unless there are none, a size is negative, or it does not fit: then the strides are wrong too.
    #[inline(always)]
    pub(super) fn fill_row_major(sizes: &mut Self, strides: &mut Self, new: &[i64]) -> Option<i64> {
        match (sizes.inline_for(new.len()), strides.inline_for(new.len())) {
            (Some(sizes), Some(strides)) => set_row_major(sizes, strides, new),
            _ => Self::fill_row_major_of_many(sizes, strides, new),
        }
    }

    #[cold]
    fn fill_row_major_of_many(sizes: &mut Self, strides: &mut Self, new: &[i64]) -> Option<i64> {
        (*sizes, *strides) = (Self::filled(0, new.len()), Self::filled(0, new.len()));
        set_row_major(sizes, strides, new)
    }

    /// Adds a last dimension.
    #[inline]
    pub fn push(&mut self, value: i64) {
        match Len::of(self.len as usize + 1) {
            Some(longer) if self.more.is_none() => {
                self.values[self.len as usize] = value;
                self.len = longer;
            }
            _ => self.push_to_many(value),
        }
    }

    #[cold]
    fn push_to_many(&mut self, value: i64) {
        if self.more.is_none() {
            *self = Self::of_many(self.to_vec());
        }
        if let Some(more) = &mut self.more {
            Arc::make_mut(more).push(value);
        }
    }

    /// Adds a dimension before `at`.
    ///
    /// # Panics
    /// If `at` is above the number of dimensions.
    pub fn insert(&mut self, at: usize, value: i64) {
        self.push(value);
        let values = &mut self[at..];
        for i in (1..values.len()).rev() {
            values.swap(i, i - 1);
        }
    }

    /// Takes a dimension out.
    ///
    /// # Panics
    /// If there is no such dimension.
    #[inline]
    pub fn remove(&mut self, at: usize) -> i64 {
        if let Some(more) = &mut self.more {
            return Arc::make_mut(more).remove(at);
        }
        let removed = self[at];
        // Over all of them, which needs no loop.
        let old = self.values;
        for i in 1..INLINE {
            self.values[i - 1] = old[if i > at { i } else { i - 1 }];
        }
        self.truncate(self.len() - 1);
        removed
    }

    /// Keeps the first `len` dimensions.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        match (&mut self.more, Len::of(len)) {
            (None, Some(len)) if (len as usize) < self.len as usize => self.len = len,
            (None, _) => {}
            (Some(more), _) => Arc::make_mut(more).truncate(len),
        }
    }
}

/// As [`Dims::fill_row_major`], of as many values as `new` has.
#[inline(always)]
fn set_row_major(sizes: &mut [i64], strides: &mut [i64], new: &[i64]) -> Option<i64> {
    let (mut next, mut is_usual) = (1_i64, true);
    for ((size, stride), &new) in sizes.iter_mut().zip(strides).zip(new).rev() {
        (*size, *stride) = (new, next);
        let (product, overflows) = next.overflowing_mul(new.max(1));
        is_usual &= new > 0 && !overflows;
        next = product;
    }
    is_usual.then_some(next)
}

impl Default for Dims {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Dims {
    type Target = [i64];

    #[inline]
    fn deref(&self) -> &[i64] {
        match &self.more {
            None => &self.values[..self.len as usize],
            Some(more) => more,
        }
    }
}

impl DerefMut for Dims {
    #[inline]
    fn deref_mut(&mut self) -> &mut [i64] {
        match &mut self.more {
            None => &mut self.values[..self.len as usize],
            Some(more) => Arc::make_mut(more).as_mut_slice(),
        }
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
        if values.len() > INLINE {
            return Self::of_many(values.to_vec());
        }
        let mut dims = Self::new();
        dims.assign(values);
        dims
    }
}

impl<const N: usize> From<[i64; N]> for Dims {
    #[inline]
    fn from(values: [i64; N]) -> Self {
        Self::from(&values[..])
    }
}

impl From<Vec<i64>> for Dims {
    fn from(values: Vec<i64>) -> Self {
        if values.len() > INLINE { Self::of_many(values) } else { Self::from(&values[..]) }
    }
}

impl FromIterator<i64> for Dims {
    #[inline]
    fn from_iter<I: IntoIterator<Item = i64>>(values: I) -> Self {
        let mut dims = Self::new();
        dims.extend(values);
        dims
    }
}

impl Extend<i64> for Dims {
    #[inline]
    fn extend<I: IntoIterator<Item = i64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

impl<'a> IntoIterator for &'a Dims {
    type Item = &'a i64;
    type IntoIter = std::slice::Iter<'a, i64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: AsRef<[i64]> + ?Sized> PartialEq<T> for Dims {
    #[inline]
    fn eq(&self, other: &T) -> bool {
        // Not by a call of `memcmp`: there are few.
        let (these, others) = (&**self, other.as_ref());
        these.len() == others.len() && these.iter().zip(others).all(|(this, other)| this == other)
    }
}

impl Eq for Dims {}

impl Hash for Dims {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
