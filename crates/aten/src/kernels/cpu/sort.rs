//! Orders along a dimension. A NaN counts as greater than all numbers; equal elements keep their order.

use std::cmp::Ordering;

use c10_core::{bf16, f16};

use crate::error::Result;
use crate::kernels::cpu::strided;
use crate::tensor::{Dims, Plain, Read, Write};

/// An element that has a place in an order.
pub(crate) trait Ordered: Plain {
    /// The order with NaNs at its end, all of them alike; the two zeros are equal.
    fn order(self, other: Self) -> Ordering;

    fn is_nan(self) -> bool;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Ordered for $int {
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                self.cmp(&other)
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
        }
    )*};
}
integers!(u8, i8, u16, i16, u32, i32, u64, i64);

macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Ordered for $float {
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                self.partial_cmp(&other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                <$float>::is_nan(self)
            }
        }
    )*};
}
floats!(f16, bf16, f32, f64);

/// The elements along a dimension with their places, one line after another, and where results go.
pub(crate) struct Lines<'a> {
    /// The sizes of the other dimensions: that of the lines is 1.
    pub(crate) others: Dims,
    pub(crate) dim: usize,
    pub(crate) len: usize,
    pub(crate) src: &'a Read<'a>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(src: &'a Read<'a>, dim: usize) -> Self {
        let mut others = Dims::from(src.sizes());
        let len = std::mem::replace(&mut others[dim], 1) as usize;
        Self { others, dim, len, src }
    }

    /// Calls `f` with the elements of each line and their places, to be reordered at will, and writes the first
    /// of them to `values` and `indices`, as many as these have along the dimension.
    pub(crate) fn reorder<T: Ordered>(
        &self,
        values: Write<'_>,
        indices: Write<'_>,
        mut f: impl FnMut(&mut Vec<(T, i64)>),
    ) -> Result<()> {
        let (src, strides) = (self.src.elements::<T>()?, self.src.strides());
        let (value_strides, index_strides) = (Dims::from(values.strides()), Dims::from(indices.strides()));
        let step = strides[self.dim] as usize;
        let (value_step, index_step) = (value_strides[self.dim] as usize, index_strides[self.dim] as usize);
        let (values, indices) = (values.elements::<T>()?, indices.elements::<i64>()?);
        if values.is_empty() {
            return Ok(());
        }
        let mut line = Vec::with_capacity(self.len);
        strided::for_each(&self.others, [strides, &value_strides, &index_strides], |[s, v, n]| {
            line.clear();
            line.extend((0..self.len).map(|i| (src[s + i * step], i as i64)));
            f(&mut line);
            for (i, &(value, index)) in line.iter().enumerate() {
                values[v + i * value_step] = value;
                indices[n + i * index_step] = index;
            }
        });
        Ok(())
    }
}

/// How two elements stand to each other when the greatest go first.
#[inline(always)]
pub(crate) fn compare<T: Ordered>(descending: bool, a: T, b: T) -> Ordering {
    if descending { b.order(a) } else { a.order(b) }
}

/// All in order.
pub(crate) fn sort<T: Ordered>(line: &mut [(T, i64)], descending: bool) {
    line.sort_by(|a, b| compare(descending, a.0, b.0));
}

/// The first `k` in order; those after them are dropped.
pub(crate) fn top<T: Ordered>(line: &mut Vec<(T, i64)>, k: usize, largest: bool) {
    let by = |a: &(T, i64), b: &(T, i64)| compare(largest, a.0, b.0).then(a.1.cmp(&b.1));
    if k > 0 && k < line.len() {
        line.select_nth_unstable_by(k - 1, by);
    }
    line.truncate(k);
    line.sort_unstable_by(by);
}

/// The `k`-th smallest alone, counted from 0.
pub(crate) fn nth<T: Ordered>(line: &mut Vec<(T, i64)>, k: usize) {
    line.select_nth_unstable_by(k, |a, b| a.0.order(b.0).then(a.1.cmp(&b.1)));
    line.swap(0, k);
    line.truncate(1);
}

/// The median alone: the lower of two; a NaN if there is one, unless they are to be passed over.
pub(crate) fn median<T: Ordered>(line: &mut Vec<(T, i64)>, ignore_nan: bool) {
    let nans = line.iter().filter(|(value, _)| value.is_nan()).count();
    if nans > 0 && !ignore_nan {
        line.retain(|(value, _)| value.is_nan());
        line.truncate(1);
        return;
    }
    let numbers = line.len() - nans;
    nth(line, numbers.saturating_sub(1) / 2);
}

/// The most frequent element alone, of several the smallest, with the place of its last occurrence.
pub(crate) fn mode<T: Ordered>(line: &mut Vec<(T, i64)>) {
    sort(line, false);
    let same = |a: &(T, i64), b: &(T, i64)| a.0.order(b.0) == Ordering::Equal;
    let mut best: Option<&[(T, i64)]> = None;
    for run in line.chunk_by(same) {
        if best.is_none_or(|best| run.len() > best.len()) {
            best = Some(run);
        }
    }
    let last = best.and_then(|run| run.last()).copied();
    line.clear();
    line.extend(last);
}
