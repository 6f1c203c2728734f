#![expect(unsafe_code, reason = "moves pointers over operands that are locked and within bounds")]
//! Walking the elements: access to the storages, then rows of the innermost dimension.

use c10_core::storage::{Access, AccessOptions};
use smallvec::SmallVec;

use super::TensorIter;
use super::operand::{Operand, Source};
use crate::error::{Error, Result};
use crate::tensor::{Geometry, check_end};

/// A pointer and a byte stride for each operand, and how many elements there are in the row.
///
/// # Safety
/// For whoever calls it: each pointer, moved by its stride up to `n - 1` times, is valid for an element of its
/// operand's dtype; those of outputs for writes, and nobody else writes there or reads there meanwhile but
/// the row itself.
pub(super) type Row<'a> = &'a (dyn Fn(&[*mut u8], &[i64], i64) + Sync);

/// Calls `row` with every row of the innermost dimension, with access to all operands.
pub(super) fn for_each_row(iter: &TensorIter<'_>, row: Row<'_>) -> Result<()> {
    if iter.numel == 0 {
        return Ok(());
    }
    let snapshots: SmallVec<[Option<&Geometry>; 4]> = iter.operands.iter().map(borrowed).collect();
    let (written, read) = snapshots.split_at(iter.outputs);
    let written: SmallVec<[_; 2]> = written.iter().flatten().map(|g| &g.storage).collect();
    let read: SmallVec<[_; 4]> = read.iter().flatten().map(|g| &g.storage).collect();
    // Held until the walk is over. Fresh tensors and cast copies are this thread's alone.
    let _access = Access::acquire_with(&read, &written, AccessOptions { bump_version: true, host: true })?;
    let mut pointers: SmallVec<[*mut u8; 4]> = SmallVec::new();
    for operand in &iter.operands {
        pointers.push(first_element(operand)?);
    }
    walk(iter, &pointers, row);
    Ok(())
}

/// The geometry of an operand whose storage others may have.
fn borrowed<'s>(operand: &'s Operand<'_>) -> Option<&'s Geometry> {
    match &operand.source {
        Source::Borrowed(_, geometry) => Some(geometry),
        _ => None,
    }
}

/// Where the first element is. The storage, if others may have it, is locked.
fn first_element(operand: &Operand<'_>) -> Result<*mut u8> {
    let storage = match &operand.source {
        Source::Number(_, bytes) => return Ok(bytes.0.as_ptr().cast_mut()),
        Source::Borrowed(_, geometry) => geometry.storage.clone(),
        Source::Fresh(tensor) | Source::Cast(tensor) => tensor.storage(),
    };
    if !storage.device().is_cpu() {
        return Err(Error::not_implemented(format!(
            "a loop of the host over elements on {}",
            storage.device()
        )));
    }
    check_end(operand.end_bytes, storage.nbytes())?;
    // SAFETY: the first element is within the storage, whose bytes end at or after `end_bytes`.
    Ok(unsafe { storage.data_ptr().cast_mut().add(operand.begin_bytes) })
}

fn walk(iter: &TensorIter<'_>, first: &[*mut u8], row: Row<'_>) {
    let inner_strides: SmallVec<[i64; 4]> =
        iter.operands.iter().map(|operand| operand.strides.first().copied().unwrap_or(0)).collect();
    let inner = iter.sizes.first().copied().unwrap_or(1);
    let outer = iter.sizes.get(1..).unwrap_or(&[]);
    let rows: i64 = outer.iter().product();
    let mut index: SmallVec<[i64; 6]> = SmallVec::from_elem(0, outer.len());
    let mut pointers: SmallVec<[*mut u8; 4]> = SmallVec::from_slice(first);
    for _ in 0..rows {
        row(&pointers, &inner_strides, inner);
        for dim in 0..outer.len() {
            index[dim] += 1;
            let carry = index[dim] == outer[dim];
            for (pointer, operand) in pointers.iter_mut().zip(&iter.operands) {
                let stride = operand.strides[dim + 1] as isize;
                let step = if carry { -stride * (outer[dim] as isize - 1) } else { stride };
                // Wrapping, since after the last row there is nothing to point to.
                *pointer = pointer.wrapping_offset(step);
            }
            if !carry {
                break;
            }
            index[dim] = 0;
        }
    }
}
