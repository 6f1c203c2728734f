//! Limits to norms.

use c10_core::Scalar;

use super::reduction::{check_out_dtype, dim_of, store};
use super::{Dest, Made, handles, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::{Tensor, TensorOptions};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, renorm, (x: &Tensor, p: Scalar, dim: i64, limit: Scalar),
        functional "renorm", inplace "renorm_", out "renorm.out");
    Ok(())
}

/// Slices along `dim` whose norm of order `p` is above the limit are scaled down to it.
fn renorm(dest: Dest<'_>, x: &Tensor, p: Scalar, dim: i64, limit: Scalar) -> Result<Made> {
    if p.is_complex() || p.to::<f64>()? <= 0.0 {
        return Err(Error::invalid_argument("renorm: non-positive norm not supported"));
    }
    if limit.is_complex() || limit.to::<f64>()? < 0.0 {
        return Err(Error::invalid_argument("renorm: expected maxnorm to be >= 0"));
    }
    if x.rank() < 2 {
        return Err(Error::shape(format!(
            "renorm: input needs at least 2 dimensions, got {} dimensions",
            x.rank()
        )));
    }
    if !x.dtype().is_floating_point() && !x.dtype().is_complex() {
        return Err(Error::dtype(format!("renorm: expected floats, and found {}", x.dtype().c10_name())));
    }
    let kept = dim_of(x, dim)? as i64;
    let dims: Vec<i64> = (0..x.rank() as i64).filter(|&dim| dim != kept).collect();
    let norms = handles::LINALG_VECTOR_NORM.call(x, p, Some(&dims), true, None)?;
    let factors = norms.add_scalar(1e-7)?.reciprocal()?.mul_scalar(limit)?;
    let factors =
        norms.gt_scalar(limit)?.where_self(&factors, &norms.ones_like(TensorOptions::default())?)?;
    let made = x.mul(&factors)?;
    let Some(out) = dest.given() else { return Ok(Made::new(made)) };
    check_out_dtype(dest, x.dtype())?;
    store(out, &made)?;
    Ok(Made::written())
}
