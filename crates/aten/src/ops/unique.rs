//! Distinct elements and slices: `unique` and kin.

use std::cmp::Ordering;

use c10_core::{ScalarType, bf16, f16};

use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::kernels::cpu::sort::Ordered;
use crate::shape;
use crate::tensor::{Fresh, New, Plain, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("_unique", |this: &Tensor, _sorted: bool, inverse: bool| {
        let (values, inverse, _) = of_elements(this, true, inverse, false)?;
        Ok((values, inverse))
    })?;
    // The elements come sorted in either case.
    lib.cpu_meta("_unique2", |this: &Tensor, _sorted: bool, inverse: bool, counts: bool| {
        of_elements(this, true, inverse, counts)
    })?;
    lib.cpu_meta("unique_dim", |this: &Tensor, dim: i64, _sorted: bool, _inverse: bool, _counts: bool| {
        of_slices(this, dim, true)
    })?;
    lib.cpu_meta("unique_dim_consecutive", |this: &Tensor, dim: i64, _inverse: bool, _counts: bool| {
        of_slices(this, dim, false)
    })?;
    lib.cpu_meta("unique_consecutive", |this: &Tensor, inverse: bool, counts: bool, dim: Option<i64>| {
        match dim {
            None => of_elements(this, false, inverse, counts),
            Some(0 | -1) if this.rank() == 1 => of_elements(this, false, inverse, counts),
            Some(dim) => of_slices(this, dim, false),
        }
    })
}

type Triple = (Tensor, Tensor, Tensor);

fn check(this: &Tensor) -> Result<()> {
    if this.is_meta() {
        return Err(Error::not_implemented("how many elements are distinct is not known of a meta tensor"));
    }
    Ok(())
}

/// The runs of equal items: of each item the number of its run, and of each run its first item and its length.
struct Runs {
    run_of: Vec<i64>,
    firsts: Vec<usize>,
    counts: Vec<i64>,
}

impl Runs {
    /// Runs of items in an order, where `same` says whether two are equal.
    fn new(order: &[usize], same: impl Fn(usize, usize) -> bool) -> Self {
        let mut runs = Self { run_of: vec![0; order.len()], firsts: Vec::new(), counts: Vec::new() };
        let mut last: Option<usize> = None;
        for &item in order {
            match (last, runs.counts.last_mut()) {
                (Some(last), Some(count)) if same(last, item) => *count += 1,
                _ => {
                    runs.firsts.push(item);
                    runs.counts.push(1);
                }
            }
            runs.run_of[item] = runs.firsts.len() as i64 - 1;
            last = Some(item);
        }
        runs
    }
}

fn made<T: Plain>(elements: &[T], sizes: &[i64], dtype: ScalarType, like: &Tensor) -> Result<Tensor> {
    let out = New::contiguous(sizes, dtype, like.device()).make()?;
    access([], [&out], Fresh::Yes, |[], [to]| {
        to.slice::<T>()?.copy_from_slice(elements);
        Ok(())
    })?;
    Ok(out)
}

/// Integers, or none when they are not asked for.
fn integers(wanted: bool, elements: &[i64], sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    match wanted {
        true => made(elements, sizes, ScalarType::Int64, like),
        false => made::<i64>(&[], &[0], ScalarType::Int64, like),
    }
}

/// Truth values go as bytes.
fn stored(dtype: ScalarType) -> ScalarType {
    if dtype == ScalarType::Bool { ScalarType::UInt8 } else { dtype }
}

fn of_elements(this: &Tensor, sorted: bool, inverse: bool, counts: bool) -> Result<Triple> {
    check(this)?;
    dispatch!(
        stored(this.dtype()),
        "unique",
        [u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64],
        T => {
            let values: Vec<T> = this.to_dtype(stored(this.dtype()))?.to_vec()?;
            let mut order: Vec<usize> = (0..values.len()).collect();
            if sorted {
                order.sort_by(|&a, &b| values[a].order(values[b]));
            }
            // A NaN equals nothing, itself included.
            let runs = Runs::new(&order, |a, b| values[a] == values[b]);
            let firsts: Vec<T> = runs.firsts.iter().map(|&first| values[first]).collect();
            let count = [firsts.len() as i64];
            Ok((
                made(&firsts, &count, this.dtype(), this)?,
                integers(inverse, &runs.run_of, &this.sizes(), this)?,
                integers(counts, &runs.counts, &count, this)?,
            ))
        }
    )
}

fn of_slices(this: &Tensor, dim: i64, sorted: bool) -> Result<Triple> {
    check(this)?;
    let dim = shape::wrap_dim(dim, this.rank())?;
    if this.rank() == 0 {
        return Err(Error::shape("distinct slices of a tensor without dimensions"));
    }
    let sizes = this.sizes();
    if this.numel() == 0 {
        if sizes.iter().filter(|&&size| size == 0).count() > 1 || sizes[dim] != 0 {
            return Err(Error::shape(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied",
            ));
        }
        let none = || integers(false, &[], &[0], this);
        return Ok((New::contiguous(sizes, this.dtype(), this.device()).make()?, none()?, none()?));
    }
    // The dimension first, then the elements of each slice.
    let front = super::handles::MOVEDIM_INT.call(this, dim as i64, 0)?;
    let count = sizes[dim] as usize;
    let width = (this.numel() / sizes[dim]) as usize;
    dispatch!(
        stored(this.dtype()),
        "unique_dim",
        [u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64],
        T => {
            let elements: Vec<T> = front.to_dtype(stored(this.dtype()))?.to_vec()?;
            let slice = |i: usize| &elements[i * width..(i + 1) * width];
            let mut order: Vec<usize> = (0..count).collect();
            if sorted {
                order.sort_by(|&a, &b| compare(slice(a), slice(b)));
            }
            let runs = Runs::new(&order, |a, b| slice(a) == slice(b));
            let distinct: Vec<T> = runs.firsts.iter().flat_map(|&first| slice(first).iter().copied()).collect();
            let mut front_sizes = front.sizes();
            front_sizes[0] = runs.firsts.len() as i64;
            let distinct = made(&distinct, &front_sizes, this.dtype(), this)?;
            Ok((
                super::handles::MOVEDIM_INT.call(&distinct, 0, dim as i64)?,
                made(&runs.run_of, &[count as i64], ScalarType::Int64, this)?,
                made(&runs.counts, &[runs.counts.len() as i64], ScalarType::Int64, this)?,
            ))
        }
    )
}

fn compare<T: Ordered>(a: &[T], b: &[T]) -> Ordering {
    a.iter().zip(b).map(|(a, b)| a.order(*b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
