//! [`Layout`]: the dimensions of an input that are kept and those that are reduced, as few as can be.

use smallvec::SmallVec;

/// Size and stride of a dimension, in elements.
type Dim = (usize, usize);

/// Where the elements of each output are. Outputs are in row-major order of the kept dimensions.
#[derive(Debug)]
pub(crate) struct Layout {
    kept: SmallVec<[Dim; 4]>,
    reduced: SmallVec<[Dim; 4]>,
    /// How many outputs there are.
    pub(super) outputs: usize,
    /// How many elements each has.
    pub(super) count: usize,
}

/// Whether elements of one output keep their row-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Their index counts: argmax.
    RowMajor,
    /// Any will do: that of memory.
    Any,
}

impl Layout {
    pub(crate) fn new(sizes: &[i64], strides: &[i64], is_reduced: &[bool], order: Order) -> Self {
        let of = |reduced: bool| -> SmallVec<[Dim; 4]> {
            let dims = sizes.iter().zip(strides).zip(is_reduced);
            dims.filter(|&(_, &is)| is == reduced).map(|((&n, &s), _)| (n as usize, s as usize)).collect()
        };
        let (kept, mut reduced) = (of(false), of(true));
        let product = |dims: &[Dim]| dims.iter().map(|dim| dim.0).product();
        let (outputs, count) = (product(&kept), product(&reduced));
        if order == Order::Any {
            reduced.sort_by_key(|&(_, stride)| std::cmp::Reverse(stride));
        }
        Self { kept: merged(&kept), reduced: merged(&reduced), outputs, count }
    }

    /// Where the first element of an output is.
    pub(super) fn base(&self, output: usize) -> usize {
        offset(&self.kept, output)
    }

    /// Where element `i` of an output is, from its first.
    pub(super) fn step(&self, i: usize) -> usize {
        offset(&self.reduced, i)
    }

    /// The innermost dimension of those reduced.
    pub(super) fn inner(&self) -> Dim {
        self.reduced.last().copied().unwrap_or((1, 1))
    }

    /// How many outputs lie side by side in memory while the elements of each do not: columns.
    pub(super) fn columns(&self) -> Option<usize> {
        match self.kept.last() {
            Some(&(width, 1)) if width >= 8 && self.inner().1 != 1 => Some(width),
            _ => None,
        }
    }
}

fn offset(dims: &[Dim], mut index: usize) -> usize {
    let mut offset = 0;
    for &(size, stride) in dims.iter().rev() {
        offset += index % size * stride;
        index /= size;
    }
    offset
}

/// Neighbours that are walked as one, made one.
fn merged(dims: &[Dim]) -> SmallVec<[Dim; 4]> {
    let mut merged: SmallVec<[Dim; 4]> = SmallVec::new();
    for &(size, stride) in dims.iter().filter(|dim| dim.0 != 1) {
        match merged.last_mut() {
            Some(last) if last.1 == size * stride => *last = (last.0 * size, stride),
            _ => merged.push((size, stride)),
        }
    }
    merged
}
