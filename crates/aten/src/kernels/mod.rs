//! What runs: loops for the host ([`cpu`]), and copies between devices through their hooks.

pub(crate) mod cpu;
mod copy;
pub(crate) mod hooked;

pub(crate) use copy::{copy, copy_fresh};
