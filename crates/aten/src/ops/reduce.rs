//! Sums, products, means and truth values.

use c10_core::ScalarType;

use super::reduction::{Reduction, check_out_dtype, sum_dtype};
use super::{Dest, Made, handles, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::reduce::{self, Truth};
use crate::tensor::Tensor;

type Dtype = Option<ScalarType>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, sum, (x: &Tensor, dtype: Dtype), functional "sum", out "sum.out");
    register_triple!(lib, sum_dim, (x: &Tensor, dims: Option<&[i64]>, keepdim: bool, dtype: Dtype),
        functional "sum.dim_IntList", out "sum.IntList_out");
    register_triple!(lib, nansum, (x: &Tensor, dims: Option<&[i64]>, keepdim: bool, dtype: Dtype),
        functional "nansum", out "nansum.out");
    register_triple!(lib, prod, (x: &Tensor, dtype: Dtype), functional "prod", out "prod.out");
    register_triple!(lib, prod_dim, (x: &Tensor, dim: i64, keepdim: bool, dtype: Dtype),
        functional "prod.dim_int", out "prod.int_out");
    register_triple!(lib, mean, (x: &Tensor, dtype: Dtype), functional "mean", out "mean.dtype_out");
    register_triple!(lib, mean_dim, (x: &Tensor, dims: Option<&[i64]>, keepdim: bool, dtype: Dtype),
        functional "mean.dim", out "mean.out");
    register_triple!(lib, nanmean, (x: &Tensor, dims: Option<&[i64]>, keepdim: bool, dtype: Dtype),
        functional "nanmean", out "nanmean.out");
    register_truth(lib)?;
    register_triple!(lib, count_nonzero, (x: &Tensor, dim: Option<i64>), functional "count_nonzero");
    register_triple!(lib, count_nonzero_dims, (x: &Tensor, dims: &[i64]), functional "count_nonzero.dim_IntList");
    lib.cpu_meta("_is_all_true", |x: &Tensor| is_true(x, Truth::All))?;
    lib.cpu_meta("_is_any_true", |x: &Tensor| is_true(x, Truth::Any))?;
    lib.composite("sum_to_size", sum_to_size)
}

fn register_truth(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, any, (x: &Tensor), functional "any", out "any.all_out");
    register_triple!(lib, any_dim, (x: &Tensor, dim: i64, keepdim: bool), functional "any.dim", out "any.out");
    register_triple!(lib, any_dims, (x: &Tensor, dims: Option<&[i64]>, keepdim: bool),
        functional "any.dims", out "any.dims_out");
    register_triple!(lib, all, (x: &Tensor), functional "all", out "all.all_out");
    register_triple!(lib, all_dim, (x: &Tensor, dim: i64, keepdim: bool), functional "all.dim", out "all.out");
    register_triple!(lib, all_dims, (x: &Tensor, dims: Option<&[i64]>, keepdim: bool),
        functional "all.dims", out "all.dims_out");
    Ok(())
}

fn sum(dest: Dest<'_>, x: &Tensor, dtype: Dtype) -> Result<Made> {
    sum_dim(dest, x, None, false, dtype)
}

fn sum_dim(dest: Dest<'_>, x: &Tensor, dims: Option<&[i64]>, keepdim: bool, dtype: Dtype) -> Result<Made> {
    let reduction = Reduction::dims_or_all(x, dims, keepdim)?;
    let dtype = sum_dtype(dest, x, dtype)?;
    let x = summand(x, dtype)?;
    reduction.run(dest, dtype, kernel_dtype(dtype), &x, |out| reduce::sum(&x, out, &reduction.mask))
}

fn nansum(dest: Dest<'_>, x: &Tensor, dims: Option<&[i64]>, keepdim: bool, dtype: Dtype) -> Result<Made> {
    if x.dtype().is_complex() {
        return Err(Error::dtype("nansum does not support complex inputs"));
    }
    if x.dtype().is_integral(true) {
        return sum_dim(dest, x, dims, keepdim, dtype);
    }
    let reduction = Reduction::dims_or_all(x, dims, keepdim)?;
    let dtype = sum_dtype(dest, x, dtype)?;
    // NaN is no number before it is cast.
    let made = reduction.output(Dest::New, x.dtype(), x)?;
    if dtype == x.dtype() || made.is_meta() {
        return reduction.run(dest, dtype, dtype, x, |out| reduce::nan_sum(x, out, &reduction.mask));
    }
    let x = x.to_dtype(dtype)?;
    reduction.run(dest, dtype, kernel_dtype(dtype), &x, |out| match dtype.is_floating_point() {
        true => reduce::nan_sum(&x, out, &reduction.mask),
        false => reduce::sum(&x, out, &reduction.mask),
    })
}

fn prod(dest: Dest<'_>, x: &Tensor, dtype: Dtype) -> Result<Made> {
    product(dest, x, &Reduction::all(x, false)?, dtype)
}

fn prod_dim(dest: Dest<'_>, x: &Tensor, dim: i64, keepdim: bool, dtype: Dtype) -> Result<Made> {
    product(dest, x, &Reduction::dim(x, dim, keepdim)?, dtype)
}

fn product(dest: Dest<'_>, x: &Tensor, reduction: &Reduction, dtype: Dtype) -> Result<Made> {
    let dtype = sum_dtype(dest, x, dtype)?;
    let x = summand(x, dtype)?;
    reduction.run(dest, dtype, kernel_dtype(dtype), &x, |out| reduce::product(&x, out, &reduction.mask))
}

/// `x`, as the dtype that it is summed up in: cast first, unless it is of integers, which are widened anyway.
fn summand(x: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if x.is_meta() || (x.dtype().is_integral(true) && dtype == ScalarType::Int64) {
        return Ok(x.clone());
    }
    x.to_dtype(dtype)
}

/// What a sum of a dtype comes as from the kernel.
fn kernel_dtype(dtype: ScalarType) -> ScalarType {
    if dtype.is_integral(true) { ScalarType::Int64 } else { dtype }
}

fn mean(dest: Dest<'_>, x: &Tensor, dtype: Dtype) -> Result<Made> {
    mean_dim(dest, x, None, false, dtype)
}

fn mean_dim(dest: Dest<'_>, x: &Tensor, dims: Option<&[i64]>, keepdim: bool, dtype: Dtype) -> Result<Made> {
    let reduction = Reduction::dims_or_all(x, dims, keepdim)?;
    let dtype = mean_dtype(dest, x, dtype)?;
    let x = if x.is_meta() { x.clone() } else { x.to_dtype(dtype)? };
    reduction.run(dest, dtype, dtype, &x, |out| reduce::mean(&x, out, &reduction.mask, reduction.count))
}

fn mean_dtype(dest: Dest<'_>, x: &Tensor, dtype: Dtype) -> Result<ScalarType> {
    let given = dest.given().map(Tensor::dtype);
    let found = dtype.or(given).unwrap_or(x.dtype());
    if !found.is_floating_point() && !found.is_complex() {
        let what = if dtype.is_some() { "Optional" } else { "Input" };
        return Err(Error::dtype(format!(
            "mean(): could not infer output dtype. {what} dtype must be either a floating point or complex dtype. \
             Got: {}",
            found.c10_name()
        )));
    }
    check_out_dtype(dest, found)?;
    Ok(found)
}

fn nanmean(dest: Dest<'_>, x: &Tensor, dims: Option<&[i64]>, keepdim: bool, dtype: Dtype) -> Result<Made> {
    if !x.dtype().is_floating_point() && !x.dtype().is_complex() {
        return Err(Error::dtype(format!(
            "nanmean(): expected input to have floating point or complex dtype but got {}",
            x.dtype().c10_name()
        )));
    }
    let reduction = Reduction::dims_or_all(x, dims, keepdim)?;
    let dtype = mean_dtype(dest, x, dtype)?;
    let x = if x.is_meta() { x.clone() } else { x.to_dtype(dtype)? };
    reduction.run(dest, dtype, dtype, &x, |out| reduce::nan_mean(&x, out, &reduction.mask))
}

macro_rules! truths {
    ($($full:ident $dim:ident $dims:ident $truth:expr;)*) => {$(
        fn $full(dest: Dest<'_>, x: &Tensor) -> Result<Made> {
            truth(dest, x, &Reduction::all(x, false)?, $truth)
        }

        fn $dim(dest: Dest<'_>, x: &Tensor, dim: i64, keepdim: bool) -> Result<Made> {
            truth(dest, x, &Reduction::dim(x, dim, keepdim)?, $truth)
        }

        /// No dimension means none here, and all only where the list is absent.
        fn $dims(dest: Dest<'_>, x: &Tensor, dims: Option<&[i64]>, keepdim: bool) -> Result<Made> {
            let reduction = match dims {
                None => Reduction::all(x, keepdim)?,
                Some(dims) => Reduction::dims(x, dims, keepdim)?,
            };
            truth(dest, x, &reduction, $truth)
        }
    )*};
}
truths! {
    any any_dim any_dims Truth::Any;
    all all_dim all_dims Truth::All;
}

fn truth(dest: Dest<'_>, x: &Tensor, reduction: &Reduction, truth: Truth) -> Result<Made> {
    let dtype = if x.dtype() == ScalarType::UInt8 { ScalarType::UInt8 } else { ScalarType::Bool };
    if let Some(given) = dest.given()
        && given.dtype() != ScalarType::Bool
        && given.dtype() != ScalarType::UInt8
    {
        return Err(Error::dtype(format!(
            "any and all only support bool tensor for result, got: {}",
            given.dtype().c10_name()
        )));
    }
    let dtype = dest.given().map_or(dtype, Tensor::dtype);
    reduction.run(dest, dtype, dtype, x, |out| reduce::truth(x, out, &reduction.mask, truth))
}

fn is_true(x: &Tensor, kind: Truth) -> Result<Tensor> {
    if x.dtype() != ScalarType::Bool {
        return Err(Error::dtype("expected a tensor of truth values"));
    }
    truth(Dest::New, x, &Reduction::all(x, false)?, kind).map(Made::new_tensor)
}

fn count_nonzero(dest: Dest<'_>, x: &Tensor, dim: Option<i64>) -> Result<Made> {
    count(dest, x, &Reduction::dim_or_all(x, dim, false)?)
}

fn count_nonzero_dims(dest: Dest<'_>, x: &Tensor, dims: &[i64]) -> Result<Made> {
    count(dest, x, &Reduction::dims_or_all(x, Some(dims), false)?)
}

fn count(dest: Dest<'_>, x: &Tensor, reduction: &Reduction) -> Result<Made> {
    let dtype = ScalarType::Int64;
    reduction.run(dest, dtype, dtype, x, |out| reduce::count_nonzero(x, out, &reduction.mask))
}

/// Leading dimensions that `sizes` lacks are summed up and dropped, those it has as 1 are kept.
fn sum_to_size(x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let from = x.sizes();
    let lead = from.len().checked_sub(sizes.len());
    let fits = |lead: usize| sizes.iter().zip(&from[lead..]).all(|(&to, &from)| to == from || to == 1);
    let Some(lead) = lead.filter(|&lead| fits(lead)) else {
        return Err(Error::shape(format!("size {{{sizes:?}}} is not expandable to size {{{from:?}}}.")));
    };
    let kept: Vec<i64> = (lead..from.len())
        .filter(|&dim| sizes[dim - lead] == 1 && from[dim] != 1)
        .map(|dim| dim as i64)
        .collect();
    let mut sum = x.clone();
    if !kept.is_empty() {
        sum = handles::SUM_DIM_INTLIST.call(&sum, Some(&kept), true, None)?;
    }
    if lead > 0 {
        let dims: Vec<i64> = (0..lead as i64).collect();
        sum = handles::SUM_DIM_INTLIST.call(&sum, Some(&dims), false, None)?;
    }
    Ok(sum)
}
