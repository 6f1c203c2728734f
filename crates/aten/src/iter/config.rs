//! [`Config`] and [`Input`]: what an operator asks of a [`TensorIter`](super::TensorIter).

use c10_core::{Scalar, ScalarType};

use crate::tensor::Tensor;

/// An input: a tensor, or a number that stands for every element and counts as a wrapped number in promotion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
    /// A tensor that keeps its own dtype (the condition of `where`).
    Uncast(&'a Tensor),
}

impl<'a> From<&'a Tensor> for Input<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<Scalar> for Input<'_> {
    fn from(number: Scalar) -> Self {
        Self::Number(number)
    }
}

/// How dtypes are found and outputs treated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Inputs are cast to their common dtype.
    pub(crate) promote: bool,
    /// An integral common dtype becomes the default float.
    pub(crate) integers_to_float: bool,
    /// The outputs' dtype, where it is not the common one.
    pub(crate) output_dtype: Option<ScalarType>,
    /// Whole tensors of other dtypes are refused, rather than cast.
    pub(crate) same_dtypes: bool,
    /// The outputs that are given were made for this: their version stays.
    pub(crate) fresh_outputs: bool,
}

impl Config {
    /// All of one dtype, which is that of the result.
    pub(crate) const SAME: Self = Self {
        promote: false,
        integers_to_float: false,
        output_dtype: None,
        same_dtypes: true,
        fresh_outputs: false,
    };
    /// Arithmetic: the common dtype is that of the result.
    pub(crate) const PROMOTE: Self = Self { promote: true, same_dtypes: false, ..Self::SAME };
    /// As [`PROMOTE`](Self::PROMOTE), integers computed as floats: division, transcendentals.
    pub(crate) const FLOAT: Self = Self { integers_to_float: true, ..Self::PROMOTE };
    /// Comparisons and predicates: a result of `bool`s.
    pub(crate) const COMPARE: Self = Self { output_dtype: Some(ScalarType::Bool), ..Self::PROMOTE };
    /// Each operand in its own dtype: the loop converts.
    pub(crate) const OWN_DTYPES: Self = Self { same_dtypes: false, ..Self::SAME };

    pub(crate) const fn with_output_dtype(self, dtype: ScalarType) -> Self {
        Self { output_dtype: Some(dtype), ..self }
    }
}
