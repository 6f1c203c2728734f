//! [`Dims`]: sizes or strides, inline up to five dimensions.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// How many are held inline.
const INLINE: usize = 5;

/// Sizes or strides of a tensor, one `i64` a dimension, in elements. Up to five are held inline
/// (`c10::impl::SizesAndStrides`). It is a slice to whoever reads it.
pub struct Dims(Repr);

/// A copy of the inline form is a few moves of fixed length, whatever it holds: operators copy sizes all the
/// time. Its length is a word, for which the compiler knows what it may be: indexing by it needs no check, the
/// other values say that it is the heap's form, and no field lies across two words.
#[derive(Clone)]
enum Repr {
    Inline { len: Len, values: [i64; INLINE] },
    Heap(Vec<i64>),
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

const _: () = assert!(size_of::<Dims>() == 48 && INLINE == Len::Five as usize);

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
        Self(Repr::Inline { len: Len::Zero, values: [0; INLINE] })
    }

    /// `value`, in each of `len` dimensions.
    #[inline]
    pub fn filled(value: i64, len: usize) -> Self {
        match Len::of(len) {
            Some(len) => Self(Repr::Inline { len, values: [value; INLINE] }),
            None => Self(Repr::Heap(vec![value; len])),
        }
    }

    /// Makes the one these sizes and the other their row-major strides, which do not overflow, each in its place.
    #[inline(always)]
    pub(super) fn fill_row_major(sizes: &mut Self, strides: &mut Self, new: &[i64]) {
        let set = |sizes: &mut [i64], strides: &mut [i64]| {
            let mut next = 1_i64;
            for ((size, stride), &new) in sizes.iter_mut().zip(strides).zip(new).rev() {
                (*size, *stride) = (new, next);
                next = next.wrapping_mul(new.max(1));
            }
        };
        if let (Repr::Inline { len, values }, Repr::Inline { len: stride_len, values: stride_values }) =
            (&mut sizes.0, &mut strides.0)
            && let Some(new_len) = Len::of(new.len())
        {
            (*len, *stride_len) = (new_len, new_len);
            return set(&mut values[..new.len()], &mut stride_values[..new.len()]);
        }
        (*sizes, *strides) = (Self::filled(0, new.len()), Self::filled(0, new.len()));
        set(sizes, strides);
    }

    /// Adds a last dimension.
    #[inline]
    pub fn push(&mut self, value: i64) {
        if let Repr::Inline { len, values } = &mut self.0
            && let Some(longer) = Len::of(*len as usize + 1)
        {
            values[*len as usize] = value;
            *len = longer;
            return;
        }
        self.with_vec(|values| values.push(value));
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
        let values = &mut self[at..];
        // Not by `rotate_left`, which is made for many.
        for i in 1..values.len() {
            values.swap(i - 1, i);
        }
        let removed = *values.last().expect("there is one at `at`");
        self.truncate(self.len() - 1);
        removed
    }

    /// Keeps the first `len` dimensions.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Repr::Inline { len: present, .. } if len < *present as usize => {
                *present = Len::of(len).unwrap_or(*present);
            }
            Repr::Inline { .. } => {}
            Repr::Heap(values) => values.truncate(len),
        }
    }

    #[cold]
    fn with_vec(&mut self, change: impl FnOnce(&mut Vec<i64>)) {
        if let Repr::Inline { .. } = self.0 {
            self.0 = Repr::Heap(self.to_vec());
        }
        if let Repr::Heap(values) = &mut self.0 {
            change(values);
        }
    }
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
        match &self.0 {
            Repr::Inline { len, values } => &values[..*len as usize],
            Repr::Heap(values) => values,
        }
    }
}

impl DerefMut for Dims {
    #[inline]
    fn deref_mut(&mut self) -> &mut [i64] {
        match &mut self.0 {
            Repr::Inline { len, values } => &mut values[..*len as usize],
            Repr::Heap(values) => values,
        }
    }
}

impl AsRef<[i64]> for Dims {
    fn as_ref(&self) -> &[i64] {
        self
    }
}

impl Clone for Dims {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    /// In its place, where both are inline.
    #[inline]
    fn clone_from(&mut self, source: &Self) {
        if let (Repr::Inline { len, values }, Repr::Inline { len: new_len, values: new }) =
            (&mut self.0, &source.0)
        {
            (*len, *values) = (*new_len, *new);
        } else {
            *self = source.clone();
        }
    }
}

impl From<&[i64]> for Dims {
    #[inline]
    fn from(values: &[i64]) -> Self {
        // Not by a call of `memcpy`, which takes longer than a few moves.
        let (len, values) = match *values {
            [] => (Len::Zero, [0; INLINE]),
            [a] => (Len::One, [a, 0, 0, 0, 0]),
            [a, b] => (Len::Two, [a, b, 0, 0, 0]),
            [a, b, c] => (Len::Three, [a, b, c, 0, 0]),
            [a, b, c, d] => (Len::Four, [a, b, c, d, 0]),
            [a, b, c, d, e] => (Len::Five, [a, b, c, d, e]),
            _ => return Self(Repr::Heap(values.to_vec())),
        };
        Self(Repr::Inline { len, values })
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
        if values.len() > INLINE { Self(Repr::Heap(values)) } else { Self::from(&values[..]) }
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
