//! Running sums, products, extrema.

use c10_core::ScalarType;

use super::reduction::{check_out_dtype, dim_of, split_at, sum_dtype};
use super::{Dest, Made, Output, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::reduce::{Side, without_bools};
use crate::kernels::cpu::scan::{self, Split};
use crate::tensor::{New, Tensor};

type Dtype = Option<ScalarType>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, cumsum, (x: &Tensor, dim: i64, dtype: Dtype),
        functional "cumsum", inplace "cumsum_", out "cumsum.out");
    register_triple!(lib, cumprod, (x: &Tensor, dim: i64, dtype: Dtype),
        functional "cumprod", inplace "cumprod_", out "cumprod.out");
    register_triple!(lib, logcumsumexp, (x: &Tensor, dim: i64), functional "logcumsumexp", out "logcumsumexp.out");
    for (side, name) in [(Side::Greatest, "cummax"), (Side::Least, "cummin")] {
        lib.cpu_meta(name, move |x: &Tensor, dim: i64| -> Result<(Tensor, Tensor)> {
            let (values, indices) = extrema([Dest::New; 2], x, dim, side)?;
            Ok((values.new_tensor(), indices.new_tensor()))
        })?;
        lib.cpu_meta(
            &format!("{name}.out"),
            move |x: &Tensor, dim: i64, values: &Tensor, indices: &Tensor| -> Result<()> {
                extrema([Dest::Out(values), Dest::Out(indices)], x, dim, side).map(drop)
            },
        )?;
    }
    Ok(())
}

fn cumsum(dest: Dest<'_>, x: &Tensor, dim: i64, dtype: Dtype) -> Result<Made> {
    running(dest, x, dim, dtype, scan::sums)
}

fn cumprod(dest: Dest<'_>, x: &Tensor, dim: i64, dtype: Dtype) -> Result<Made> {
    running(dest, x, dim, dtype, scan::products)
}

fn running(
    dest: Dest<'_>,
    x: &Tensor,
    dim: i64,
    dtype: Dtype,
    kernel: fn(&Tensor, &Output<'_>, Split) -> Result<()>,
) -> Result<Made> {
    let dim = dim_of(x, dim)?;
    let dtype = sum_dtype(dest, x, dtype)?;
    if dtype == ScalarType::Bool {
        return Err(Error::not_implemented("\"cumsum_out_cpu\" not implemented for 'Bool'"));
    }
    let out = output(dest, x, dtype)?;
    if !out.is_meta() {
        let split = split_at(&x.sizes(), dim);
        // Integers run up in `int64`, cast before to the dtype asked for, so that they wrap as it does.
        let wide = if dtype.is_integral(true) { ScalarType::Int64 } else { dtype };
        let x = x.to_dtype(dtype)?.to_dtype(wide)?.to_contiguous()?;
        if wide == dtype {
            kernel(&x, &out, split)?;
        } else {
            let made = output(Dest::New, &x, wide)?;
            kernel(&x, &made, split)?;
            out.copy_from(made.tensor())?;
        }
    }
    out.finish()
}

fn output<'a>(dest: Dest<'a>, x: &Tensor, dtype: ScalarType) -> Result<Output<'a>> {
    dest.output(New::contiguous(x.sizes(), dtype, x.device()), &[x])
}

fn logcumsumexp(dest: Dest<'_>, x: &Tensor, dim: i64) -> Result<Made> {
    let dim = dim_of(x, dim)?;
    check_out_dtype(dest, x.dtype())?;
    if !x.dtype().is_floating_point() && !x.dtype().is_complex() {
        return Err(Error::not_implemented(format!(
            "\"logcumsumexp_out_cpu\" not implemented for '{}'",
            x.dtype().c10_name()
        )));
    }
    let out = output(dest, x, x.dtype())?;
    if !out.is_meta() {
        let split = split_at(&x.sizes(), dim);
        scan::log_sums_of_exponentials(&x.to_contiguous()?, &out, split)?;
    }
    out.finish()
}

fn extrema([values, indices]: [Dest<'_>; 2], x: &Tensor, dim: i64, side: Side) -> Result<(Made, Made)> {
    let dim = dim_of(x, dim)?;
    if x.dtype().is_complex() {
        let name = if side == Side::Greatest { "cummax" } else { "cummin" };
        return Err(Error::not_implemented(format!(
            "\"{name}_helper_cpu\" not implemented for '{}'",
            x.dtype().c10_name()
        )));
    }
    check_out_dtype(values, x.dtype())?;
    check_out_dtype(indices, ScalarType::Int64)?;
    let (values, indices) = (output(values, x, x.dtype())?, output(indices, x, ScalarType::Int64)?);
    if !values.is_meta() {
        let split = split_at(&x.sizes(), dim);
        let wide = without_bools(x)?.to_contiguous()?;
        if wide.dtype() == x.dtype() {
            scan::extrema(&wide, [&values, &indices], split, side)?;
        } else {
            let made = output(Dest::New, &wide, wide.dtype())?;
            scan::extrema(&wide, [&made, &indices], split, side)?;
            values.copy_from(made.tensor())?;
        }
    }
    Ok((values.finish()?, indices.finish()?))
}
