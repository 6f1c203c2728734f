//! Loops for the host.

pub(crate) mod binary;
pub(crate) mod copy;
pub(crate) mod reduce;
pub(crate) mod scan;
pub(crate) mod softmax;
pub(crate) mod to_vec;
