//! Views that a tensor becomes itself. The elements stay where they are; only their places in the tensor
//! change, under its geometry lock.

use crate::dispatch::Library;
use crate::error::Result;
use crate::tensor::Tensor;
use crate::view::Strided;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("transpose_", |x: &Tensor, dim0: i64, dim1: i64| -> Result<()> {
        Strided::change(x, |place| place.transpose(dim0, dim1))
    })?;
    for name in ["swapaxes_", "swapdims_"] {
        lib.composite(name, |x: &Tensor, dim0: i64, dim1: i64| x.transpose_(dim0, dim1).map(drop))?;
    }
    lib.all_backends("t_", |x: &Tensor| -> Result<()> { Strided::change(x, Strided::t) })?;
    lib.all_backends("squeeze_", |x: &Tensor| -> Result<()> {
        Strided::change(x, |place| {
            place.squeeze();
            Ok(())
        })
    })?;
    lib.all_backends("squeeze_.dim", |x: &Tensor, dim: i64| -> Result<()> {
        Strided::change(x, |place| place.squeeze_dims(&[dim]))
    })?;
    lib.all_backends("squeeze_.dims", |x: &Tensor, dims: &[i64]| -> Result<()> {
        Strided::change(x, |place| place.squeeze_dims(dims))
    })?;
    lib.all_backends("unsqueeze_", |x: &Tensor, dim: i64| -> Result<()> {
        Strided::change(x, |place| place.unsqueeze(dim))
    })?;
    lib.all_backends(
        "as_strided_",
        |x: &Tensor, size: &[i64], stride: &[i64], offset: Option<i64>| -> Result<()> {
            Strided::change(x, |place| place.restrided(size, stride, offset))
        },
    )?;
    lib.all_backends("detach_", |_: &Tensor| -> Result<()> { Ok(()) })
}
