//! Complex conjugates.
//!
//! Differs from PyTorch: no tensor carries a pending conjugate or negation, so that no kernel has to ask for it.
//! `conj` of a complex tensor is a copy, and what resolves a pending one returns the tensor itself.

use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::Result;
use crate::iter::{Config, TensorIter};
use crate::kernels::cpu;
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, conj_physical, (x: &Tensor),
        functional "_conj_physical", inplace "conj_physical_", out "conj_physical.out");
    lib.cpu_meta("_conj_physical.out", |x: &Tensor, out: &Tensor| -> Result<()> {
        conj_physical(Dest::Out(out), x).map(drop)
    })?;
    lib.cpu_meta("_conj", |x: &Tensor| conj_physical(Dest::New, x).map(Made::new_tensor))?;
    for name in ["conj", "conj_physical"] {
        lib.composite(name, |x: &Tensor| -> Result<Tensor> {
            if x.dtype().is_complex() { x._conj_physical() } else { Ok(x.clone()) }
        })?;
    }
    for name in ["resolve_conj", "resolve_neg"] {
        lib.composite(name, |x: &Tensor| -> Result<Tensor> { Ok(x.clone()) })?;
    }
    for name in ["is_conj", "is_neg"] {
        lib.composite(name, |_: &Tensor| -> Result<bool> { Ok(false) })?;
    }
    Ok(())
}

fn conj_physical(dest: Dest<'_>, x: &Tensor) -> Result<Made> {
    let iter = TensorIter::unary(dest, x, Config::SAME)?;
    if !iter.is_meta() {
        if x.dtype().is_complex() {
            cpu::conj::conj(&iter)?;
        } else {
            cpu::copy::convert(&iter)?;
        }
    }
    iter.finish()
}
