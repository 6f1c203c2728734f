//! The dtype of a result (`at::native::result_type`): tensors with dimensions count more than those without,
//! and those more than numbers, unless a category (bool, integer, float, complex) is higher.

use c10_core::{Scalar, ScalarType, promote_types};

use super::Input;
use crate::error::Result;
use crate::tensor::{Tensor, default_dtype};

/// What has been seen so far, by how much it counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResultType {
    dimensioned: Option<ScalarType>,
    zero_dim: Option<ScalarType>,
    wrapped: Option<ScalarType>,
}

impl ResultType {
    pub(crate) fn of_inputs<'a>(
        inputs: impl IntoIterator<Item = &'a Input<'a>>,
    ) -> Result<Option<ScalarType>> {
        let mut state = Self::default();
        for input in inputs {
            match input {
                Input::Tensor(tensor) => state.add_tensor(tensor)?,
                Input::Number(number) => state.add_number(*number)?,
                Input::Uncast(_) => {}
            }
        }
        state.result()
    }

    pub(crate) fn add_tensor(&mut self, tensor: &Tensor) -> Result<()> {
        let dtype = tensor.dtype();
        if tensor.is_wrapped_number() {
            return self.add_wrapped(dtype);
        }
        let slot = if tensor.rank() == 0 { &mut self.zero_dim } else { &mut self.dimensioned };
        *slot = promote_skip_undefined(*slot, Some(dtype))?;
        Ok(())
    }

    pub(crate) fn add_number(&mut self, number: Scalar) -> Result<()> {
        self.add_wrapped(number.scalar_type())
    }

    fn add_wrapped(&mut self, dtype: ScalarType) -> Result<()> {
        let dtype = if dtype.is_complex() {
            default_dtype().to_complex()?
        } else if dtype.is_floating_point() {
            default_dtype()
        } else {
            dtype
        };
        self.wrapped = promote_skip_undefined(self.wrapped, Some(dtype))?;
        Ok(())
    }

    /// The dtype, if anything was seen.
    pub(crate) fn result(self) -> Result<Option<ScalarType>> {
        combine_categories(self.dimensioned, combine_categories(self.zero_dim, self.wrapped)?)
    }
}

fn promote_skip_undefined(a: Option<ScalarType>, b: Option<ScalarType>) -> Result<Option<ScalarType>> {
    match (a, b) {
        (Some(a), Some(b)) if a == b => Ok(Some(a)),
        (Some(a), Some(b)) => Ok(Some(promote_types(a, b)?)),
        (a, b) => Ok(a.or(b)),
    }
}

fn combine_categories(higher: Option<ScalarType>, lower: Option<ScalarType>) -> Result<Option<ScalarType>> {
    let (Some(high), Some(low)) = (higher, lower) else { return Ok(higher.or(lower)) };
    if high.is_complex() {
        return Ok(higher);
    }
    if high.is_floating_point() {
        // The precision is that of what counts more.
        return if low.is_complex() { Ok(Some(high.to_complex()?)) } else { Ok(higher) };
    }
    if high == ScalarType::Bool || low.is_floating_point() || low.is_complex() {
        return promote_skip_undefined(higher, lower);
    }
    Ok(higher)
}
