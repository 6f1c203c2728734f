//! Elements drawn one after another, in the order in which they stand in memory.

use smallvec::SmallVec;

use crate::error::Result;
use crate::iter::walk_order;
use crate::kernels::cpu::strided;
use crate::random::{Continuous, Draws, Generator};
use crate::tensor::{Dims, Fresh, Plain, Tensor, access};

/// Writes what `draw` gives to each element.
pub(crate) fn fill<T: Plain>(
    tensor: &Tensor,
    fresh: Fresh,
    generator: &Generator,
    mut draw: impl FnMut(&mut Draws<'_>) -> T,
) -> Result<()> {
    let order = walk_order(tensor);
    let dense = tensor.is_non_overlapping_and_dense();
    access([], [tensor], fresh, |[], [out]| {
        let (sizes, strides) = (Dims::from(out.sizes()), Dims::from(out.strides()));
        let out = out.elements::<T>()?;
        generator.draw(|draws| {
            if dense {
                out.fill_with(|| draw(draws));
                return;
            }
            let outermost_first: SmallVec<[usize; 6]> = order.iter().rev().copied().collect();
            let in_order = |of: &Dims| outermost_first.iter().map(|&dim| of[dim]).collect::<Dims>();
            strided::for_each(&in_order(&sizes), [&in_order(&strides)], |[o]| out[o] = draw(draws));
        });
        Ok(())
    })
}

/// As [`fill`], where each element has a parameter of its own: `p` covers the sizes of the tensor.
pub(crate) fn fill_by<T: Plain, P: Plain>(
    tensor: &Tensor,
    fresh: Fresh,
    p: &Tensor,
    generator: &Generator,
    mut draw: impl FnMut(&mut Draws<'_>, P) -> T,
) -> Result<()> {
    let order = walk_order(tensor);
    access([p], [tensor], fresh, |[p], [out]| {
        let in_order = |of: &[i64]| order.iter().rev().map(|&dim| of[dim]).collect::<Dims>();
        let (sizes, strides, p_strides) =
            (in_order(out.sizes()), in_order(out.strides()), in_order(p.strides()));
        let (out, p) = (out.elements::<T>()?, p.elements::<P>()?);
        generator.draw(|draws| {
            strided::for_each(&sizes, [&strides, &p_strides], |[o, i]| out[o] = draw(draws, p[i]));
        });
        Ok(())
    })
}

/// Normal numbers: in blocks where the elements lie in row-major order, else one by one.
pub(crate) fn fill_normal<T: Continuous + Plain>(
    tensor: &Tensor,
    fresh: Fresh,
    generator: &Generator,
    mean: f64,
    std: f64,
) -> Result<()> {
    if !tensor.is_contiguous() {
        return fill::<T>(tensor, fresh, generator, |draws| T::from_real(draws.normal(mean, std)));
    }
    access([], [tensor], fresh, |[], [out]| {
        let out = out.slice::<T>()?;
        generator.draw(|draws| draws.fill_normal(out, mean, std));
        Ok(())
    })
}
