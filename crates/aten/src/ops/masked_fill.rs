//! One number where a mask is true.

use c10_core::{Scalar, ScalarType};

use super::dtypes::Dtypes;
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::cpu::pointwise as loops;
use crate::shape;
use crate::tensor::{New, Tensor};

const TAKES: Dtypes = Dtypes::REAL.and(Dtypes::ALL_COMPLEX);

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, fill_number, (a: &Tensor, mask: &Tensor, value: Scalar),
        functional "masked_fill.Scalar", inplace "masked_fill_.Scalar");
    register_triple!(lib, fill_tensor, (a: &Tensor, mask: &Tensor, value: &Tensor),
        functional "masked_fill.Tensor", inplace "masked_fill_.Tensor");
    Ok(())
}

fn fill_tensor(dest: Dest<'_>, a: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Made> {
    if value.rank() != 0 {
        return Err(Error::shape(format!(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            value.rank()
        )));
    }
    let value = if value.is_meta() { Scalar::Int(0) } else { value.item()? };
    fill_number(dest, a, mask, value)
}

fn fill_number(dest: Dest<'_>, a: &Tensor, mask: &Tensor, value: Scalar) -> Result<Made> {
    if mask.dtype() != ScalarType::Bool {
        return Err(Error::dtype(format!(
            "masked_fill_ only supports boolean masks, but got mask with dtype {}",
            mask.dtype().name()
        )));
    }
    TAKES.check("masked_fill", a.dtype())?;
    let value = converted(value, a.dtype())?;
    if matches!(dest, Dest::New) {
        // The result is contiguous whatever the strides of the tensor.
        let sizes = shape::broadcast(&a.sizes(), &mask.sizes())?;
        let made = New::contiguous(sizes, a.dtype(), a.device()).make()?;
        fill(Dest::Out(&made), a, mask, value)?;
        return Ok(Made::new(made));
    }
    fill(dest, a, mask, value)
}

fn fill(dest: Dest<'_>, a: &Tensor, mask: &Tensor, value: Scalar) -> Result<Made> {
    let inputs = [Input::Uncast(mask), value.into(), a.into()];
    let iter = TensorIter::new(&[dest], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::choose(&iter)?;
    }
    iter.finish()
}

/// The number as one of the dtype's own kind, so that it says nothing in promotion; it must fit.
fn converted(value: Scalar, dtype: ScalarType) -> Result<Scalar> {
    use c10_core::{Complex, bf16, f16};
    dispatch!(
        dtype,
        "masked_fill",
        [bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>],
        T => value.to::<T>().map(Scalar::from).map_err(Error::from)
    )
}
