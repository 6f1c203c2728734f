//! Loops for the host.

pub(crate) mod binary;
pub(crate) mod conj;
pub(crate) mod copy;
pub(crate) mod matmul;
pub(crate) mod to_vec;
pub(crate) mod random;
pub(crate) mod sort;
pub(crate) mod strided;
pub(crate) mod combine;
pub(crate) mod embedding;
pub(crate) mod index;
pub(crate) mod range;
