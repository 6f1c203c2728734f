//! Diagonals as matrices and back: `diag`, `diagflat`, `diag_embed`.

use super::handles;
use super::new_options::fill_fresh;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::shape;
use crate::tensor::{New, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("diag_embed", diag_embed)?;
    lib.composite("diag", diag)?;
    lib.composite("diag.out", |this: &Tensor, diagonal: i64, out: &Tensor| {
        let made = diag(this, diagonal)?;
        out.check_given(&made)?;
        if out.sizes() != made.sizes() {
            out.resize_for_output(&made.sizes(), &shape::contiguous_strides(&made.sizes())?)?;
        }
        crate::kernels::copy(out, &made)
    })?;
    lib.composite("diagflat", |this: &Tensor, offset: i64| diag(&this.reshape(&[-1])?, offset))
}

fn diag(this: &Tensor, diagonal: i64) -> Result<Tensor> {
    match this.rank() {
        1 => handles::DIAG_EMBED.call(this, diagonal, 0, 1),
        2 => handles::DIAGONAL_COPY.call(this, diagonal, 0, 1),
        rank => Err(Error::shape(format!("diag(): Supports 1D or 2D tensors. Got {rank}D"))),
    }
}

/// Zeros, with the last dimension on a diagonal of two new ones.
fn diag_embed(this: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let rank = this.rank() + 1;
    let (first, second) = (shape::wrap_dim(dim1, rank)?, shape::wrap_dim(dim2, rank)?);
    if first == second {
        return Err(Error::invalid_argument(format!(
            "diagonal dimensions cannot be identical {dim1}, {dim2}"
        )));
    }
    let mut sizes = this.sizes();
    let Some(&last) = sizes.last() else {
        return Err(Error::shape("diag_embed of a tensor without dimensions"));
    };
    sizes.truncate(sizes.len() - 1);
    let side = offset
        .checked_abs()
        .and_then(|offset| offset.checked_add(last))
        .ok_or_else(|| Error::shape(format!("a diagonal {offset} away is too far")))?;
    sizes.insert(first.min(second), side);
    sizes.insert(first.max(second), side);
    let made = New::contiguous(sizes, this.dtype(), this.device()).make()?;
    fill_fresh(&made, 0.into())?;
    let diagonal = handles::DIAGONAL.call(&made, offset, dim1, dim2)?;
    if !made.is_meta() {
        crate::kernels::copy_fresh(&diagonal, this)?;
    }
    Ok(made)
}

impl Tensor {
    /// Refuses to take the place of a result of another dtype or device.
    fn check_given(&self, made: &Self) -> Result<()> {
        if self.dtype() == made.dtype() && self.device() == made.device() {
            return Ok(());
        }
        Err(Error::dtype(format!(
            "Expected out tensor to have dtype {}, but got {} instead",
            made.dtype().name(),
            self.dtype().name()
        )))
    }
}
