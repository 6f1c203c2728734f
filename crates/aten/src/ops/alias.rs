//! Operators that are others by another name, or made of others.

use c10_core::{Scalar, ScalarType};

use super::handles;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Registers overloads as calls of the handles of others.
macro_rules! aliases {
    ($lib:ident, $args:tt, $($name:literal => $handle:ident),* $(,)?) => {$(
        aliases!(@one $lib, $args, $name, $handle);
    )*};
    (@one $lib:ident, ($($arg:ident: $type:ty),*), $name:literal, $handle:ident) => {
        $lib.composite($name, |$($arg: $type),*| handles::$handle.call($($arg),*))?;
    };
}

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    aliases!(lib, (a: &Tensor, b: &Tensor),
        "divide.Tensor" => DIV_TENSOR, "divide_.Tensor" => DIV__TENSOR, "true_divide.Tensor" => DIV_TENSOR,
        "true_divide_.Tensor" => DIV__TENSOR, "multiply.Tensor" => MUL_TENSOR, "multiply_.Tensor" => MUL__TENSOR);
    aliases!(lib, (a: &Tensor, b: &Tensor, out: &Tensor),
        "divide.out" => DIV_OUT, "true_divide.out" => DIV_OUT, "multiply.out" => MUL_OUT);
    aliases!(lib, (a: &Tensor, b: Scalar),
        "divide.Scalar" => DIV_SCALAR, "divide_.Scalar" => DIV__SCALAR, "true_divide.Scalar" => DIV_SCALAR,
        "true_divide_.Scalar" => DIV__SCALAR, "multiply.Scalar" => MUL_SCALAR, "multiply_.Scalar" => MUL__SCALAR);
    aliases!(lib, (a: &Tensor, b: &Tensor, mode: Option<&str>),
        "divide.Tensor_mode" => DIV_TENSOR_MODE, "divide_.Tensor_mode" => DIV__TENSOR_MODE);
    aliases!(lib, (a: &Tensor, b: &Tensor, mode: Option<&str>, out: &Tensor), "divide.out_mode" => DIV_OUT_MODE);
    aliases!(lib, (a: &Tensor, b: Scalar, mode: Option<&str>),
        "divide.Scalar_mode" => DIV_SCALAR_MODE, "divide_.Scalar_mode" => DIV__SCALAR_MODE);
    aliases!(lib, (a: &Tensor, b: &Tensor, alpha: Scalar),
        "subtract.Tensor" => SUB_TENSOR, "subtract_.Tensor" => SUB__TENSOR);
    aliases!(lib, (a: &Tensor, b: &Tensor, alpha: Scalar, out: &Tensor), "subtract.out" => SUB_OUT);
    aliases!(lib, (a: &Tensor, b: Scalar, alpha: Scalar),
        "subtract.Scalar" => SUB_SCALAR, "subtract_.Scalar" => SUB__SCALAR);
    aliases!(lib, (n: i64, a: &Tensor), "special_polygamma" => POLYGAMMA);
    aliases!(lib, (n: i64, a: &Tensor, out: &Tensor), "special_polygamma.out" => POLYGAMMA_OUT);
    register_made_of_others(lib)
}

fn register_made_of_others(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("ldexp.Tensor", |a: &Tensor, b: &Tensor| a.mul(&power_of_two(b)?))?;
    lib.composite("ldexp_", |a: &Tensor, b: &Tensor| a.mul_(&power_of_two(b)?).map(drop))?;
    lib.composite("ldexp.out", |a: &Tensor, b: &Tensor, out: &Tensor| {
        handles::MUL_OUT.call(a, &power_of_two(b)?, out)
    })?;
    lib.composite("special_ndtr", ndtr)?;
    lib.composite("special_ndtr.out", |a: &Tensor, out: &Tensor| {
        let scaled = a.mul_scalar(std::f64::consts::FRAC_1_SQRT_2)?.neg()?.erfc()?;
        handles::MUL_OUT.call(&scaled, &Tensor::wrapped_number(0.5.into())?, out)
    })?;
    register_float_power(lib)?;
    lib.composite("isclose", isclose)?;
    lib.composite("isreal", |a: &Tensor| {
        if a.dtype().is_complex() { a.imag()?.eq_scalar(0) } else { a.eq(a)?.logical_or(&a.ne(a)?) }
    })?;
    lib.composite("prelu", prelu)
}

fn power_of_two(exponent: &Tensor) -> Result<Tensor> {
    handles::POW_SCALAR.call(Scalar::Double(2.0), exponent)
}

fn ndtr(a: &Tensor) -> Result<Tensor> {
    a.mul_scalar(std::f64::consts::FRAC_1_SQRT_2)?.neg()?.erfc()?.mul_scalar(0.5)
}

fn register_float_power(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("float_power.Tensor_Tensor", |a: &Tensor, b: &Tensor| {
        let dtype = wide(a.dtype().is_complex() || b.dtype().is_complex());
        cast(a, dtype)?.pow(&cast(b, dtype)?)
    })?;
    lib.composite("float_power.Tensor_Tensor_out", |a: &Tensor, b: &Tensor, out: &Tensor| {
        let dtype = wide(a.dtype().is_complex() || b.dtype().is_complex());
        check_is(out, dtype, "output")?;
        handles::POW_TENSOR_TENSOR_OUT.call(&cast(a, dtype)?, &cast(b, dtype)?, out)
    })?;
    lib.composite("float_power_.Tensor", |a: &Tensor, b: &Tensor| {
        let dtype = wide(a.dtype().is_complex() || b.dtype().is_complex());
        check_is(a, dtype, "base")?;
        handles::POW__TENSOR.call(a, &cast(b, dtype)?)
    })?;
    lib.composite("float_power.Tensor_Scalar", |a: &Tensor, b: Scalar| {
        let dtype = wide(a.dtype().is_complex() || b.is_complex());
        handles::POW_TENSOR_SCALAR.call(&cast(a, dtype)?, number_of(b)?)
    })?;
    lib.composite("float_power.Tensor_Scalar_out", |a: &Tensor, b: Scalar, out: &Tensor| {
        let dtype = wide(a.dtype().is_complex() || b.is_complex());
        check_is(out, dtype, "output")?;
        handles::POW_TENSOR_SCALAR_OUT.call(&cast(a, dtype)?, number_of(b)?, out)
    })?;
    lib.composite("float_power_.Scalar", |a: &Tensor, b: Scalar| {
        check_is(a, wide(a.dtype().is_complex() || b.is_complex()), "base")?;
        handles::POW__SCALAR.call(a, number_of(b)?)
    })?;
    lib.composite("float_power.Scalar", |a: Scalar, b: &Tensor| {
        let dtype = wide(a.is_complex() || b.dtype().is_complex());
        handles::POW_SCALAR.call(number_of(a)?, &cast(b, dtype)?)
    })?;
    lib.composite("float_power.Scalar_out", |a: Scalar, b: &Tensor, out: &Tensor| {
        let dtype = wide(a.is_complex() || b.dtype().is_complex());
        check_is(out, dtype, "output")?;
        handles::POW_SCALAR_OUT.call(number_of(a)?, &cast(b, dtype)?, out)
    })
}

fn wide(complex: bool) -> ScalarType {
    if complex { ScalarType::Complex128 } else { ScalarType::Float64 }
}

fn cast(a: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    handles::TO_DTYPE.call(a, dtype, false, false, None)
}

/// The number as a float or a complex number.
fn number_of(number: Scalar) -> Result<Scalar> {
    Ok(match number {
        Scalar::Complex(number) => Scalar::Complex(number),
        number => Scalar::Double(number.to::<f64>()?),
    })
}

fn check_is(tensor: &Tensor, dtype: ScalarType, what: &str) -> Result<()> {
    if tensor.dtype() == dtype {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "the {what} given to float_power has dtype {} but the operation's result requires dtype {}",
        tensor.dtype().name(),
        dtype.name()
    )))
}

fn isclose(a: &Tensor, b: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Tensor> {
    if a.dtype() != b.dtype() {
        return Err(Error::dtype(format!("{} did not match {}", a.dtype().c10_name(), b.dtype().c10_name())));
    }
    if rtol < 0.0 || atol < 0.0 {
        return Err(Error::invalid_argument(format!(
            "rtol and atol must be greater than or equal to zero, but are {rtol} and {atol}"
        )));
    }
    let mut close = a.eq(b)?;
    let real = a.dtype().is_floating_point();
    if equal_nan && (real || a.dtype().is_complex()) {
        close = close.logical_or(&a.isnan()?.logical_and(&b.isnan()?)?)?;
    }
    if rtol == 0.0 && atol == 0.0 {
        return Ok(close);
    }
    // Integers are compared as floats.
    let (a, b) = if a.dtype().is_integral(true) {
        (cast(a, crate::tensor::default_dtype())?, cast(b, crate::tensor::default_dtype())?)
    } else {
        (a.clone(), b.clone())
    };
    let allowed = b.abs()?.mul_scalar(rtol)?.add_scalar(atol)?;
    let apart = a.sub(&b)?.abs()?;
    close.logical_or(&apart.isfinite()?.logical_and(&apart.le(&allowed)?)?)
}

fn prelu(a: &Tensor, weight: &Tensor) -> Result<Tensor> {
    if a.dtype() != weight.dtype() {
        return Err(Error::dtype(format!(
            "prelu: Type promoting not supported. Got {} and {}",
            a.dtype().name(),
            weight.dtype().name()
        )));
    }
    let (rank, count) = (a.rank(), weight.numel());
    if count != 1 {
        if rank == 0 {
            return Err(Error::shape("Not allow zero-dim input tensor."));
        }
        let channels = if rank > 1 { a.sizes()[1] } else { 1 };
        if channels != count {
            return Err(Error::shape(format!(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and \
                 channel size = {channels}."
            )));
        }
    }
    if weight.rank() > 1 {
        return Err(Error::shape(format!(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
            weight.rank()
        )));
    }
    let mut sizes = vec![1; rank];
    if rank > 1 {
        sizes[1] = count;
    } else if rank == 1 {
        sizes[0] = count;
    }
    handles::_PRELU_KERNEL.call(a, &weight.reshape(&sizes)?)
}
