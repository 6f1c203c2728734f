//! Elements found by index: each of a shape's positions has an offset of its own from a table.

use crate::error::Result;
use crate::kernels::cpu::strided;
use crate::tensor::{Dims, Plain, Read, Write};

/// Where the elements are that several index tensors select together (`at::native::AdvancedIndex`).
#[derive(Debug)]
pub(crate) struct IndexPlan {
    /// Of the result.
    pub(crate) sizes: Dims,
    /// A result's position in the tensor, as far as dimensions without index say.
    pub(crate) strides: Dims,
    /// A result's position in `offsets`.
    pub(crate) offset_strides: Dims,
    /// What the indices add, for each position of the shape that they have in common.
    pub(crate) offsets: Vec<usize>,
}

impl IndexPlan {
    /// `out[position] = src[position, indexed]`.
    pub(crate) fn get<W: Plain>(&self, src: &Read<'_>, out: Write<'_>) -> Result<()> {
        let (src, out_strides) = (src.elements::<W>()?, out.strides());
        let out = out.elements::<W>()?;
        strided::for_each(&self.sizes, [out_strides, &self.strides, &self.offset_strides], |[o, s, k]| {
            out[o] = src[s + self.offsets[k]];
        });
        Ok(())
    }

    /// `out[position, indexed] = f(that, src[position])`; `src_strides` cover the plan's sizes.
    pub(crate) fn put<W: Plain>(
        &self,
        out: Write<'_>,
        src: &Read<'_>,
        src_strides: &[i64],
        f: impl Fn(W, W) -> W,
    ) -> Result<()> {
        let (src, out) = (src.elements::<W>()?, out.elements::<W>()?);
        strided::for_each(&self.sizes, [&self.strides, src_strides, &self.offset_strides], |[o, s, k]| {
            let place = &mut out[o + self.offsets[k]];
            *place = f(*place, src[s]);
        });
        Ok(())
    }
}

/// `out[i, …] = src[i with index[i] at dim, …]` over the index's sizes (`gather`); `index` is in row-major order and
/// within bounds.
pub(crate) fn gather<W: Plain>(out: Write<'_>, src: &Read<'_>, index: &[i64], dim: usize) -> Result<()> {
    let mut strides = Dims::from(src.strides());
    let step = if strides.is_empty() { 0 } else { std::mem::take(&mut strides[dim]) as usize };
    let (sizes, out_strides) = (Dims::from(out.sizes()), Dims::from(out.strides()));
    let (src, out) = (src.elements::<W>()?, out.elements::<W>()?);
    let mut index = index.iter();
    strided::for_each(&sizes, [&out_strides, &strides], |[o, s]| {
        let at = index.next().map_or(0, |&at| at as usize);
        out[o] = src[s + at * step];
    });
    Ok(())
}

/// `out[i with index[i] at dim, …] = f(that, src[i, …])` over `sizes`, those of the index (`scatter`); `index` is in
/// row-major order and within bounds.
pub(crate) fn scatter<W: Plain>(
    sizes: &[i64],
    out: Write<'_>,
    src: &[W],
    src_strides: &[i64],
    index: &[i64],
    dim: usize,
    f: impl Fn(W, W) -> W,
) -> Result<()> {
    let mut strides = Dims::from(out.strides());
    let step = if strides.is_empty() { 0 } else { std::mem::take(&mut strides[dim]) as usize };
    let out = out.elements::<W>()?;
    let mut index = index.iter();
    strided::for_each(sizes, [&strides, src_strides], |[o, s]| {
        let at = index.next().map_or(0, |&at| at as usize);
        let place = &mut out[o + at * step];
        *place = f(*place, src[s]);
    });
    Ok(())
}

/// For each of `index`, within bounds, the slice of `out` at it along `dim` meets the slice of `src` at its
/// place (`index_select` turned round, `index_add`, `index_copy`).
pub(crate) fn put_slices<W: Plain>(
    out: Write<'_>,
    src: &Read<'_>,
    index: &[i64],
    dim: usize,
    f: impl Fn(W, W) -> W,
) -> Result<()> {
    let (mut sizes, mut strides, mut src_strides) =
        (Dims::from(src.sizes()), Dims::from(out.strides()), Dims::from(src.strides()));
    let (mut step, mut src_step) = (0, 0);
    if !sizes.is_empty() {
        sizes[dim] = 1;
        step = std::mem::take(&mut strides[dim]) as usize;
        src_step = std::mem::take(&mut src_strides[dim]) as usize;
    }
    let (src, out) = (src.elements::<W>()?, out.elements::<W>()?);
    for (i, &at) in index.iter().enumerate() {
        strided::for_each(&sizes, [&strides, &src_strides], |[o, s]| {
            let place = &mut out[o + at as usize * step];
            *place = f(*place, src[s + i * src_step]);
        });
    }
    Ok(())
}

/// The slices of `src` at each of `index`, within bounds, along `dim` (`index_select`).
pub(crate) fn get_slices<W: Plain>(out: Write<'_>, src: &Read<'_>, index: &[i64], dim: usize) -> Result<()> {
    let (mut sizes, mut strides, mut src_strides) =
        (Dims::from(out.sizes()), Dims::from(out.strides()), Dims::from(src.strides()));
    let (mut step, mut src_step) = (0, 0);
    if !sizes.is_empty() {
        sizes[dim] = 1;
        step = std::mem::take(&mut strides[dim]) as usize;
        src_step = std::mem::take(&mut src_strides[dim]) as usize;
    }
    let (src, out) = (src.elements::<W>()?, out.elements::<W>()?);
    if sizes.contains(&0) {
        return Ok(());
    }
    for (i, &at) in index.iter().enumerate() {
        let (out, src) = (&mut out[i * step..], &src[at as usize * src_step..]);
        strided::copy(&sizes, out, &strides, src, &src_strides);
    }
    Ok(())
}
