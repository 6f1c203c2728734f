//! Functions of one number, element by element.

use c10_core::ScalarType;

use super::dtypes::Dtypes;
use super::forms::{self, Pointwise};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::Result;
use crate::iter::{Config, TensorIter};
use crate::kernels::cpu::{special, unary as loops};
use crate::tensor::Tensor;

/// Operators that compute integers as floats.
macro_rules! functions {
    ($($takes:ident: $($module:ident::$loop_:ident $name:literal),*;)*) => {
        &[$($(Pointwise {
            name: $name,
            config: Config::FLOAT,
            takes: Dtypes::$takes,
            kernel: $module::$loop_,
        }),*),*]
    };
}

const FUNCTIONS: &[Pointwise] = functions! {
    FLOATS_COMPLEX:
        loops::sqrt "sqrt", loops::rsqrt "rsqrt", loops::reciprocal "reciprocal", loops::exp "exp",
        loops::exp2 "exp2", loops::expm1 "expm1", loops::log "log", loops::log2 "log2", loops::log10 "log10",
        loops::log1p "log1p", loops::sin "sin", loops::cos "cos", loops::tan "tan", loops::sinh "sinh",
        loops::cosh "cosh", loops::tanh "tanh", loops::asin "asin", loops::acos "acos", loops::atan "atan",
        loops::asinh "asinh", loops::acosh "acosh", loops::atanh "atanh", loops::sigmoid "sigmoid",
        loops::sinc "sinc";
    FLOATS:
        loops::erf "erf", loops::erfc "erfc", loops::erfinv "erfinv", loops::lgamma "lgamma",
        loops::digamma "digamma", loops::i0 "i0", loops::deg2rad "deg2rad", loops::rad2deg "rad2deg",
        special::entr "special_entr", special::i0e "special_i0e", special::i1 "special_i1",
        special::i1e "special_i1e";
    WIDE_FLOATS:
        special::erfcx "special_erfcx", special::ndtri "special_ndtri", special::log_ndtr "special_log_ndtr",
        special::j0 "special_bessel_j0", special::j1 "special_bessel_j1", special::y0 "special_bessel_y0",
        special::y1 "special_bessel_y1", special::i0 "special_modified_bessel_i0",
        special::i1 "special_modified_bessel_i1", special::k0 "special_modified_bessel_k0",
        special::k1 "special_modified_bessel_k1", special::k0e "special_scaled_modified_bessel_k0",
        special::k1e "special_scaled_modified_bessel_k1", special::spherical_j0 "special_spherical_bessel_j0",
        special::airy_ai "special_airy_ai";
};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    forms::register_unary(lib, FUNCTIONS)?;
    forms::unary(lib, "square", square)?;
    forms::unary(lib, "angle", angle)?;
    register_triple!(lib, logit, (a: &Tensor, eps: Option<f64>),
        functional "logit", inplace "logit_", out "logit.out");
    lib.cpu_meta("polygamma", |n: i64, a: &Tensor| polygamma(Dest::New, a, n).map(Made::new_tensor))?;
    lib.cpu_meta("polygamma_", |a: &Tensor, n: i64| polygamma(Dest::InPlace(a), a, n).map(drop))?;
    lib.cpu_meta("polygamma.out", |n: i64, a: &Tensor, out: &Tensor| {
        polygamma(Dest::Out(out), a, n).map(drop)
    })?;
    register_triple!(lib, mvlgamma, (a: &Tensor, p: i64),
        functional "mvlgamma", inplace "mvlgamma_", out "mvlgamma.out");
    Ok(())
}

fn square(dest: Dest<'_>, a: &Tensor) -> Result<Made> {
    let takes = Dtypes::NUMBERS.and(Dtypes::COMPLEX);
    if a.dtype() == ScalarType::Bool {
        // As `pow` has it: a power of bools is one of integers.
        let wide = a.to_dtype(ScalarType::Int64)?;
        return Pointwise { name: "pow", config: Config::PROMOTE, takes, kernel: loops::square }
            .unary(dest, &wide);
    }
    Pointwise { name: "pow", config: Config::PROMOTE, takes, kernel: loops::square }.unary(dest, a)
}

fn angle(dest: Dest<'_>, a: &Tensor) -> Result<Made> {
    let config = match a.dtype() {
        dtype if dtype.is_complex() => Config::PROMOTE.with_output_dtype(dtype.to_real()),
        _ => Config::FLOAT,
    };
    Pointwise { name: "angle", config, takes: Dtypes::FLOATS_COMPLEX, kernel: loops::angle }.unary(dest, a)
}

fn logit(dest: Dest<'_>, a: &Tensor, eps: Option<f64>) -> Result<Made> {
    Dtypes::FLOATS.check("logit", forms::dtype_after(&[a.into()], Config::FLOAT)?)?;
    let iter = TensorIter::unary(dest, a, Config::FLOAT)?;
    if !iter.is_meta() {
        loops::logit(&iter, eps.filter(|&eps| eps >= 0.0))?;
    }
    iter.finish()
}

fn polygamma(dest: Dest<'_>, a: &Tensor, n: i64) -> Result<Made> {
    if n < 0 {
        return Err(crate::Error::invalid_argument(format!(
            "polygamma(n, x) does not support negative n, and n is {n}"
        )));
    }
    Dtypes::FLOATS.check("polygamma", forms::dtype_after(&[a.into()], Config::FLOAT)?)?;
    let iter = TensorIter::unary(dest, a, Config::FLOAT)?;
    if !iter.is_meta() {
        loops::polygamma(&iter, n)?;
    }
    iter.finish()
}

/// The logarithm of the multivariate gamma function of dimension `p`.
fn mvlgamma(dest: Dest<'_>, a: &Tensor, p: i64) -> Result<Made> {
    if p < 1 {
        return Err(crate::Error::invalid_argument(format!(
            "p has to be greater than or equal to 1, and is {p}"
        )));
    }
    Dtypes::FLOATS.check("mvlgamma", forms::dtype_after(&[a.into()], Config::FLOAT)?)?;
    let iter = TensorIter::unary(dest, a, Config::FLOAT)?;
    if !iter.is_meta() {
        loops::mvlgamma(&iter, p)?;
    }
    iter.finish()
}
