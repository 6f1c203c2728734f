//! The functions of two numbers of `torch.special`.

use super::dtypes::Dtypes;
use super::forms::{self, Pointwise};
use crate::dispatch::Library;
use crate::error::Result;
use crate::iter::Config;
use crate::kernels::cpu::special as loops;

macro_rules! functions {
    ($($config:ident $takes:ident: $($loop_:ident $name:literal),*;)*) => {
        &[$($(Pointwise {
            name: $name,
            config: Config::$config,
            takes: Dtypes::$takes,
            kernel: loops::$loop_,
        }),*),*]
    };
}

const FUNCTIONS: &[Pointwise] = functions! {
    PROMOTE FLOATS: igamma "igamma", igammac "igammac";
    FLOAT FLOATS: xlogy "xlogy", xlog1py "special_xlog1py";
    FLOAT WIDE_FLOATS:
        zeta "special_zeta",
        chebyshev_t "special_chebyshev_polynomial_t",
        chebyshev_u "special_chebyshev_polynomial_u",
        chebyshev_v "special_chebyshev_polynomial_v",
        chebyshev_w "special_chebyshev_polynomial_w",
        hermite_h "special_hermite_polynomial_h",
        hermite_he "special_hermite_polynomial_he",
        laguerre_l "special_laguerre_polynomial_l",
        legendre_p "special_legendre_polynomial_p",
        shifted_chebyshev_t "special_shifted_chebyshev_polynomial_t",
        shifted_chebyshev_u "special_shifted_chebyshev_polynomial_u",
        shifted_chebyshev_v "special_shifted_chebyshev_polynomial_v",
        shifted_chebyshev_w "special_shifted_chebyshev_polynomial_w";
};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    forms::register_binary(lib, FUNCTIONS)
}
