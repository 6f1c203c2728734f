//! Distances between the rows of matrices.

use super::images::{check_same_dtype, check_sizes};
use super::{Dest, handles};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::kernels::cpu::distance::{Distance, add_gradient, pairs, within};
use crate::shape::broadcast;
use crate::tensor::{Dims, Fresh, New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("_cdist_forward", cdist_forward)?;
    lib.cpu_meta("_cdist_backward", cdist_backward)?;
    lib.cpu_meta("_pdist_forward", pdist_forward)?;
    lib.cpu_meta("_pdist_backward", pdist_backward)?;
    lib.composite("cdist", |a: &Tensor, b: &Tensor, p: f64, mode: Option<i64>| {
        handles::_CDIST_FORWARD.call(a, b, p, mode)
    })?;
    lib.composite("pdist", |x: &Tensor, p: f64| handles::_PDIST_FORWARD.call(&x.contiguous()?, p))
}

fn check_norm(p: f64) -> Result<()> {
    if p >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("only non-negative p values are supported, but got p={p}")))
}

fn check_dtype(x: &Tensor) -> Result<()> {
    dispatch!(x.dtype(), "cdist", [f32, f64], T => {
        let _: Option<T> = None;
        Ok(())
    })
}

/// A row-major copy with all of a batch.
fn batched(x: &Tensor, batch: &[i64]) -> Result<Tensor> {
    let sizes = x.sizes();
    let lead = batch.len() + 2 - sizes.len();
    let strides = x.strides();
    let all: Dims = batch.iter().chain(&sizes[sizes.len() - 2..]).copied().collect();
    let steps = (0..all.len()).map(|dim| match dim.checked_sub(lead) {
        Some(own) if sizes[own] == all[dim] => strides[own],
        _ => 0,
    });
    x.view_of(all.clone(), steps.collect(), x.storage_offset())?.to_contiguous()
}

/// The sizes of the batch, and of a pair of matrices: rows, rows, columns.
fn pair_sizes(a: &Tensor, b: &Tensor) -> Result<(Dims, [usize; 3])> {
    let (size_a, size_b) = (a.sizes(), b.sizes());
    if size_a.len() < 2 || size_b.len() < 2 {
        return Err(Error::shape("cdist only supports at least 2D tensors"));
    }
    check_same_dtype(a, b)?;
    check_dtype(a)?;
    let (batch_a, matrix_a) = size_a.split_at(size_a.len() - 2);
    let (batch_b, matrix_b) = size_b.split_at(size_b.len() - 2);
    if matrix_a[1] != matrix_b[1] {
        return Err(Error::shape(format!(
            "X1 and X2 must have the same number of columns. X1: {} X2: {}",
            matrix_a[1], matrix_b[1]
        )));
    }
    let batch = broadcast(batch_a, batch_b)?;
    Ok((batch, [matrix_a[0] as usize, matrix_b[0] as usize, matrix_a[1] as usize]))
}

fn cdist_forward(a: &Tensor, b: &Tensor, p: f64, mode: Option<i64>) -> Result<Tensor> {
    check_norm(p)?;
    if mode.is_some_and(|mode| !(0..=2).contains(&mode)) {
        return Err(Error::invalid_argument("possible modes: 0, 1, 2"));
    }
    let (batch, sizes) = pair_sizes(a, b)?;
    let mut output = batch.clone();
    output.extend([sizes[0] as i64, sizes[1] as i64]);
    let out = Dest::New.output(New::contiguous(output, a.dtype(), a.device()), &[a, b])?;
    if !out.is_meta() {
        let (a, b) = (batched(a, &batch)?, batched(b, &batch)?);
        access([&a, &b], [out.tensor()], Fresh::Yes, |[a, b], [out]| {
            dispatch!(a.dtype(), "cdist", [f32, f64], T => {
                pairs::<T>(a.slice()?, b.slice()?, sizes, p, out.slice()?);
                Ok(())
            })
        })?;
    }
    Ok(out.finish()?.new_tensor())
}

fn cdist_backward(grad: &Tensor, a: &Tensor, b: &Tensor, p: f64, distances: &Tensor) -> Result<Tensor> {
    check_norm(p)?;
    let (batch, [rows_a, rows_b, len]) = pair_sizes(a, b)?;
    let mut output = batch.clone();
    output.extend([rows_a as i64, rows_b as i64]);
    check_sizes("grad", grad, &output)?;
    check_sizes("cdist", distances, &output)?;
    check_same_dtype(grad, a)?;
    check_same_dtype(distances, a)?;
    let mut sizes = batch.clone();
    sizes.extend([rows_a as i64, len as i64]);
    let out = Dest::New.output(New::contiguous(sizes, a.dtype(), a.device()), &[a])?;
    if !out.is_meta() {
        let (a, b) = (batched(a, &batch)?, batched(b, &batch)?);
        let (grad, distances) = (grad.to_contiguous()?, distances.to_contiguous()?);
        let reads = [&grad, &a, &b, &distances];
        access(reads, [out.tensor()], Fresh::Yes, |[grad, a, b, distances], [out]| {
            dispatch!(a.dtype(), "cdist_backward", [f32, f64], T => {
                let (a, b) = (a.slice::<T>()?, b.slice::<T>()?);
                let (grad, distances) = (grad.slice::<T>()?, distances.slice::<T>()?);
                crate::parallel::for_each_piece(out.slice::<T>()?, len.max(1), rows_b * len, |row, out| {
                    let mut sums = vec![0.0; len];
                    let first = row / rows_a * rows_b * len;
                    for other in 0..rows_b {
                        let pair = row * rows_b + other;
                        let (a, b) = (&a[row * len..][..len], &b[first + other * len..][..len]);
                        add_gradient(a, b, p, grad[pair], distances[pair], |at, share| sums[at] += share);
                    }
                    out.iter_mut().zip(&sums).for_each(|(to, &sum)| *to = T::of(sum));
                });
                Ok(())
            })
        })?;
    }
    Ok(out.finish()?.new_tensor())
}

fn matrix_sizes(x: &Tensor, p: f64) -> Result<[i64; 2]> {
    check_norm(p)?;
    check_dtype(x)?;
    match x.sizes()[..] {
        [rows, len] => Ok([rows, len]),
        ref sizes => Err(Error::shape(format!("pdist only supports 2D tensors, got: {}D", sizes.len()))),
    }
}

fn pdist_forward(x: &Tensor, p: f64) -> Result<Tensor> {
    let [rows, len] = matrix_sizes(x, p)?;
    let count = if rows < 2 { 0 } else { rows * (rows - 1) / 2 };
    let out = Dest::New.output(New::contiguous([count], x.dtype(), x.device()), &[x])?;
    if !out.is_meta() {
        let x = x.to_contiguous()?;
        access([&x], [out.tensor()], Fresh::Yes, |[x], [out]| {
            dispatch!(x.dtype(), "pdist", [f32, f64], T => {
                within::<T>(x.slice()?, rows as usize, len as usize, p, out.slice()?);
                Ok(())
            })
        })?;
    }
    Ok(out.finish()?.new_tensor())
}

fn pdist_backward(grad: &Tensor, x: &Tensor, p: f64, distances: &Tensor) -> Result<Tensor> {
    let [rows, len] = matrix_sizes(x, p)?;
    let count = if rows < 2 { 0 } else { rows * (rows - 1) / 2 };
    check_sizes("grad", grad, &[count])?;
    check_sizes("pdist", distances, &[count])?;
    check_same_dtype(grad, x)?;
    check_same_dtype(distances, x)?;
    let out = Dest::New.output(New::contiguous(x.sizes(), x.dtype(), x.device()), &[x])?;
    if !out.is_meta() {
        let (grad, x, distances) = (grad.to_contiguous()?, x.to_contiguous()?, distances.to_contiguous()?);
        let (rows, len) = (rows as usize, len as usize);
        access([&grad, &x, &distances], [out.tensor()], Fresh::Yes, |[grad, x, distances], [out]| {
            dispatch!(x.dtype(), "pdist_backward", [f32, f64], T => {
                let (x, out) = (x.slice::<T>()?, out.slice::<T>()?);
                let pairs = grad.slice::<T>()?.iter().zip(distances.slice::<T>()?);
                let sums = pdist_sums(x, rows, len, p, pairs);
                out.iter_mut().zip(&sums).for_each(|(to, &sum)| *to = T::of(sum));
                Ok(())
            })
        })?;
    }
    Ok(out.finish()?.new_tensor())
}

fn pdist_sums<'a, T: Distance>(
    x: &[T],
    rows: usize,
    len: usize,
    p: f64,
    mut pairs: impl Iterator<Item = (&'a T, &'a T)>,
) -> Vec<f64> {
    let mut sums = vec![0.0; rows * len];
    for first in 0..rows {
        for second in first + 1..rows {
            let Some((&grad, &distance)) = pairs.next() else { return sums };
            let (a, b) = (&x[first * len..][..len], &x[second * len..][..len]);
            add_gradient(a, b, p, grad, distance, |at, share| {
                sums[first * len + at] += share;
                sums[second * len + at] -= share;
            });
        }
    }
    sums
}
