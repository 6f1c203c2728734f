//! Loops for the host.

pub(crate) mod activation;
pub(crate) mod binary;
pub(crate) mod compare;
pub(crate) mod copy;
pub(crate) mod pointwise;
pub(crate) mod power;
pub(crate) mod rounding;
pub(crate) mod special;
pub(crate) mod to_vec;
pub(crate) mod unary;
