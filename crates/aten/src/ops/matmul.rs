//! Products of matrices and vectors.

use c10_core::Scalar;

use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu;
use crate::tensor::{Dims, New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, mm, (a: &Tensor, b: &Tensor), functional "mm", out "mm.out");
    register_triple!(lib, bmm, (a: &Tensor, b: &Tensor), functional "bmm", out "bmm.out");
    register_triple!(lib, mv, (a: &Tensor, v: &Tensor), functional "mv", out "mv.out");
    register_triple!(lib, dot, (a: &Tensor, b: &Tensor), functional "dot", out "dot.out");
    register_triple!(lib, vdot, (a: &Tensor, b: &Tensor), functional "vdot", out "vdot.out");
    register_triple!(lib, addmm, (c: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar),
        functional "addmm", inplace "addmm_", out "addmm.out");
    register_triple!(lib, addmv, (c: &Tensor, a: &Tensor, v: &Tensor, beta: Scalar, alpha: Scalar),
        functional "addmv", inplace "addmv_", out "addmv.out");
    register_triple!(lib, baddbmm, (c: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar),
        functional "baddbmm", inplace "baddbmm_", out "baddbmm.out");
    register_triple!(lib, addbmm, (c: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar),
        functional "addbmm", inplace "addbmm_", out "addbmm.out");
    Ok(())
}

const ZERO: Scalar = Scalar::Int(0);
const ONE: Scalar = Scalar::Int(1);

/// What is added to a product.
#[derive(Clone, Copy)]
struct Addend<'a> {
    tensor: &'a Tensor,
    beta: Scalar,
}

fn check_ranks(tensors: &[(&str, &Tensor, usize)]) -> Result<()> {
    for (name, tensor, rank) in tensors {
        if tensor.rank() != *rank {
            return Err(Error::shape(format!(
                "{name} must have {rank} dimensions, and has {}",
                tensor.rank()
            )));
        }
    }
    Ok(())
}

fn check_inner(a: &[i64], b: &[i64]) -> Result<()> {
    let (inner_a, inner_b) = (a[a.len() - 1], b[b.len().saturating_sub(2)]);
    let batches = a.len() == 3 && a[0] != b[0];
    if inner_a == inner_b && !batches {
        return Ok(());
    }
    Err(Error::shape(format!("{a:?} and {b:?} cannot be multiplied")))
}

/// `beta·addend + alpha·a·b`, where `addend` is broadcast to `sizes`. All are single matrices or batches; where
/// the result alone is no batch, the products of `a` and `b` are added up.
fn product(
    dest: Dest<'_>,
    addend: Option<Addend<'_>>,
    a: &Tensor,
    b: &Tensor,
    alpha: Scalar,
    sizes: &Dims,
) -> Result<Made> {
    let dtype = a.dtype();
    check_dtypes(a, b, addend)?;
    if let Some(Addend { tensor, .. }) = addend
        && crate::shape::broadcast(sizes, &tensor.sizes())? != *sizes
    {
        return Err(Error::shape(format!("{:?} cannot be broadcast to {sizes:?}", tensor.sizes())));
    }
    let mut inputs: smallvec::SmallVec<[&Tensor; 3]> = smallvec::smallvec![a, b];
    if let (Some(addend), Dest::New | Dest::Out(_)) = (addend, dest) {
        inputs.push(addend.tensor);
    }
    let out = dest.output(New::contiguous(sizes.clone(), dtype, a.device()), &inputs)?;
    if out.is_meta() {
        return out.finish();
    }
    let beta = match addend {
        Some(Addend { tensor, beta }) if !is_zero(beta) => {
            if !tensor.is_same(out.tensor()) {
                out.copy_from(tensor)?;
            }
            beta
        }
        _ => ZERO,
    };
    access([a, b], [out.tensor()], out.fresh(), |[a, b], [out]| {
        cpu::matmul::product(dtype, alpha, &a, &b, beta, out)
    })?;
    out.finish()
}

fn is_zero(beta: Scalar) -> bool {
    beta.to::<c10_core::Complex<f64>>().is_ok_and(|beta| beta == c10_core::Complex::default())
}

fn check_dtypes(a: &Tensor, b: &Tensor, addend: Option<Addend<'_>>) -> Result<()> {
    let dtype = a.dtype();
    let others = [Some(b), addend.map(|addend| addend.tensor)];
    if let Some(other) = others.into_iter().flatten().find(|other| other.dtype() != dtype) {
        return Err(Error::dtype(format!(
            "expected all of one dtype, found {} and {}",
            dtype.name(),
            other.dtype().name()
        )));
    }
    if dtype == c10_core::ScalarType::Bool {
        return Err(crate::iter::loops::no_kernel("addmm_impl_cpu_", dtype));
    }
    Ok(())
}

fn mm(dest: Dest<'_>, a: &Tensor, b: &Tensor) -> Result<Made> {
    check_ranks(&[("self", a, 2), ("mat2", b, 2)])?;
    let (size_a, size_b) = (a.sizes(), b.sizes());
    check_inner(&size_a, &size_b)?;
    product(dest, None, a, b, ONE, &Dims::from([size_a[0], size_b[1]]))
}

fn addmm(dest: Dest<'_>, c: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Made> {
    check_ranks(&[("mat1", a, 2), ("mat2", b, 2)])?;
    let (size_a, size_b) = (a.sizes(), b.sizes());
    check_inner(&size_a, &size_b)?;
    let addend = Addend { tensor: c, beta };
    product(dest, Some(addend), a, b, alpha, &Dims::from([size_a[0], size_b[1]]))
}

fn bmm(dest: Dest<'_>, a: &Tensor, b: &Tensor) -> Result<Made> {
    check_ranks(&[("self", a, 3), ("mat2", b, 3)])?;
    let (size_a, size_b) = (a.sizes(), b.sizes());
    check_inner(&size_a, &size_b)?;
    product(dest, None, a, b, ONE, &Dims::from([size_a[0], size_a[1], size_b[2]]))
}

fn baddbmm(dest: Dest<'_>, c: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Made> {
    check_ranks(&[("batch1", a, 3), ("batch2", b, 3)])?;
    let (size_a, size_b) = (a.sizes(), b.sizes());
    check_inner(&size_a, &size_b)?;
    let addend = Addend { tensor: c, beta };
    product(dest, Some(addend), a, b, alpha, &Dims::from([size_a[0], size_a[1], size_b[2]]))
}

fn addbmm(dest: Dest<'_>, c: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Made> {
    check_ranks(&[("batch1", a, 3), ("batch2", b, 3)])?;
    let (size_a, size_b) = (a.sizes(), b.sizes());
    check_inner(&size_a, &size_b)?;
    let addend = Addend { tensor: c, beta };
    product(dest, Some(addend), a, b, alpha, &Dims::from([size_a[1], size_b[2]]))
}

fn mv(dest: Dest<'_>, a: &Tensor, v: &Tensor) -> Result<Made> {
    matrix_vector(dest, None, a, v, ONE)
}

fn addmv(dest: Dest<'_>, c: &Tensor, a: &Tensor, v: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Made> {
    matrix_vector(dest, Some(Addend { tensor: c, beta }), a, v, alpha)
}

fn matrix_vector(
    dest: Dest<'_>,
    addend: Option<Addend<'_>>,
    a: &Tensor,
    v: &Tensor,
    alpha: Scalar,
) -> Result<Made> {
    check_ranks(&[("the matrix", a, 2), ("the vector", v, 1)])?;
    let (size_a, size_v) = (a.sizes(), v.sizes());
    if size_a[1] != size_v[0] {
        return Err(Error::shape(format!("{size_a:?} and {size_v:?} cannot be multiplied")));
    }
    // The vector as a row, times the matrix transposed: the result is a row, and so is the addend.
    let step = v.strides()[0];
    let row = v.view_of(Dims::from([1, size_v[0]]), Dims::from([0, step]), v.storage_offset())?;
    let steps = a.strides();
    let transposed =
        a.view_of(Dims::from([size_a[1], size_a[0]]), Dims::from([steps[1], steps[0]]), a.storage_offset())?;
    product(dest, addend, &row, &transposed, alpha, &Dims::from([size_a[0]]))
}

fn dot(dest: Dest<'_>, a: &Tensor, b: &Tensor) -> Result<Made> {
    dot_product(dest, a, b, false)
}

fn vdot(dest: Dest<'_>, a: &Tensor, b: &Tensor) -> Result<Made> {
    dot_product(dest, a, b, true)
}

fn dot_product(dest: Dest<'_>, a: &Tensor, b: &Tensor, conjugate: bool) -> Result<Made> {
    check_ranks(&[("self", a, 1), ("tensor", b, 1)])?;
    let dtype = a.dtype();
    check_dtypes(a, b, None)?;
    if a.numel() != b.numel() {
        return Err(Error::shape(format!(
            "vectors of {} and {} elements have no dot product",
            a.numel(),
            b.numel()
        )));
    }
    let out = dest.output(New::contiguous(Dims::new(), dtype, a.device()), &[a, b])?;
    if !out.is_meta() {
        access([a, b], [out.tensor()], out.fresh(), |[a, b], [out]| {
            cpu::matmul::dot(dtype, conjugate, &a, &b, out)
        })?;
    }
    out.finish()
}

/// `beta·c + alpha·a·b`, of a column `a` and a row `b` (`addr`).
pub(super) fn outer_product(
    dest: Dest<'_>,
    c: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Made> {
    check_ranks(&[("vec1", a, 1), ("vec2", b, 1)])?;
    let (rows, cols) = (a.numel(), b.numel());
    let column = a.view_of(Dims::from([rows, 1]), Dims::from([a.strides()[0], 1]), a.storage_offset())?;
    let row =
        b.view_of(Dims::from([1, cols]), Dims::from([cols.max(1), b.strides()[0]]), b.storage_offset())?;
    let addend = Addend { tensor: c, beta };
    product(dest, Some(addend), &column, &row, alpha, &Dims::from([rows, cols]))
}
