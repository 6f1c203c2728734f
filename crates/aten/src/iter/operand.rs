//! [`Operand`]: one tensor or number of a [`TensorIter`](super::TensorIter).

use std::borrow::Cow;

use c10_core::{Scalar, ScalarType};

use crate::error::Result;
use crate::kernels;
use crate::ops::Made;
use crate::tensor::{Dims, Geometry, Tensor};

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
    Borrowed(&'a Tensor, Cow<'a, Geometry>),
    /// In a tensor that was made for this: nobody else has it.
    Fresh(Tensor),
    /// In a cast copy of an input: nobody else has it.
    Cast(Tensor),
    /// It is one number, in the loop's dtype.
    Number(Scalar, Bytes),
}

/// A number, as an element in memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(crate) struct Bytes(pub(super) [u8; 16]);

impl Operand<'_> {
    /// Where the elements are; `None` for a number.
    pub(super) fn geometry(&self) -> Option<Cow<'_, Geometry>> {
        match &self.source {
            Source::Borrowed(_, geometry) => Some(Cow::Borrowed(geometry)),
            Source::Fresh(tensor) | Source::Cast(tensor) => Some(tensor.geometry()),
            Source::Number(..) => None,
        }
    }

    pub(super) fn number(&self) -> Option<Scalar> {
        match self.source {
            Source::Number(number, _) => Some(number),
            _ => None,
        }
    }

    pub(super) fn finish(self) -> Result<Made> {
        match (self.source, self.copy_to) {
            (Source::Fresh(tensor), Some(dest)) => kernels::copy(dest, &tensor).map(|()| Made::written()),
            (Source::Fresh(tensor), None) => Ok(Made::new(tensor)),
            _ => Ok(Made::written()),
        }
    }
}
