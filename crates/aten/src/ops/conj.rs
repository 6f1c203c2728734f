//! Complex conjugates, and the views that stand for them and for negations. See Note [Math bits].

use super::view_copy::{copied, copy_out};
use super::{Dest, Made, handles, register_triple};
use crate::dispatch::{DispatchKey, Library};
use crate::error::{Error, Result};
use crate::iter::{Config, TensorIter};
use crate::kernels::cpu;
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("_conj", conj_view)?;
    lib.all_backends("_conj_copy", |x: &Tensor| copied(&conj_view(x)?))?;
    lib.all_backends("_conj_copy.out", |x: &Tensor, out: &Tensor| copy_out(&conj_view(x)?, out))?;
    lib.all_backends("_neg_view", neg_view)?;
    lib.all_backends("_neg_view_copy", |x: &Tensor| copied(&neg_view(x)?))?;
    lib.all_backends("_neg_view_copy.out", |x: &Tensor, out: &Tensor| copy_out(&neg_view(x)?, out))?;
    register_triple!(lib, conj_physical, (x: &Tensor),
        functional "_conj_physical", inplace "conj_physical_", out "conj_physical.out");
    lib.cpu_meta("_conj_physical.out", |x: &Tensor, out: &Tensor| -> Result<()> {
        conj_physical(Dest::Out(out), x).map(drop)
    })?;
    lib.composite("conj", |x: &Tensor| -> Result<Tensor> {
        if x.dtype().is_complex() { handles::_CONJ.call(x) } else { Ok(x.clone()) }
    })?;
    lib.composite("conj_physical", |x: &Tensor| -> Result<Tensor> {
        match (x.dtype().is_complex(), x.is_conj()) {
            (false, _) => Ok(x.clone()),
            (true, true) => handles::_CONJ.call(x)?.deep_clone(),
            (true, false) => x._conj_physical(),
        }
    })?;
    lib.composite("resolve_conj", |x: &Tensor| -> Result<Tensor> {
        if x.is_conj() { x.deep_clone() } else { Ok(x.clone()) }
    })?;
    lib.composite("resolve_neg", |x: &Tensor| -> Result<Tensor> {
        if x.is_neg() { x.deep_clone() } else { Ok(x.clone()) }
    })?;
    lib.composite("is_conj", |x: &Tensor| -> Result<bool> { Ok(x.is_conj()) })?;
    lib.composite("is_neg", |x: &Tensor| -> Result<bool> { Ok(x.is_neg()) })
}

fn conj_view(x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return Err(Error::dtype(format!("Expected a complex tensor, but got {}", x.dtype().name())));
    }
    Ok(x.flipped(DispatchKey::Conjugate))
}

fn neg_view(x: &Tensor) -> Result<Tensor> {
    Ok(x.flipped(DispatchKey::Negative))
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
