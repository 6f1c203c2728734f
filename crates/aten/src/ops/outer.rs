//! Products of every element of one tensor and every element of another.

use super::matmul::outer_product;
use super::matmul_composite::into;
use super::{handles, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, outer_product,
        (c: &Tensor, a: &Tensor, b: &Tensor, beta: c10_core::Scalar, alpha: c10_core::Scalar),
        functional "addr", inplace "addr_", out "addr.out");
    for name in ["outer", "ger"] {
        lib.composite(name, outer)?;
    }
    for name in ["outer.out", "ger.out"] {
        lib.all_backends(name, |a: &Tensor, b: &Tensor, out: &Tensor| into(out, &outer(a, b)?))?;
    }
    lib.composite("kron", kron)?;
    lib.all_backends("kron.out", |a: &Tensor, b: &Tensor, out: &Tensor| into(out, &kron(a, b)?))
}

fn outer(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.rank() != 1 || b.rank() != 1 {
        return Err(Error::shape(format!(
            "outer: Expected two 1-D arguments, but got {}-D and {}-D",
            a.rank(),
            b.rank()
        )));
    }
    handles::MUL_TENSOR.call(&a.unsqueeze(1)?, b)
}

/// Each dimension of the result is one of `a` times one of `b`.
fn kron(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let rank = a.rank().max(b.rank());
    let padded = |tensor: &Tensor| -> Vec<i64> {
        let sizes = tensor.sizes();
        std::iter::repeat_n(1, rank - sizes.len()).chain(sizes.iter().copied()).collect()
    };
    let (size_a, size_b) = (padded(a), padded(b));
    let apart_a: Vec<i64> = size_a.iter().flat_map(|&size| [size, 1]).collect();
    let apart_b: Vec<i64> = size_b.iter().flat_map(|&size| [1, size]).collect();
    let sizes: Vec<i64> = size_a.iter().zip(&size_b).map(|(a, b)| a.saturating_mul(*b)).collect();
    handles::MUL_TENSOR.call(&a.reshape(&apart_a)?, &b.reshape(&apart_b)?)?.reshape(&sizes)
}
