//! Elements in another order along dimensions: `flip`, `roll`.

use super::copy::clone;
use super::join::cat;
use super::{Dest, Made};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::strided;
use crate::shape;
use crate::tensor::{Dims, Fresh, New, Tensor, access, for_words};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("flip", |this: &Tensor, dims: &[i64]| flip(this, dims))?;
    lib.cpu_meta("roll", |this: &Tensor, shifts: &[i64], dims: &[i64]| roll(this, shifts, dims))
}

fn flip(this: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let flipped = shape::wrap_dims(dims, this.rank())?;
    let (sizes, mut strides) = (this.sizes(), this.strides());
    let out_strides = shape::dense_strides_like(&sizes, &strides)?;
    let out = New::strided(sizes.clone(), out_strides, this.dtype(), this.device()).make()?;
    if out.is_meta() || out.numel() == 0 {
        return Ok(out);
    }
    // Walked backwards from the last element.
    let mut begin = 0;
    for &dim in flipped.iter().filter(|&&dim| dim < sizes.len()) {
        begin += (sizes[dim] - 1) * strides[dim];
        strides[dim] = -strides[dim];
    }
    access([this], [&out], Fresh::Yes, |[src], [to]| {
        let to_strides = Dims::from(to.strides());
        for_words!(this.dtype(), W => {
            let (src, to) = (src.elements::<W>()?, to.elements::<W>()?);
            strided::for_each(&sizes, [&to_strides, &strides], |[o, s]| {
                to[o] = src[(begin as usize).wrapping_add(s)];
            });
            Ok(())
        })
    })?;
    Ok(out)
}

fn roll(this: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    if shifts.is_empty() {
        return Err(Error::invalid_argument("`shifts` required"));
    }
    if dims.is_empty() && shifts.len() == 1 {
        let flat = this.to_contiguous()?;
        let flat = flat.view_of(Dims::from([this.numel()]), Dims::from([1]), flat.storage_offset())?;
        let rolled = roll_one(&flat, shifts[0], 0)?;
        let strides = shape::contiguous_strides(&this.sizes())?;
        return rolled.view_of(this.sizes(), strides, rolled.storage_offset());
    }
    if shifts.len() != dims.len() {
        return Err(Error::shape(format!(
            "shifts and dimensions must align. shifts: {}, dims: {}",
            shifts.len(),
            dims.len()
        )));
    }
    let wrapped: Vec<usize> =
        dims.iter().map(|&dim| shape::wrap_dim(dim, this.rank())).collect::<Result<_>>()?;
    let mut rolled = this.clone();
    for (&shift, &dim) in shifts.iter().zip(&wrapped) {
        rolled = roll_one(&rolled, shift, dim)?;
    }
    Ok(rolled)
}

fn roll_one(this: &Tensor, shift: i64, dim: usize) -> Result<Tensor> {
    let sizes = this.sizes();
    let size = sizes.get(dim).copied().unwrap_or(1);
    if this.numel() == 0 || this.rank() == 0 {
        return clone(this, None);
    }
    let begin = (-(i128::from(shift))).rem_euclid(i128::from(size)) as i64;
    let part = |begin: i64, len: i64| {
        let (mut sizes, strides) = (this.sizes(), this.strides());
        sizes[dim] = len;
        this.view_of(sizes, strides.clone(), this.storage_offset() + begin * strides[dim])
    };
    cat(Dest::New, &[part(begin, size - begin)?, part(0, begin)?], dim as i64).map(Made::new_tensor)
}
