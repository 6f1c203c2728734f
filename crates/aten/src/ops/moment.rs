//! Variances, norms and logarithms of sums of exponentials.

use c10_core::{Scalar, ScalarType};

use super::reduction::{Reduction, check_out_dtype};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::reduce::{self, Moment};
use crate::tensor::{Tensor, default_dtype};

type Dtype = Option<ScalarType>;
type MaybeDims<'a> = Option<&'a [i64]>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, var_correction,
        (x: &Tensor, dims: Option<&[i64]>, correction: Option<Scalar>, keepdim: bool),
        functional "var.correction", out "var.correction_out");
    register_triple!(lib, std_correction,
        (x: &Tensor, dims: Option<&[i64]>, correction: Option<Scalar>, keepdim: bool),
        functional "std.correction", out "std.correction_out");
    register_triple!(lib, var_dim, (x: &Tensor, dims: Option<&[i64]>, unbiased: bool, keepdim: bool),
        functional "var.dim", out "var.out");
    register_triple!(lib, std_dim, (x: &Tensor, dims: Option<&[i64]>, unbiased: bool, keepdim: bool),
        functional "std.dim", out "std.out");
    register_triple!(lib, var, (x: &Tensor, unbiased: bool), functional "var");
    register_triple!(lib, std, (x: &Tensor, unbiased: bool), functional "std");
    for (moment, name) in [(Moment::Variance, "var_mean"), (Moment::StandardDeviation, "std_mean")] {
        lib.cpu_meta(
            &format!("{name}.correction"),
            move |x: &Tensor, dims: Option<&[i64]>, correction: Option<Scalar>, keepdim: bool| {
                with_mean(x, dims, correction, keepdim, moment)
            },
        )?;
        lib.cpu_meta(
            &format!("{name}.dim"),
            move |x: &Tensor, dims: Option<&[i64]>, unbiased: bool, keepdim: bool| {
                with_mean(x, dims, Some(correction_of(unbiased)), keepdim, moment)
            },
        )?;
        lib.cpu_meta(name, move |x: &Tensor, unbiased: bool| {
            with_mean(x, None, Some(correction_of(unbiased)), false, moment)
        })?;
    }
    register_triple!(lib, logsumexp, (x: &Tensor, dims: &[i64], keepdim: bool),
        functional "logsumexp", out "logsumexp.out");
    register_triple!(lib, logsumexp, (x: &Tensor, dims: &[i64], keepdim: bool),
        functional "special_logsumexp", out "special_logsumexp.out");
    register_norms(lib)
}

fn register_norms(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, vector_norm,
        (x: &Tensor, ord: Scalar, dims: Option<&[i64]>, keepdim: bool, dtype: Option<ScalarType>),
        functional "linalg_vector_norm", out "linalg_vector_norm.out");
    register_triple!(lib, norm, (x: &Tensor, p: Scalar), functional "norm.Scalar", out "norm.Scalar_out");
    register_triple!(lib, norm_dtype, (x: &Tensor, p: Option<Scalar>, dtype: ScalarType),
        functional "norm.ScalarOpt_dtype", out "norm.ScalarOpt_dtype_out");
    register_triple!(lib, norm_dims, (x: &Tensor, p: Option<Scalar>, dims: &[i64], keepdim: bool),
        functional "norm.ScalarOpt_dim", out "norm.out");
    register_triple!(lib, norm_dims_dtype,
        (x: &Tensor, p: Option<Scalar>, dims: &[i64], keepdim: bool, dtype: ScalarType),
        functional "norm.ScalarOpt_dim_dtype", out "norm.dtype_out");
    register_triple!(lib, frobenius_norm, (x: &Tensor, dims: &[i64], keepdim: bool),
        functional "frobenius_norm.dim", out "frobenius_norm.out");
    Ok(())
}

fn correction_of(unbiased: bool) -> Scalar {
    Scalar::from(i64::from(unbiased))
}

fn var_correction(
    dest: Dest<'_>,
    x: &Tensor,
    dims: MaybeDims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Made> {
    moments(dest, x, dims, correction, keepdim, Moment::Variance).map(|made| made.0)
}

fn std_correction(
    dest: Dest<'_>,
    x: &Tensor,
    dims: MaybeDims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Made> {
    moments(dest, x, dims, correction, keepdim, Moment::StandardDeviation).map(|made| made.0)
}

fn var_dim(dest: Dest<'_>, x: &Tensor, dims: MaybeDims<'_>, unbiased: bool, keepdim: bool) -> Result<Made> {
    var_correction(dest, x, dims, Some(correction_of(unbiased)), keepdim)
}

fn std_dim(dest: Dest<'_>, x: &Tensor, dims: MaybeDims<'_>, unbiased: bool, keepdim: bool) -> Result<Made> {
    std_correction(dest, x, dims, Some(correction_of(unbiased)), keepdim)
}

fn var(dest: Dest<'_>, x: &Tensor, unbiased: bool) -> Result<Made> {
    var_dim(dest, x, None, unbiased, false)
}

fn std(dest: Dest<'_>, x: &Tensor, unbiased: bool) -> Result<Made> {
    std_dim(dest, x, None, unbiased, false)
}

fn with_mean(
    x: &Tensor,
    dims: MaybeDims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
    moment: Moment,
) -> Result<(Tensor, Tensor)> {
    let (spread, mean) = moments(Dest::New, x, dims, correction, keepdim, moment)?;
    Ok((spread.new_tensor(), mean))
}

/// The variance or deviation, and the mean.
fn moments(
    dest: Dest<'_>,
    x: &Tensor,
    dims: MaybeDims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
    moment: Moment,
) -> Result<(Made, Tensor)> {
    if !x.dtype().is_floating_point() && !x.dtype().is_complex() {
        return Err(Error::dtype("std and var only support floating point and complex dtypes"));
    }
    let correction = correction.map_or(Ok(1.0), |correction| correction.to::<f64>())?;
    let reduction = Reduction::dims_or_all(x, dims, keepdim)?;
    let real = x.dtype().to_real();
    let mean = reduction.output(Dest::New, x.dtype(), x)?;
    let made = reduction.run(dest, real, real, x, |out| {
        reduce::moments(x, [out, &mean], &reduction.mask, correction, moment)
    })?;
    Ok((made, mean.finish()?.new_tensor()))
}

fn logsumexp(dest: Dest<'_>, x: &Tensor, dims: &[i64], keepdim: bool) -> Result<Made> {
    let reduction = Reduction::dims_or_all(x, Some(dims), keepdim)?;
    let dtype = if x.dtype().is_integral(true) { default_dtype() } else { x.dtype() };
    if let Some(given) = dest.given()
        && !given.dtype().is_floating_point()
        && !given.dtype().is_complex()
    {
        return Err(Error::dtype(format!(
            "logsumexp(): Expected floating point type for result tensor, but got: {}",
            given.dtype().c10_name()
        )));
    }
    let x = if x.is_meta() { x.clone() } else { x.to_dtype(dtype)? };
    reduction.run(dest, dtype, dtype, &x, |out| reduce::log_sum_exp(&x, out, &reduction.mask))
}

fn vector_norm(
    dest: Dest<'_>,
    x: &Tensor,
    ord: Scalar,
    dims: MaybeDims<'_>,
    keepdim: bool,
    dtype: Dtype,
) -> Result<Made> {
    check_norm_dtype("linalg.vector_norm", x, dtype)?;
    if ord.is_complex() {
        return Err(Error::dtype("linalg.vector_norm: Expected a non-complex scalar as the order of norm."));
    }
    let order = ord.to::<f64>()?;
    let reduction = Reduction::dims_or_all(x, dims, keepdim)?;
    if (order < 0.0 || order == f64::INFINITY) && x.numel() == 0 {
        check_has_norm(x, &reduction, dims, order)?;
    }
    let computed = dtype.unwrap_or(x.dtype());
    let real = computed.to_real();
    check_out_dtype(dest, real)?;
    let x = if x.is_meta() { x.clone() } else { x.to_dtype(computed)? };
    reduction.run(dest, real, real, &x, |out| reduce::vector_norm(&x, out, &reduction.mask, order))
}

/// Norms that are minima or maxima have no value for no elements.
fn check_has_norm(x: &Tensor, reduction: &Reduction, dims: MaybeDims<'_>, order: f64) -> Result<()> {
    let refused = match dims {
        None | Some([]) => true,
        Some(_) => {
            let geometry = x.geometry();
            reduction.mask.iter().zip(&geometry.sizes).any(|(&is_reduced, &size)| is_reduced && size == 0)
        }
    };
    if refused {
        return Err(Error::shape(format!(
            "linalg.vector_norm cannot compute the {order} norm on an empty tensor because the operation does not \
             have an identity"
        )));
    }
    Ok(())
}

fn check_norm_dtype(name: &str, x: &Tensor, dtype: Dtype) -> Result<()> {
    let is_float = |dtype: ScalarType| dtype.is_floating_point() || dtype.is_complex();
    if !is_float(x.dtype()) {
        return Err(Error::dtype(format!(
            "{name}: Expected a floating point or complex tensor as input. Got {}",
            x.dtype().c10_name()
        )));
    }
    let Some(dtype) = dtype else { return Ok(()) };
    if !is_float(dtype) {
        return Err(Error::dtype(format!(
            "{name}: dtype should be floating point or complex, but got {}",
            dtype.c10_name()
        )));
    }
    if dtype.is_complex() != x.dtype().is_complex() {
        return Err(Error::dtype(format!(
            "{name}: dtype should be {} for {} inputs, but got {}",
            if x.dtype().is_complex() { "complex" } else { "real" },
            if x.dtype().is_complex() { "complex" } else { "real" },
            dtype.c10_name()
        )));
    }
    if !c10_core::can_cast(x.dtype(), dtype) || c10_core::promote_types(x.dtype(), dtype)? != dtype {
        return Err(Error::dtype(format!(
            "{name}: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({})",
            x.dtype().c10_name(),
            dtype.c10_name()
        )));
    }
    Ok(())
}

fn norm(dest: Dest<'_>, x: &Tensor, p: Scalar) -> Result<Made> {
    any_norm(dest, x, Some(p), &[], false, None)
}

fn norm_dtype(dest: Dest<'_>, x: &Tensor, p: Option<Scalar>, dtype: ScalarType) -> Result<Made> {
    any_norm(dest, x, p, &[], false, Some(dtype))
}

fn norm_dims(dest: Dest<'_>, x: &Tensor, p: Option<Scalar>, dims: &[i64], keepdim: bool) -> Result<Made> {
    any_norm(dest, x, p, dims, keepdim, None)
}

fn norm_dims_dtype(
    dest: Dest<'_>,
    x: &Tensor,
    p: Option<Scalar>,
    dims: &[i64],
    keepdim: bool,
    dtype: ScalarType,
) -> Result<Made> {
    any_norm(dest, x, p, dims, keepdim, Some(dtype))
}

fn any_norm(
    dest: Dest<'_>,
    x: &Tensor,
    p: Option<Scalar>,
    dims: &[i64],
    keepdim: bool,
    dtype: Dtype,
) -> Result<Made> {
    check_norm_dtype("norm()", x, dtype)?;
    vector_norm(dest, x, p.unwrap_or(Scalar::from(2_i64)), Some(dims), keepdim, dtype)
}

fn frobenius_norm(dest: Dest<'_>, x: &Tensor, dims: &[i64], keepdim: bool) -> Result<Made> {
    vector_norm(dest, x, Scalar::from(2_i64), Some(dims), keepdim, None)
}
