//! [`Operand`]: one tensor or number of a [`TensorIter`](super::TensorIter).

use c10_core::{Scalar, ScalarType};

use crate::error::Result;
use crate::kernels;
use crate::ops::Made;
use crate::tensor::{Dims, Geometry, Snapshot, Tensor};

/// One tensor or number that is walked.
#[derive(Debug)]
pub(crate) struct Operand<'a> {
    pub(super) source: Source<'a>,
    pub(super) dtype: ScalarType,
    /// In bytes, a dimension of the iterator each.
    pub(super) strides: Dims,
    /// Where the first element is in the storage, and the last one ends, in bytes.
    pub(super) begin_bytes: usize,
    pub(super) end_bytes: usize,
    /// The tensor that the output is copied to in the end: it is of another dtype.
    pub(super) copy_to: Option<&'a Tensor>,
}

/// Where the elements are.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// In a tensor of the caller, as it was when the iterator was made.
    Borrowed(Snapshot<'a>),
    /// In a tensor that was made for this: nobody else has it.
    Fresh(Tensor),
    /// In a cast copy of an input: nobody else has it.
    Cast(Tensor),
    /// It is one number, in the loop's dtype.
    Number(Bytes),
}

/// A number, as an element in memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct Bytes(pub(super) [u8; 16]);

impl<'a> Operand<'a> {
    /// An operand that has no strides yet.
    #[inline(always)]
    pub(super) fn new(source: Source<'a>, dtype: ScalarType) -> Self {
        let ends = |g: &Geometry| (g.storage_offset as usize * dtype.element_size(), g.end_bytes);
        let (begin_bytes, end_bytes) = match &source {
            Source::Borrowed(geometry) => ends(geometry),
            Source::Fresh(tensor) | Source::Cast(tensor) => ends(&tensor.geometry()),
            Source::Number(..) => (0, 0),
        };
        Self { source, dtype, strides: Dims::new(), begin_bytes, end_bytes, copy_to: None }
    }

    pub(super) fn number_of(number: Scalar, dtype: ScalarType) -> Result<Self> {
        let bytes = super::loops::number_bytes(number, dtype)?;
        Ok(Self::new(Source::Number(Bytes(bytes)), dtype))
    }

    /// Where the elements are; `None` for a number.
    pub(super) fn geometry(&self) -> Option<Snapshot<'_>> {
        match &self.source {
            Source::Borrowed(geometry) => Some(Snapshot::Unchanged(geometry)),
            Source::Fresh(tensor) | Source::Cast(tensor) => Some(tensor.geometry()),
            Source::Number(..) => None,
        }
    }

    /// What became of an output. The operand is none afterwards.
    #[inline]
    pub(super) fn finish(&mut self) -> Result<Made> {
        let source = std::mem::replace(&mut self.source, Source::Number(Bytes([0; 16])));
        match (source, self.copy_to) {
            (Source::Fresh(tensor), Some(dest)) => kernels::copy(dest, &tensor).map(|()| Made::written()),
            (Source::Fresh(tensor), None) => Ok(Made::new(tensor)),
            _ => Ok(Made::written()),
        }
    }
}
