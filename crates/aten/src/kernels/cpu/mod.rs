//! Loops for the host.

pub(crate) mod binary;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod matmul;
pub(crate) mod to_vec;
