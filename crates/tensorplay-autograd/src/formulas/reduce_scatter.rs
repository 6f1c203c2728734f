//! Gradients of `scatter_reduce` and `index_reduce`, which differ in how they find places.

use aten::ops::handles;
use aten::{Result, Tensor, TensorOptions};

/// Of `self` and `src`.
pub(crate) type Two = (Option<Tensor>, Option<Tensor>);

/// Of `scatter_reduce`.
#[expect(clippy::too_many_arguments, reason = "they are the operator's")]
pub(crate) fn scatter_reduce_backward(
    grad: &Tensor,
    input: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
    wants: [bool; 2],
) -> Result<Two> {
    let places = Places { dim, index, is_scatter: true, reduce, include_self };
    places.backward(grad, input, src, result, wants)
}

/// Of `index_reduce`.
#[expect(clippy::too_many_arguments, reason = "they are the operator's")]
pub(crate) fn index_reduce_backward(
    grad: &Tensor,
    input: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
    result: &Tensor,
    wants: [bool; 2],
) -> Result<Two> {
    let places = Places { dim, index, is_scatter: false, reduce, include_self };
    places.backward(grad, input, source, result, wants)
}

/// Where the elements of `src` go, and what is done to those that meet.
#[derive(Clone, Copy)]
struct Places<'a> {
    dim: i64,
    index: &'a Tensor,
    is_scatter: bool,
    reduce: &'a str,
    include_self: bool,
}

impl Places<'_> {
    fn backward(
        self,
        grad: &Tensor,
        input: &Tensor,
        src: &Tensor,
        result: &Tensor,
        [of_input, of_src]: [bool; 2],
    ) -> Result<Two> {
        let (input, src) = match self.reduce {
            "prod" => (
                of_input.then(|| self.product_for_input(grad, input, src)).transpose()?,
                of_src.then(|| self.product_for_src(grad, input, src, result)).transpose()?,
            ),
            "mean" => {
                let each = (grad / self.counts(grad, src)?)?;
                (Some(each.clone()), of_src.then(|| self.read(&each)).transpose()?)
            }
            "amax" | "amin" => self.extremum(grad, input, src, result)?,
            _ => (Some(grad.clone()), of_src.then(|| self.read(grad)).transpose()?),
        };
        let input = match input {
            Some(input) if of_input && !self.include_self => Some(self.clear(&input)?),
            input => input,
        };
        Ok((input, src))
    }

    /// How many elements went to each place, at least one.
    fn counts(self, grad: &Tensor, src: &Tensor) -> Result<Tensor> {
        let own = match self.include_self {
            true => grad.ones_like(TensorOptions::default())?,
            false => grad.zeros_like(TensorOptions::default())?,
        };
        self.add(&own, &src.ones_like(TensorOptions::default())?)?.clamp_min(1)
    }

    /// All elements that are the result share its gradient.
    fn extremum(self, grad: &Tensor, input: &Tensor, src: &Tensor, result: &Tensor) -> Result<Two> {
        let dtype = TensorOptions::default().dtype(input.dtype());
        let input_is = input.eq(result)?.to(dtype)?;
        let src_is = src.eq(&self.read(result)?)?.to(dtype)?;
        let each = (grad / self.add(&input_is, &src_is)?)?;
        Ok((Some((&input_is * &each)?), Some((&src_is * self.read(&each)?)?)))
    }

    /// The product of the others: where the element is a zero, it is computed with a one in its place.
    fn product_for_input(self, grad: &Tensor, input: &Tensor, src: &Tensor) -> Result<Tensor> {
        let without_zeros = input.masked_fill_scalar(&input.eq_scalar(0)?, 1)?;
        grad * self.reduced(&without_zeros, src)? / &without_zeros
    }

    /// As for `self`. Of several zeros that meet, none has a gradient.
    fn product_for_src(self, grad: &Tensor, input: &Tensor, src: &Tensor, result: &Tensor) -> Result<Tensor> {
        let is_zero = src.eq_scalar(0)?;
        let dtype = TensorOptions::default().dtype(input.dtype());
        let zeros = self.add(&input.zeros_like(TensorOptions::default())?, &is_zero.to(dtype)?)?;
        let is_sole_zero = is_zero.logical_and(&self.read(&zeros)?.eq_scalar(1)?)?;
        let product = self.reduced(input, &src.masked_fill_scalar(&is_sole_zero, 1)?)?;
        let of_sole_zeros = self.read(&(grad * product)?)?;
        let of_others = self.read(&(grad * result)?)? / src.masked_fill_scalar(&is_zero, 1)?;
        is_sole_zero.where_self(&of_sole_zeros, &of_others?)
    }

    /// What of `from` is at the places.
    fn read(self, from: &Tensor) -> Result<Tensor> {
        match self.is_scatter {
            true => from.gather(self.dim, self.index),
            false => from.index_select(self.dim, self.index),
        }
    }

    fn add(self, to: &Tensor, src: &Tensor) -> Result<Tensor> {
        match self.is_scatter {
            true => to.scatter_add(self.dim, self.index, src),
            false => to.index_add(self.dim, self.index, src),
        }
    }

    fn reduced(self, to: &Tensor, src: &Tensor) -> Result<Tensor> {
        let operator = match self.is_scatter {
            true => &handles::SCATTER_REDUCE_TWO,
            false => &handles::INDEX_REDUCE,
        };
        operator.call(to, self.dim, self.index, src, self.reduce, self.include_self)
    }

    fn clear(self, of: &Tensor) -> Result<Tensor> {
        match self.is_scatter {
            true => of.scatter_value(self.dim, self.index, 0),
            false => of.index_fill_int_scalar(self.dim, self.index, 0),
        }
    }
}
