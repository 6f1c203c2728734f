//! Tensors out of nothing, or in the likeness of others: `empty`, `full`, `zeros`, `ones` and kin.

use c10_core::{Device, Layout, MemoryFormat, Scalar, ScalarType};

use super::new_options::{Options, check_value, checked_sizes, fill_fresh};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::{cpu, hooked};
use crate::shape;
use crate::tensor::{Dims, New, Tensor, default_dtype};

type Dtype = Option<ScalarType>;
type Lay = Option<Layout>;
type Dev = Option<Device>;
type Pin = Option<bool>;
type Format = Option<MemoryFormat>;

/// Gathers the arguments of a row into [`Options`].
macro_rules! options {
    ($dtype:ident, $layout:ident, $device:ident, $pin_memory:ident) => {
        Options { dtype: $dtype, layout: $layout, device: $device, pin_memory: $pin_memory }
    };
}
pub(super) use options;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_empty(lib)?;
    register_filled(lib)?;
    register_fill(lib)
}

fn register_empty(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends(
        "empty.memory_format",
        |size: &[i64], dtype: Dtype, layout: Lay, device: Dev, pin: Pin, format: Format| {
            let options = options!(dtype, layout, device, pin);
            match format {
                None | Some(MemoryFormat::Contiguous) => options.empty(size),
                Some(format) => empty_in(format, size, options),
            }
        },
    )?;
    lib.all_backends("empty.out", |size: &[i64], format: Format, out: &Tensor| {
        let sizes = checked_sizes(size)?;
        let strides = shape::strides_of_format(&sizes, format.unwrap_or(MemoryFormat::Contiguous))?;
        if out.sizes() == sizes && format.is_none() {
            return Ok(());
        }
        out.resize_for_output(&sizes, &strides)
    })?;
    lib.all_backends(
        "empty_like",
        |this: &Tensor, dtype: Dtype, layout: Lay, device: Dev, pin: Pin, format: Format| {
            options!(dtype, layout, device, pin).empty_like(this, format)
        },
    )?;
    lib.all_backends(
        "empty_strided",
        |size: &[i64], stride: &[i64], dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            let (dtype, device) = options!(dtype, layout, device, pin).or_default()?;
            strided(size, stride, dtype, device)
        },
    )?;
    lib.all_backends("empty_permuted", empty_permuted)?;
    lib.all_backends(
        "new_empty",
        |this: &Tensor, size: &[i64], dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            let (dtype, device) = options!(dtype, layout, device, pin).or_of(this)?;
            New::contiguous(checked_sizes(size)?, dtype, device).make()
        },
    )?;
    lib.all_backends(
        "new_empty_strided",
        |this: &Tensor, size: &[i64], stride: &[i64], dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            let (dtype, device) = options!(dtype, layout, device, pin).or_of(this)?;
            strided(size, stride, dtype, device)
        },
    )
}

fn register_filled(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends(
        "full",
        |size: &[i64], value: Scalar, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            let dtype = dtype.or(Some(dtype_of(value)?));
            filled(options!(dtype, layout, device, pin).empty(size)?, value)
        },
    )?;
    lib.all_backends("scalar_tensor", |value: Scalar, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
        filled(options!(dtype, layout, device, pin).empty(&[])?, value)
    })?;
    lib.all_backends(
        "full_like",
        |this: &Tensor, value: Scalar, dtype: Dtype, layout: Lay, device: Dev, pin: Pin, format: Format| {
            filled(options!(dtype, layout, device, pin).empty_like(this, format)?, value)
        },
    )?;
    lib.all_backends(
        "new_full",
        |this: &Tensor, size: &[i64], value: Scalar, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            new_filled(this, size, options!(dtype, layout, device, pin), value)
        },
    )?;
    lib.all_backends("full.out", |size: &[i64], value: Scalar, out: &Tensor| fill_out(size, value, out))?;
    macro_rules! constant {
        ($value:literal, $plain:literal, $like:literal, $new:literal, $out:literal) => {
            lib.all_backends($plain, |size: &[i64], dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
                filled(options!(dtype, layout, device, pin).empty(size)?, Scalar::from($value))
            })?;
            lib.all_backends(
                $like,
                |this: &Tensor, dtype: Dtype, layout: Lay, device: Dev, pin: Pin, format: Format| {
                    filled(
                        options!(dtype, layout, device, pin).empty_like(this, format)?,
                        Scalar::from($value),
                    )
                },
            )?;
            lib.all_backends(
                $new,
                |this: &Tensor, size: &[i64], dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
                    new_filled(this, size, options!(dtype, layout, device, pin), Scalar::from($value))
                },
            )?;
            lib.all_backends($out, |size: &[i64], out: &Tensor| fill_out(size, Scalar::from($value), out))?;
        };
    }
    constant!(0, "zeros", "zeros_like", "new_zeros", "zeros.out");
    constant!(1, "ones", "ones_like", "new_ones", "ones.out");
    Ok(())
}

fn register_fill(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, fill_scalar, (this: &Tensor, value: Scalar),
        functional "fill.Scalar", inplace "fill_.Scalar", out "fill.Scalar_out");
    register_triple!(lib, fill_tensor, (this: &Tensor, value: &Tensor),
        functional "fill.Tensor", inplace "fill_.Tensor", out "fill.Tensor_out");
    register_triple!(lib, zero, (this: &Tensor), functional "zero", inplace "zero_", out "zero.out");
    // Devices that have no kernel of their own are filled from the host.
    lib.all_backends("fill_.Scalar", |this: &Tensor, value: Scalar| {
        fill_scalar(Dest::InPlace(this), this, value).map(drop)
    })?;
    lib.all_backends("fill_.Tensor", |this: &Tensor, value: &Tensor| {
        fill_tensor(Dest::InPlace(this), this, value).map(drop)
    })?;
    lib.all_backends("zero_", |this: &Tensor| zero(Dest::InPlace(this), this).map(drop))?;
    Ok(())
}

#[cold]
fn empty_in(format: MemoryFormat, sizes: &[i64], options: Options) -> Result<Tensor> {
    let (dtype, device) = options.or_default()?;
    let sizes = checked_sizes(sizes)?;
    let strides = shape::strides_of_format(&sizes, format)?;
    New::strided(sizes, strides, dtype, device).make()
}

fn strided(sizes: &[i64], strides: &[i64], dtype: ScalarType, device: Device) -> Result<Tensor> {
    if sizes.len() != strides.len() {
        return Err(Error::shape(format!(
            "mismatch in length of strides and shape: {strides:?} and {sizes:?}"
        )));
    }
    if strides.iter().any(|&stride| stride < 0) {
        return Err(Error::shape(format!("strides must not be negative: {strides:?}")));
    }
    New::strided(checked_sizes(sizes)?, Dims::from(strides), dtype, device).make()
}

/// Dense, with the dimensions in an order in memory, outermost first.
fn empty_permuted(
    size: &[i64],
    physical_layout: &[i64],
    dtype: Dtype,
    layout: Lay,
    device: Dev,
    pin: Pin,
) -> Result<Tensor> {
    let (dtype, device) = options!(dtype, layout, device, pin).or_default()?;
    let sizes = checked_sizes(size)?;
    if physical_layout.len() != sizes.len() {
        return Err(Error::shape(format!(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {} is \
             not equal to len(physical_layout) = {}",
            sizes.len(),
            physical_layout.len()
        )));
    }
    let physical_sizes: Dims = physical_layout
        .iter()
        .map(|&dim| sizes.get(usize::try_from(dim).unwrap_or(usize::MAX)).copied())
        .collect::<Option<Dims>>()
        .ok_or_else(|| {
            Error::index(format!("Dimension out of range in physical_layout {physical_layout:?}"))
        })?;
    shape::wrap_dims(physical_layout, sizes.len())?;
    let physical_strides = shape::contiguous_strides(&physical_sizes)?;
    let mut strides = Dims::filled(0, sizes.len());
    for (&dim, &stride) in physical_layout.iter().zip(&physical_strides) {
        strides[dim as usize] = stride;
    }
    New::strided(sizes, strides, dtype, device).make()
}

/// The dtype of a tensor filled with a number, where none is given.
fn dtype_of(value: Scalar) -> Result<ScalarType> {
    Ok(match value {
        Scalar::Bool(_) => ScalarType::Bool,
        Scalar::Int(_) | Scalar::UInt(_) => ScalarType::Int64,
        Scalar::Double(_) => default_dtype(),
        Scalar::Complex(_) => default_dtype().to_complex()?,
    })
}

fn filled(mut tensor: Tensor, value: Scalar) -> Result<Tensor> {
    // Zero is the same bytes in every dtype, and nobody else has them yet.
    if matches!(value, Scalar::Int(0))
        && let Some(bytes) = tensor.unique_bytes()
    {
        bytes.fill(0);
        return Ok(tensor);
    }
    fill_fresh(&tensor, value)?;
    Ok(tensor)
}

fn new_filled(like: &Tensor, sizes: &[i64], options: Options, value: Scalar) -> Result<Tensor> {
    let (dtype, device) = options.or_of(like)?;
    filled(New::contiguous(checked_sizes(sizes)?, dtype, device).make()?, value)
}

fn fill_out(sizes: &[i64], value: Scalar, out: &Tensor) -> Result<()> {
    let sizes = checked_sizes(sizes)?;
    if out.sizes() != sizes {
        out.resize_for_output(&sizes, &shape::contiguous_strides(&sizes)?)?;
    }
    super::handles::FILL__SCALAR.call(out, value)
}

fn fill_scalar(dest: Dest<'_>, this: &Tensor, value: Scalar) -> Result<Made> {
    fill(dest, this, value)
}

fn fill_tensor(dest: Dest<'_>, this: &Tensor, value: &Tensor) -> Result<Made> {
    if value.rank() != 0 {
        return Err(Error::shape(format!(
            "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
            value.rank()
        )));
    }
    let value = if value.is_meta() { Scalar::from(0) } else { value.item()? };
    fill(dest, this, value)
}

fn zero(dest: Dest<'_>, this: &Tensor) -> Result<Made> {
    fill(dest, this, Scalar::from(0))
}

fn fill(dest: Dest<'_>, this: &Tensor, value: Scalar) -> Result<Made> {
    check_value(value, dest.given().unwrap_or(this).dtype())?;
    if let Dest::InPlace(this) = dest {
        if !this.device().is_cpu() && !this.is_meta() {
            hooked::write_through_host(this, |staged| fill(Dest::InPlace(staged), staged, value).map(drop))?;
            return Ok(Made::written());
        }
        let iter = TensorIter::new(&[Dest::InPlace(this)], &[Input::Number(value)], Config::OWN_DTYPES)?;
        if !iter.is_meta() {
            cpu::copy::convert(&iter)?;
        }
        return iter.finish();
    }
    let strides = this.dense_strides()?;
    let out = dest.output(New::strided(this.sizes(), strides, this.dtype(), this.device()), &[])?;
    fill_fresh(out.tensor(), value)?;
    out.finish()
}
