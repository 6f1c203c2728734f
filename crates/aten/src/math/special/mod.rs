//! Functions of `f64` that neither the standard library nor `libm` has as PyTorch means them.
//!
//! They are written for right answers rather than speed; those of `f32` are taken here and rounded once.

mod airy;
mod bessel;
mod error_function;
mod gamma;
mod incomplete_gamma;
mod polynomial;

use super::Float;

pub(super) use bessel::i0;
pub(super) use error_function::erfinv;
pub(super) use gamma::{digamma, lgamma};
pub use polynomial::Orthogonal;

macro_rules! special_functions {
    ($($(#[doc = $doc:literal])* $name:ident($($argument:ident),*) = $function:path;)*) => {
        /// The rarer functions of `torch.special`, of either width.
        pub trait Special: Float {$(
            $(#[doc = $doc])*
            #[inline]
            fn $name(self $(, $argument: Self)*) -> Self {
                Self::of($function(self.wide() $(, $argument.wide())*))
            }
        )*

            /// The `n`-th derivative of `digamma`, for `n` not negative.
            #[inline]
            fn polygamma(self, n: i64) -> Self {
                Self::of(gamma::polygamma(n, self.wide()))
            }

            /// The polynomial of a degree, cut off to an integer, at `self`.
            #[inline]
            fn orthogonal(self, family: Orthogonal, degree: Self) -> Self {
                Self::of(family.at(self.wide(), degree.wide()))
            }
        }
    };
}

special_functions! {
    /// `exp(self²) · erfc(self)`.
    erfcx() = error_function::erfcx;
    /// The share of the normal distribution below.
    ndtr() = error_function::ndtr;
    /// The logarithm of [`ndtr`](Special::ndtr).
    log_ndtr() = error_function::log_ndtr;
    /// The inverse of [`ndtr`](Special::ndtr).
    ndtri() = error_function::ndtri;
    /// The share of the integral of Γ(`self`) up to `x`.
    igamma(x) = incomplete_gamma::igamma;
    /// The share of the integral of Γ(`self`) from `x` on.
    igammac(x) = incomplete_gamma::igammac;
    /// Hurwitz's zeta of the exponent `self`, from `q` on.
    zeta(q) = gamma::zeta;
    /// The modified Bessel function of the first kind, of order 0, times `exp(−|self|)`.
    i0e() = bessel::i0e;
    /// The modified Bessel function of the first kind, of order 1.
    i1() = bessel::i1;
    /// The same, times `exp(−|self|)`.
    i1e() = bessel::i1e;
    /// The modified Bessel function of the second kind, of order 0.
    k0() = bessel::k0;
    /// The same, times `exp(self)`.
    k0e() = bessel::k0e;
    /// The modified Bessel function of the second kind, of order 1.
    k1() = bessel::k1;
    /// The same, times `exp(self)`.
    k1e() = bessel::k1e;
    /// The Bessel function of the first kind, of order 0.
    j0() = bessel::j0;
    /// The Bessel function of the first kind, of order 1.
    j1() = bessel::j1;
    /// The Bessel function of the second kind, of order 0.
    y0() = bessel::y0;
    /// The Bessel function of the second kind, of order 1.
    y1() = bessel::y1;
    /// `sin(self) / self`, and 1 at zero.
    spherical_j0() = bessel::spherical_j0;
    /// Airy's function of the first kind.
    airy_ai() = airy::airy_ai;
}

impl<F: Float> Special for F {}

/// The inverse of `sinh`, odd to the last bit.
pub(in crate::math) fn asinh(x: f64) -> f64 {
    let size = x.abs();
    // Beyond this the 1 under the root no longer shows, and the square would overflow.
    let value = if size > 1e9 {
        size.ln() + std::f64::consts::LN_2
    } else {
        (size + size * size / (1.0 + size.hypot(1.0))).ln_1p()
    };
    value.copysign(x)
}

/// The inverse of `tanh`, odd to the last bit.
pub(in crate::math) fn atanh(x: f64) -> f64 {
    let size = x.abs();
    (0.5 * (2.0 * size / (1.0 - size)).ln_1p()).copysign(x)
}
