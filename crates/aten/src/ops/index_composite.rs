//! Indexing made of other operators: under a mask, by membership, in combinations.

use c10_core::{Scalar, ScalarType, bf16, f16};

use super::{Dest, Made, handles, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::Input;
use crate::iter::loops::dispatch;
use crate::iter::promote::ResultType;
use crate::kernels::cpu::sort::Ordered;
use crate::tensor::{New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("_unsafe_masked_index", masked_index)?;
    lib.all_backends("_unsafe_masked_index_put_accumulate", masked_index_put)?;
    lib.composite("combinations", combinations)?;
    register_triple!(lib, isin, (elements: &Tensor, test_elements: &Tensor, assume_unique: bool, invert: bool),
        functional "isin.Tensor_Tensor", out "isin.Tensor_Tensor_out");
    Ok(())
}

/// Indices moved to within the bounds: where the mask is false they may be anything.
fn clamped(this: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let sizes = this.sizes();
    if indices.len() > sizes.len() {
        return Err(Error::index(format!(
            "too many indices for tensor of dimension {} (got {})",
            sizes.len(),
            indices.len()
        )));
    }
    let clamp = |(index, &size): (&Option<Tensor>, &i64)| match index {
        None => Ok(None),
        Some(index) if !matches!(index.dtype(), ScalarType::Int64 | ScalarType::Int32) => {
            Err(Error::index("_unsafe_masked_index found unexpected index type: it must be int64 or int32"))
        }
        Some(index) => {
            handles::CLAMP.call(index, Some(Scalar::from(-size)), Some(Scalar::from(size - 1))).map(Some)
        }
    };
    indices.iter().zip(&sizes).map(clamp).collect()
}

fn masked_index(this: &Tensor, mask: &Tensor, indices: &[Option<Tensor>], fill: Scalar) -> Result<Tensor> {
    let indices = clamped(this, indices)?;
    if this.numel() == 0 {
        // Nothing can be read: a tensor of the fill value is read in its stead.
        let sizes: Vec<i64> = this.sizes().iter().map(|&size| size.max(1)).collect();
        let filled = handles::NEW_FULL.call(this, &sizes, fill, None, None, None, None)?;
        return handles::INDEX_TENSOR.call(&filled, &indices);
    }
    let taken = handles::INDEX_TENSOR.call(this, &indices)?;
    handles::MASKED_FILL_SCALAR.call(&taken, &handles::LOGICAL_NOT.call(mask)?, fill)
}

fn masked_index_put(
    this: &Tensor,
    mask: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
) -> Result<Tensor> {
    if this.numel() == 0 {
        return handles::CLONE.call(this, None);
    }
    let indices = clamped(this, indices)?;
    let values = handles::MASKED_FILL_SCALAR.call(values, &handles::LOGICAL_NOT.call(mask)?, 0.into())?;
    handles::INDEX_PUT.call(this, &indices, &values, true)
}

fn combinations(this: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    if this.rank() != 1 {
        return Err(Error::shape(format!("Expect a 1D vector, but got shape {:?}", this.sizes())));
    }
    if r < 0 {
        return Err(Error::invalid_argument(format!("Expect a non-negative number, but got {r}")));
    }
    if r == 0 {
        return handles::NEW_EMPTY.call(this, &[0], None, None, None, None);
    }
    let columns = combined(this.numel(), r, with_replacement);
    let column = |places: Vec<i64>| this.index_select(0, &Tensor::from_elements(&places)?);
    let columns: Vec<Tensor> = columns.into_iter().map(column).collect::<Result<_>>()?;
    handles::STACK.call(&columns, 1)
}

/// The places of every combination of `r` out of `n`, in order: a column for each of the `r`.
fn combined(n: i64, r: i64, with_replacement: bool) -> Vec<Vec<i64>> {
    let mut columns = vec![Vec::new(); r as usize];
    let mut chosen: Vec<i64> = Vec::new();
    let mut next = 0;
    loop {
        if chosen.len() == columns.len() {
            columns.iter_mut().zip(&chosen).for_each(|(column, &place)| column.push(place));
        } else if next < n {
            chosen.push(next);
            next += i64::from(!with_replacement);
            continue;
        }
        let Some(last) = chosen.pop() else { return columns };
        next = last + 1;
    }
}

fn isin(
    dest: Dest<'_>,
    elements: &Tensor,
    test_elements: &Tensor,
    _assume_unique: bool,
    invert: bool,
) -> Result<Made> {
    dest.check_dtype(ScalarType::Bool)?;
    let new = New::contiguous(elements.sizes(), ScalarType::Bool, elements.device());
    if elements.is_meta() {
        return dest.output(new, &[])?.finish();
    }
    let inputs = [Input::Tensor(elements), Input::Tensor(test_elements)];
    let dtype = ResultType::of_inputs(&inputs)?.unwrap_or(elements.dtype());
    let found: Vec<bool> = dispatch!(dtype, "isin", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
        let mut tests: Vec<T> = test_elements.to_dtype(dtype)?.to_vec()?;
        // A NaN equals nothing.
        tests.retain(|test| !test.is_nan());
        tests.sort_by(|a, b| a.order(*b));
        let elements: Vec<T> = elements.to_dtype(dtype)?.to_vec()?;
        let is_found = |element: &T| tests.binary_search_by(|test| test.order(*element)).is_ok();
        Ok::<_, Error>(elements.iter().map(|element| is_found(element) != invert).collect())
    })?;
    let out = dest.output(new, &[elements, test_elements])?;
    access([], [out.tensor()], out.fresh(), |[], [to]| {
        to.slice::<u8>()?.iter_mut().zip(&found).for_each(|(to, &found)| *to = found.into());
        Ok(())
    })?;
    out.finish()
}
