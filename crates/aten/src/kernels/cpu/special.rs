//! Loops of the functions of `torch.special`.

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{binary, compute, unary};
use crate::math::{Float, Orthogonal, Special};

macro_rules! functions {
    ($($name:ident: $function:path;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            compute!(iter.common_dtype(), stringify!($name), [f32, f64], T => unary(iter, |x: T| $function(x)))
        }
    )*};
}
functions! {
    entr: entropy;
    erfcx: Special::erfcx;
    ndtri: Special::ndtri;
    log_ndtr: Special::log_ndtr;
    i0: Float::i0;
    i0e: Special::i0e;
    i1: Special::i1;
    i1e: Special::i1e;
    k0: Special::k0;
    k0e: Special::k0e;
    k1: Special::k1;
    k1e: Special::k1e;
    j0: Special::j0;
    j1: Special::j1;
    y0: Special::y0;
    y1: Special::y1;
    spherical_j0: Special::spherical_j0;
    airy_ai: Special::airy_ai;
}

fn entropy<T: Float>(x: T) -> T {
    if x.is_nan() {
        x
    } else if x > T::ZERO {
        -x * x.ln()
    } else if x == T::ZERO {
        T::ZERO
    } else {
        -T::INFINITY
    }
}

macro_rules! functions_of_two {
    ($($name:ident: $function:path;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            compute!(iter.common_dtype(), stringify!($name), [f32, f64], T => {
                binary(iter, |a: T, b: T| $function(a, b))
            })
        }
    )*};
}
functions_of_two! {
    igamma: Special::igamma;
    igammac: Special::igammac;
    zeta: Special::zeta;
    xlog1py: Float::xlog1py;
    xlogy: Float::xlogy;
}

macro_rules! polynomials {
    ($($name:ident: $family:ident;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            polynomial(iter, Orthogonal::$family)
        }
    )*};
}
polynomials! {
    chebyshev_t: ChebyshevT;
    chebyshev_u: ChebyshevU;
    chebyshev_v: ChebyshevV;
    chebyshev_w: ChebyshevW;
    hermite_h: HermiteH;
    hermite_he: HermiteHe;
    laguerre_l: LaguerreL;
    legendre_p: LegendreP;
    shifted_chebyshev_t: ShiftedChebyshevT;
    shifted_chebyshev_u: ShiftedChebyshevU;
    shifted_chebyshev_v: ShiftedChebyshevV;
    shifted_chebyshev_w: ShiftedChebyshevW;
}

fn polynomial(iter: &TensorIter<'_>, family: Orthogonal) -> Result<()> {
    compute!(iter.common_dtype(), "polynomial", [f32, f64], T => {
        binary(iter, |x: T, n: T| x.orthogonal(family, n))
    })
}
