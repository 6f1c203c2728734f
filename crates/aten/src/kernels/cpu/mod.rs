//! Loops for the host.

pub(crate) mod binary;
pub(crate) mod conj;
pub(crate) mod copy;
pub(crate) mod to_vec;
