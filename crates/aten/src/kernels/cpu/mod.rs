//! Loops for the host.

pub(crate) mod binary;
pub(crate) mod conv;
pub(crate) mod conj;
pub(crate) mod copy;
pub(crate) mod matmul;
pub(crate) mod blend;
pub(crate) mod gather;
pub(crate) mod pool;
pub(crate) mod window;
pub(crate) mod sum;
pub(crate) mod to_vec;
pub(crate) mod strided;
pub(crate) mod combine;
pub(crate) mod index;
pub(crate) mod range;
