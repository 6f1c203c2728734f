//! Registering one function as all the forms of an operator that its table has: functional, in place, `out=`,
//! and with a number in place of a tensor.

use std::collections::HashSet;
use std::sync::OnceLock;

use c10_core::{Scalar, ScalarType};

use super::dtypes::Dtypes;
use super::{Dest, Made, SCHEMAS};
use crate::dispatch::Library;
use crate::error::Result;
use crate::iter::promote::ResultType;
use crate::iter::{Config, Input, TensorIter};
use crate::tensor::{Tensor, default_dtype};

/// An operator that is one loop: which dtypes it takes, what it makes of them, the loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pointwise {
    pub(super) name: &'static str,
    pub(super) config: Config,
    /// The dtypes that the loop computes in, after promotion.
    pub(super) takes: Dtypes,
    pub(super) kernel: fn(&TensorIter<'_>) -> Result<()>,
}

impl Pointwise {
    /// An operator of one tensor.
    pub(super) fn unary(&self, dest: Dest<'_>, a: &Tensor) -> Result<Made> {
        self.run(dest, &[a.into()])
    }

    /// An operator of two operands.
    pub(super) fn binary(&self, dest: Dest<'_>, a: Input<'_>, b: Input<'_>) -> Result<Made> {
        self.run(dest, &[a, b])
    }

    #[inline(always)]
    fn run(&self, dest: Dest<'_>, inputs: &[Input<'_>]) -> Result<Made> {
        self.takes.check(self.name, dtype_after(inputs, self.config)?)?;
        let mut iter = TensorIter::unplanned();
        iter.plan(&[dest], inputs, self.config)?;
        if !iter.is_meta() {
            (self.kernel)(&iter)?;
        }
        iter.finish_first()
    }
}

/// The dtype that a loop over `inputs` computes in, before anything is made for it.
#[inline]
pub(super) fn dtype_after(inputs: &[Input<'_>], config: Config) -> Result<ScalarType> {
    let dtype = match inputs {
        [Input::Tensor(tensor)] => tensor.dtype(),
        // Whatever counts more, it is of the same dtype.
        [Input::Tensor(a), Input::Tensor(b)]
            if a.dtype() == b.dtype() && !a.is_wrapped_number() && !b.is_wrapped_number() =>
        {
            a.dtype()
        }
        _ => ResultType::of_inputs(inputs)?.unwrap_or(default_dtype()),
    };
    Ok(if config.integers_to_float && dtype.is_integral(true) { default_dtype() } else { dtype })
}

/// Whether the tables have the overload.
fn is_defined(name: &str) -> bool {
    static NAMES: OnceLock<HashSet<&'static str>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let name = |schema: &'static str| schema.split_once('(').map_or(schema, |(name, _)| name);
        SCHEMAS.iter().map(|line| name(line.schema).trim_start_matches("aten::")).collect()
    });
    names.contains(name)
}

/// The operators that are one loop each over one tensor.
pub(super) fn register_unary(lib: &mut Library<'_>, operators: &'static [Pointwise]) -> Result<()> {
    for operator in operators {
        unary(lib, operator.name, move |dest, a| operator.unary(dest, a))?;
    }
    Ok(())
}

/// The operators that are one loop each over two operands.
pub(super) fn register_binary(lib: &mut Library<'_>, operators: &'static [Pointwise]) -> Result<()> {
    for operator in operators {
        binary(lib, operator.name, move |dest, a, b| operator.binary(dest, a, b))?;
    }
    Ok(())
}

/// `f` as every form of the operator `name` of one tensor.
pub(super) fn unary(
    lib: &mut Library<'_>,
    name: &str,
    f: impl Fn(Dest<'_>, &Tensor) -> Result<Made> + Copy + Send + Sync + 'static,
) -> Result<()> {
    lib.cpu_meta(name, move |a: &Tensor| f(Dest::New, a).map(Made::new_tensor))?;
    let in_place = format!("{name}_");
    if is_defined(&in_place) {
        lib.cpu_meta(&in_place, move |a: &Tensor| f(Dest::InPlace(a), a).map(drop))?;
    }
    let out = format!("{name}.out");
    if is_defined(&out) {
        lib.cpu_meta(&out, move |a: &Tensor, out: &Tensor| f(Dest::Out(out), a).map(drop))?;
    }
    Ok(())
}

/// What PyTorch calls the overloads of two tensors, of a tensor and a number, and of a number and a tensor.
const TENSORS: [&str; 3] = ["", ".Tensor", ".Tensor_Tensor"];
const TENSORS_OUT: [&str; 4] = [".out", ".Tensor_out", ".Tensor_Tensor_out", ".OutTensor"];
const NUMBER_SECOND: [&str; 5] = [".Scalar", ".Tensor_Scalar", ".Scalar_Other", ".other_scalar", ".n_scalar"];
const NUMBER_SECOND_OUT: [&str; 5] =
    [".Scalar_out", ".Tensor_Scalar_out", ".OutScalar_Other", ".other_scalar_out", ".n_scalar_out"];
const NUMBER_FIRST: [&str; 4] = [".Scalar_Tensor", ".Scalar_Self", ".self_scalar", ".x_scalar"];
const NUMBER_FIRST_OUT: [&str; 4] =
    [".Scalar_Tensor_out", ".OutScalar_Self", ".self_scalar_out", ".x_scalar_out"];

/// `f` as every form of the operator `name` of two operands.
pub(super) fn binary(
    lib: &mut Library<'_>,
    name: &str,
    f: impl Fn(Dest<'_>, Input<'_>, Input<'_>) -> Result<Made> + Copy + Send + Sync + 'static,
) -> Result<()> {
    let defined = |base: &str, overloads: &[&str]| -> Vec<String> {
        overloads.iter().map(|overload| format!("{base}{overload}")).filter(|name| is_defined(name)).collect()
    };
    let in_place = format!("{name}_");
    for name in defined(name, &TENSORS) {
        lib.cpu_meta(&name, move |a: &Tensor, b: &Tensor| {
            f(Dest::New, a.into(), b.into()).map(Made::new_tensor)
        })?;
    }
    for name in defined(&in_place, &TENSORS) {
        lib.cpu_meta(&name, move |a: &Tensor, b: &Tensor| f(Dest::InPlace(a), a.into(), b.into()).map(drop))?;
    }
    for name in defined(name, &TENSORS_OUT) {
        lib.cpu_meta(&name, move |a: &Tensor, b: &Tensor, out: &Tensor| {
            f(Dest::Out(out), a.into(), b.into()).map(drop)
        })?;
    }
    for name in defined(name, &NUMBER_SECOND) {
        lib.cpu_meta(&name, move |a: &Tensor, b: Scalar| {
            f(Dest::New, a.into(), b.into()).map(Made::new_tensor)
        })?;
    }
    for name in defined(&in_place, &NUMBER_SECOND) {
        lib.cpu_meta(&name, move |a: &Tensor, b: Scalar| f(Dest::InPlace(a), a.into(), b.into()).map(drop))?;
    }
    for name in defined(name, &NUMBER_SECOND_OUT) {
        lib.cpu_meta(&name, move |a: &Tensor, b: Scalar, out: &Tensor| {
            f(Dest::Out(out), a.into(), b.into()).map(drop)
        })?;
    }
    for name in defined(name, &NUMBER_FIRST) {
        lib.cpu_meta(&name, move |a: Scalar, b: &Tensor| {
            f(Dest::New, a.into(), b.into()).map(Made::new_tensor)
        })?;
    }
    for name in defined(name, &NUMBER_FIRST_OUT) {
        lib.cpu_meta(&name, move |a: Scalar, b: &Tensor, out: &Tensor| {
            f(Dest::Out(out), a.into(), b.into()).map(drop)
        })?;
    }
    Ok(())
}
