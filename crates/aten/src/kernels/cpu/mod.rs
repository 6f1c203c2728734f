//! Loops for the host.

pub(crate) mod activation;
pub(crate) mod binary;
pub(crate) mod conj;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod matmul;
pub(crate) mod blend;
pub(crate) mod gather;
pub(crate) mod pool;
pub(crate) mod window;
pub(crate) mod sum;
pub(crate) mod reduce;
pub(crate) mod scan;
pub(crate) mod softmax;
pub(crate) mod to_vec;
pub(crate) mod strided;
pub(crate) mod combine;
pub(crate) mod index;
pub(crate) mod range;
pub(crate) mod compare;
pub(crate) mod pointwise;
pub(crate) mod power;
pub(crate) mod rounding;
pub(crate) mod special;
pub(crate) mod unary;
