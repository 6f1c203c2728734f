//! `to`: the tensor itself where it is already what is asked for, else a copy that is.

use c10_core::{Device, Layout, MemoryFormat, ScalarType};

use super::copy::{converted, converted_out};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::{_ToCopyOptions, Tensor, TensorOptions};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("_to_copy", to_copy)?;
    lib.all_backends(
        "_to_copy.out",
        |x: &Tensor, _non_blocking: bool, _format: Option<MemoryFormat>, out: &Tensor| converted_out(x, out),
    )?;
    lib.composite("to.dtype_layout", to_options)?;
    lib.composite(
        "to.dtype",
        |x: &Tensor, dtype: ScalarType, non_blocking: bool, copy: bool, format: Option<MemoryFormat>| {
            to(x, dtype.into(), Wanted { non_blocking, copy, format })
        },
    )?;
    lib.composite(
        "to.device",
        |x: &Tensor,
         device: Device,
         dtype: ScalarType,
         non_blocking: bool,
         copy: bool,
         format: Option<MemoryFormat>| {
            to(x, (dtype, device).into(), Wanted { non_blocking, copy, format })
        },
    )?;
    lib.composite(
        "to.other",
        |x: &Tensor, other: &Tensor, non_blocking: bool, copy: bool, format: Option<MemoryFormat>| {
            to(x, (other.dtype(), other.device()).into(), Wanted { non_blocking, copy, format })
        },
    )?;
    lib.composite(
        "to.prim_dtype",
        |x: &Tensor, dtype: Option<i64>, non_blocking: bool, copy: bool| -> Result<Tensor> {
            let options = TensorOptions::default().dtype(dtype.map(dtype_of_number).transpose()?);
            to(x, options, Wanted { non_blocking, copy, format: None })
        },
    )?;
    lib.composite("type_as", |x: &Tensor, other: &Tensor| x.to((other.dtype(), other.device())))
}

/// What is asked for beside dtype and device.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
}

#[allow(clippy::too_many_arguments, reason = "they are the schema's")]
fn to_options(
    x: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    copy: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let options = TensorOptions { dtype, layout, device, pin_memory, memory_format: None };
    to(x, options, Wanted { non_blocking, copy, format })
}

fn to(x: &Tensor, options: TensorOptions, wanted: Wanted) -> Result<Tensor> {
    check_layout(options.layout)?;
    let is_there = options.dtype.is_none_or(|dtype| dtype == x.dtype())
        && options.device.is_none_or(|device| is_on(x, device))
        && wanted
            .format
            .is_none_or(|format| format == MemoryFormat::Preserve || format == x.suggest_memory_format());
    if is_there && !wanted.copy {
        return Ok(x.clone());
    }
    let copy = _ToCopyOptions { non_blocking: wanted.non_blocking, memory_format: wanted.format };
    x._to_copy_with(copy, options)
}

fn dtype_of_number(number: i64) -> Result<ScalarType> {
    let dtype = i8::try_from(number).ok().and_then(ScalarType::from_number);
    dtype.ok_or_else(|| Error::dtype(format!("{number} is the number of no dtype")))
}

/// A device without index is whichever of its type the tensor is on.
fn is_on(x: &Tensor, device: Device) -> bool {
    let own = x.device();
    own == device || (device.index().is_none() && own.device_type() == device.device_type())
}

fn check_layout(layout: Option<Layout>) -> Result<()> {
    match layout {
        None | Some(Layout::Strided) => Ok(()),
        Some(layout) => Err(Error::not_implemented(format!("tensors of layout {layout}"))),
    }
}

fn to_copy(
    x: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    _non_blocking: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_layout(layout)?;
    converted(x, dtype.unwrap_or(x.dtype()), device.unwrap_or(x.device()), format)
}
