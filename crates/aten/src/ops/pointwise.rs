//! Operators of three operands, element by element.

use c10_core::{Scalar, ScalarType};

use super::dtypes::Dtypes;
use super::forms::dtype_after;
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::cpu::pointwise as loops;
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, addcmul, (a: &Tensor, b: &Tensor, c: &Tensor, value: Scalar),
        functional "addcmul", inplace "addcmul_", out "addcmul.out");
    register_triple!(lib, addcdiv, (a: &Tensor, b: &Tensor, c: &Tensor, value: Scalar),
        functional "addcdiv", inplace "addcdiv_", out "addcdiv.out");
    register_triple!(lib, lerp_tensor, (a: &Tensor, end: &Tensor, weight: &Tensor),
        functional "lerp.Tensor", inplace "lerp_.Tensor", out "lerp.Tensor_out");
    register_triple!(lib, lerp_number, (a: &Tensor, end: &Tensor, weight: Scalar),
        functional "lerp.Scalar", inplace "lerp_.Scalar", out "lerp.Scalar_out");
    lib.cpu_meta("native_dropout_backward", |grad: &Tensor, mask: &Tensor, scale: f64| {
        dropout_backward(grad, mask, scale).map(Made::new_tensor)
    })
}

fn addcmul(dest: Dest<'_>, a: &Tensor, b: &Tensor, c: &Tensor, value: Scalar) -> Result<Made> {
    let inputs = [a.into(), b.into(), c.into()];
    Dtypes::NUMBERS_COMPLEX.check("addcmul_cpu_out", dtype_after(&inputs, Config::PROMOTE)?)?;
    let iter = TensorIter::new(&[dest], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::addcmul(&iter, value)?;
    }
    iter.finish()
}

fn addcdiv(dest: Dest<'_>, a: &Tensor, b: &Tensor, c: &Tensor, value: Scalar) -> Result<Made> {
    if b.dtype().is_integral(true) && c.dtype().is_integral(true) {
        return Err(Error::dtype(
            "Integer division with addcdiv is not supported: the quotient of two integer tensors has no one \
             rounding. Divide first, by `div_mode`, or cast one of them.",
        ));
    }
    let inputs = [a.into(), b.into(), c.into()];
    Dtypes::FLOATS_COMPLEX.check("addcdiv_cpu_out", dtype_after(&inputs, Config::PROMOTE)?)?;
    let iter = TensorIter::new(&[dest], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::addcdiv(&iter, value)?;
    }
    iter.finish()
}

fn lerp_tensor(dest: Dest<'_>, a: &Tensor, end: &Tensor, weight: &Tensor) -> Result<Made> {
    let promotes = |dtype: ScalarType| weight.rank() == 0 && c10_core::can_cast(dtype, a.dtype());
    if weight.dtype() != a.dtype() && !promotes(weight.dtype()) {
        return Err(unequal("weight", a, weight.dtype()));
    }
    lerp(dest, a, end, weight.into())
}

fn lerp_number(dest: Dest<'_>, a: &Tensor, end: &Tensor, weight: Scalar) -> Result<Made> {
    lerp(dest, a, end, weight.into())
}

fn lerp(dest: Dest<'_>, a: &Tensor, end: &Tensor, weight: Input<'_>) -> Result<Made> {
    if a.dtype() != end.dtype() {
        return Err(unequal("end", a, end.dtype()));
    }
    Dtypes::FLOATS_COMPLEX.check("lerp_kernel", a.dtype())?;
    if let Input::Number(number) = weight
        && number.is_complex()
        && !a.dtype().is_complex()
    {
        return Err(Error::dtype("value cannot be converted to a real number: the weight is complex"));
    }
    let inputs = [a.into(), end.into(), weight];
    let iter = TensorIter::new(&[dest], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::lerp(&iter)?;
    }
    iter.finish()
}

#[cold]
fn unequal(what: &str, a: &Tensor, dtype: ScalarType) -> Error {
    Error::dtype(format!("expected dtype {} for `{what}` but got dtype {}", a.dtype().name(), dtype.name()))
}

fn dropout_backward(grad: &Tensor, mask: &Tensor, scale: f64) -> Result<Made> {
    if mask.dtype() != ScalarType::Bool {
        return Err(Error::dtype(format!(
            "Mask should be Bool Scalar Type but is {}",
            mask.dtype().c10_name()
        )));
    }
    // A product with the number: integers become floats.
    let number: Input<'_> = Scalar::Double(scale).into();
    let dtype = dtype_after(&[grad.into(), number], Config::PROMOTE)?;
    Dtypes::FLOATS.and(Dtypes::ALL_COMPLEX).check("mul", dtype)?;
    let wide = grad.to_dtype(dtype)?;
    let inputs = [Input::Uncast(mask), (&wide).into()];
    let iter = TensorIter::new(&[Dest::New], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::masked_scale(&iter, scale)?;
    }
    iter.finish()
}
