//! Products of tensors of any rank, by way of those of matrices and vectors.

use super::{Dest, handles};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::shape::{broadcast, wrap_dims};
use crate::tensor::{New, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("matmul", matmul)?;
    lib.all_backends("matmul.out", |a: &Tensor, b: &Tensor, out: &Tensor| into(out, &matmul(a, b)?))?;
    lib.composite("linear", linear)?;
    lib.all_backends("linear.out", |x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, out: &Tensor| {
        into(out, &linear(x, weight, bias)?)
    })?;
    lib.composite("tensordot", tensordot)?;
    lib.all_backends("tensordot.out", |a: &Tensor, b: &Tensor, of_a: &[i64], of_b: &[i64], out: &Tensor| {
        into(out, &tensordot(a, b, of_a, of_b)?)
    })?;
    lib.composite("inner", inner)?;
    lib.all_backends("inner.out", |a: &Tensor, b: &Tensor, out: &Tensor| into(out, &inner(a, b)?))
}

/// Copies a result to a given tensor, which is resized to it.
pub(super) fn into(out: &Tensor, result: &Tensor) -> Result<()> {
    let new = New::contiguous(result.sizes(), result.dtype(), result.device());
    let output = Dest::Out(out).output(new, &[result])?;
    if !output.is_meta() {
        output.copy_from(result)?;
    }
    output.finish().map(drop)
}

fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.rank(), b.rank()) {
        (0, _) | (_, 0) => Err(Error::shape(format!(
            "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
            a.rank(),
            b.rank()
        ))),
        (1, 1) => handles::DOT.call(a, b),
        (2, 1) => handles::MV.call(a, b),
        (1, 2) => handles::MM.call(&a.unsqueeze(0)?, b)?.squeeze_dim(0),
        (2, 2) => handles::MM.call(a, b),
        (_, 1 | 2) => folded(a, b),
        _ => batched(a, b),
    }
}

/// Of many matrices and one: one tall matrix and it.
fn folded(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let mut sizes = a.sizes();
    let depth = sizes.remove(sizes.len() - 1);
    let tall = a.reshape(&[sizes.iter().product(), depth])?;
    if b.rank() == 1 {
        return handles::MV.call(&tall, b)?.reshape(&sizes);
    }
    sizes.push(b.sizes()[1]);
    handles::MM.call(&tall, b)?.reshape(&sizes)
}

fn batched(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    // A vector is a matrix of one row, or of one column.
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    let a = if row { a.unsqueeze(0)? } else { a.clone() };
    let b = if column { b.unsqueeze(-1)? } else { b.clone() };
    let (size_a, size_b) = (a.sizes(), b.sizes());
    let (batch_a, matrix_a) = size_a.split_at(size_a.len() - 2);
    let (batch_b, matrix_b) = size_b.split_at(size_b.len() - 2);
    let batch = broadcast(batch_a, batch_b)?;
    let count: i64 = batch.iter().product();
    let as_batch = |tensor: &Tensor, matrix: &[i64]| -> Result<Tensor> {
        let all: Vec<i64> = batch.iter().chain(matrix).copied().collect();
        tensor.expand(&all)?.reshape(&[count, matrix[0], matrix[1]])
    };
    let product = handles::BMM.call(&as_batch(&a, matrix_a)?, &as_batch(&b, matrix_b)?)?;
    let mut sizes = batch.clone();
    sizes.extend((!row).then_some(matrix_a[0]));
    sizes.extend((!column).then_some(matrix_b[1]));
    product.reshape(&sizes)
}

fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if x.rank() == 0 || weight.rank() == 0 || weight.rank() > 2 {
        return Err(Error::shape(format!(
            "linear takes an input of at least one dimension and a weight of one or two, and got {:?} and {:?}",
            x.sizes(),
            weight.sizes()
        )));
    }
    let transposed = weight.t()?;
    let Some(bias) = bias else { return matmul(x, &transposed) };
    if weight.rank() == 1 || bias.rank() != 1 {
        return matmul(x, &transposed)?.add(bias);
    }
    let mut sizes = x.sizes();
    let depth = sizes.remove(sizes.len() - 1);
    let tall = x.reshape(&[sizes.iter().product(), depth])?;
    sizes.push(weight.sizes()[0]);
    let one = c10_core::Scalar::Int(1);
    handles::ADDMM.call(bias, &tall, &transposed, one, one)?.reshape(&sizes)
}

fn tensordot(a: &Tensor, b: &Tensor, of_a: &[i64], of_b: &[i64]) -> Result<Tensor> {
    if of_a.len() != of_b.len() {
        return Err(Error::invalid_argument("both dimension lists should have same length"));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::dtype("both inputs should have same dtype"));
    }
    let dtype = a.dtype();
    let (of_a, of_b) = (wrap_dims(of_a, a.rank())?, wrap_dims(of_b, b.rank())?);
    let (mut a, mut b) = (a.clone(), b.clone());
    let mut depth = 1_i64;
    for (&dim_a, &dim_b) in of_a.iter().zip(&of_b) {
        let (size_a, size_b) = (a.sizes()[dim_a], b.sizes()[dim_b]);
        // What has one element is summed over the other.
        if size_a != size_b && size_b == 1 {
            a = handles::SUM_DIM_INTLIST.call(&a, Some(&[dim_a as i64]), true, Some(dtype))?;
        } else if size_a != size_b && size_a == 1 {
            b = handles::SUM_DIM_INTLIST.call(&b, Some(&[dim_b as i64]), true, Some(dtype))?;
        } else if size_a != size_b {
            return Err(Error::shape(format!(
                "contracted dimensions need to match, but first has size {size_a} in dim {dim_a} and second has \
                 size {size_b} in dim {dim_b}"
            )));
        }
        depth *= size_a.min(size_b);
    }
    let free = |rank: usize, taken: &[usize]| -> Vec<i64> {
        (0..rank).filter(|dim| !taken.contains(dim)).map(|dim| dim as i64).collect()
    };
    let (free_a, free_b) = (free(a.rank(), &of_a), free(b.rank(), &of_b));
    let number = |dims: &[usize]| dims.iter().map(|&dim| dim as i64).collect::<Vec<_>>();
    let (size_a, size_b) = (a.sizes(), b.sizes());
    let count = |free: &[i64], sizes: &[i64]| free.iter().map(|&dim| sizes[dim as usize]).product::<i64>();
    let rows =
        a.permute(&[&free_a[..], &number(&of_a)].concat())?.reshape(&[count(&free_a, &size_a), depth])?;
    let cols =
        b.permute(&[&number(&of_b)[..], &free_b].concat())?.reshape(&[depth, count(&free_b, &size_b)])?;
    let sizes: Vec<i64> = free_a
        .iter()
        .map(|&dim| size_a[dim as usize])
        .chain(free_b.iter().map(|&dim| size_b[dim as usize]))
        .collect();
    handles::MM.call(&rows, &cols)?.reshape(&sizes)
}

fn inner(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.rank() == 0 || b.rank() == 0 {
        return handles::MUL_TENSOR.call(a, b);
    }
    if a.sizes().last() != b.sizes().last() {
        return Err(Error::shape(format!(
            "inner() the last dimension must match on both input tensors but got shapes {:?} and {:?}",
            a.sizes(),
            b.sizes()
        )));
    }
    tensordot(a, b, &[-1], &[-1])
}
