//! Other sizes, or another storage, for a tensor that is there.

use c10_core::MemoryFormat;

use crate::dispatch::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::shape;
use crate::tensor::{Dims, Geometry, New, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("resize_", resize)?;
    lib.all_backends("resize_as_", |x: &Tensor, template: &Tensor, format: Option<MemoryFormat>| {
        let format = match format {
            Some(MemoryFormat::Preserve) => Some(template.suggest_memory_format()),
            other => other,
        };
        resize(x, &template.sizes(), format)
    })?;
    lib.all_backends("set_", |x: &Tensor| -> Result<()> {
        let empty = New::contiguous([0], x.dtype(), x.device()).make()?;
        set(x, &empty, &empty.geometry())
    })?;
    lib.all_backends("set_.source_Tensor", |x: &Tensor, source: &Tensor| -> Result<()> {
        set(x, source, &source.geometry())
    })?;
    lib.all_backends(
        "set_.source_Tensor_storage_offset",
        |x: &Tensor, source: &Tensor, offset: i64, size: &[i64], stride: &[i64]| -> Result<()> {
            if !source.is_contiguous() {
                return Err(Error::invalid_argument(
                    "passed in tensor to be used as storage must be contiguous",
                ));
            }
            let strides =
                if stride.is_empty() { shape::contiguous_strides(size)? } else { Dims::from(stride) };
            let sizes = Dims::from(size);
            set(x, source, &Geometry::new(source.storage(), sizes, strides, offset, x.dtype())?)
        },
    )
}

fn resize(x: &Tensor, size: &[i64], format: Option<MemoryFormat>) -> Result<()> {
    if x.is_recorded() {
        return Err(Error::invalid_argument("cannot resize variables that require grad"));
    }
    let strides = match format {
        Some(MemoryFormat::Preserve) => {
            return Err(Error::invalid_argument("Unsupported memory format Preserve"));
        }
        Some(format) => shape::strides_of_format(size, format)?,
        // Sizes that stay keep their strides.
        None if x.sizes() == *size => return Ok(()),
        None => {
            c10_core::bytes::numel(size)?;
            shape::contiguous_strides(size)?
        }
    };
    x.resize_geometry(Dims::from(size), strides)?;
    x.geometry().storage.bump_version();
    Ok(())
}

/// Gives `x` a geometry on the storage of `source`.
fn set(x: &Tensor, source: &Tensor, geometry: &Geometry) -> Result<()> {
    if source.dtype() != x.dtype() {
        return Err(Error::dtype(format!(
            "Could not set tensor of type {} to a tensor of type {}",
            source.dtype().name(),
            x.dtype().name()
        )));
    }
    if source.device() != x.device() {
        return Err(Error::new(
            ErrorKind::Device,
            format!(
                "Attempted to set the storage of a tensor on device \"{}\" to a storage on different device \"{}\".  \
                 This is no longer allowed; the devices must match.",
                x.device(),
                source.device()
            ),
        ));
    }
    x.as_impl().change_geometry(|_| Ok(geometry.clone()))?;
    x.geometry().storage.bump_version();
    Ok(())
}
