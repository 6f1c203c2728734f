//! Reductions of any dimensions of tensors of any strides.
//!
//! A reduction is a [`Reducer`](engine::Reducer); [`into`] and [`into_two`] run one and write what each output
//! came to. Everything else is a list of reducers.

mod element;
mod engine;
mod extremum;
mod layout;
mod logic;
mod moments;
mod norm;
mod sum;

use c10_core::ScalarType;

pub(crate) use element::{Number, Ordered, RealElement, Reduced};
pub(crate) use engine::{Reducer, reduce};
pub(crate) use extremum::{Side, arg_extremum, extremum, extremum_with_index, min_and_max};
pub(crate) use layout::{Layout, Order};
pub(crate) use logic::{Truth, count_nonzero, truth};
pub(crate) use moments::{Element as MomentElement, Moment, means_and_squares, moments};
pub(crate) use norm::{log_sum_exp, vector_norm};
pub(crate) use sum::{mean, nan_mean, nan_sum, product, sum};

use crate::error::Result;
use crate::ops::Output;
use crate::tensor::{Plain, Tensor, access};

/// Reduces the masked dimensions of `input` to `out`, which is contiguous and shares no memory with it.
pub(crate) fn into<R: Reducer, O: Plain>(
    input: &Tensor,
    out: &Output<'_>,
    mask: &[bool],
    order: Order,
    reducer: &R,
    finish: impl Fn(R::Acc) -> O,
) -> Result<()> {
    access([input], [out.tensor()], out.fresh(), |[x], [out]| {
        let layout = Layout::new(x.sizes(), x.strides(), mask, order);
        let accs = reduce(reducer, x.elements()?, &layout);
        out.slice::<O>()?.iter_mut().zip(accs).for_each(|(out, acc)| *out = finish(acc));
        Ok(())
    })
}

/// As [`into`], to two outputs.
pub(crate) fn into_two<R: Reducer, O: Plain, P: Plain>(
    input: &Tensor,
    outs: [&Output<'_>; 2],
    mask: &[bool],
    order: Order,
    reducer: &R,
    finish: impl Fn(R::Acc) -> (O, P),
) -> Result<()> {
    let fresh = Output::fresh_of(&outs);
    access([input], outs.map(Output::tensor), fresh, |[x], [first, second]| {
        let layout = Layout::new(x.sizes(), x.strides(), mask, order);
        let accs = reduce(reducer, x.elements()?, &layout);
        let outs = first.slice::<O>()?.iter_mut().zip(second.slice::<P>()?);
        outs.zip(accs).for_each(|((first, second), acc)| (*first, *second) = finish(acc));
        Ok(())
    })
}

/// A tensor of `bool`s as one of `u8`s that are 0 or 1, for reducers of integers.
pub(crate) fn without_bools(input: &Tensor) -> Result<Tensor> {
    if input.dtype() == ScalarType::Bool { input.to_dtype(ScalarType::UInt8) } else { Ok(input.clone()) }
}
