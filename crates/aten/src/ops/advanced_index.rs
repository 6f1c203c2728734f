//! Several index tensors at once: what `tensor[a, :, b]` selects (`at::native::make_info`).

use c10_core::ScalarType;

use super::index_values;
use super::index_values::out_of_bounds;
use crate::error::{Error, Result};
use crate::kernels::cpu::index::IndexPlan;
use crate::shape;
use crate::tensor::{Dims, Tensor};

/// The index of one dimension.
struct Index {
    sizes: Dims,
    strides: Dims,
    /// In row-major order; empty for a meta tensor.
    values: Vec<i64>,
}

/// A plan of where the elements are, and the strides that PyTorch would give the result.
pub(super) struct Selection {
    pub(super) plan: IndexPlan,
    pub(super) result_strides: Dims,
}

/// What `indices`, at most one for each dimension of `this`, select.
///
/// # Errors
/// When a dtype is none of an index, masks or indices do not fit in shape, or one is out of bounds.
pub(super) fn select(this: &Tensor, indices: &[Option<Tensor>]) -> Result<Selection> {
    let indices = expand(this, indices)?;
    let mut common = Dims::new();
    for index in indices.iter().flatten() {
        common = shape::broadcast(&common, &index.sizes).map_err(|_| {
            let all: Vec<_> = indices.iter().flatten().map(|index| &index.sizes).collect();
            Error::index(format!(
                "shape mismatch: indexing tensors could not be broadcast together with shapes {all:?}"
            ))
        })?;
    }
    let (sizes, strides) = (this.sizes(), this.strides());
    let indexed: Vec<usize> = (0..indices.len()).filter(|&dim| indices[dim].is_some()).collect();
    if !common.contains(&0)
        && let Some(&dim) = indexed.iter().find(|&&dim| sizes[dim] == 0)
    {
        return Err(Error::index(format!("index is out of bounds for dimension {dim} with size 0")));
    }
    let adjacent = indexed.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let at = if adjacent { indexed.first().copied().unwrap_or(0) } else { 0 };
    let others: Vec<usize> = (0..sizes.len()).filter(|dim| !indexed.contains(dim)).collect();
    let common_strides = shape::contiguous_strides(&common)?;
    let (mut plan, mut layout) = (
        IndexPlan {
            sizes: Dims::new(),
            strides: Dims::new(),
            offset_strides: Dims::new(),
            offsets: offsets(&indices, &common, &strides)?,
        },
        vec![Dims::new(); indexed.len()],
    );
    let common_part = |plan: &mut IndexPlan, layout: &mut Vec<Dims>| {
        plan.sizes.extend(common.iter().copied());
        plan.strides.extend(common.iter().map(|_| 0));
        plan.offset_strides.extend(common_strides.iter().copied());
        for (strides, index) in layout.iter_mut().zip(indices.iter().flatten()) {
            strides.extend(broadcast_strides(&index.sizes, &index.strides, common.len()).iter().copied());
        }
    };
    for (i, &dim) in others.iter().enumerate() {
        if i == at {
            common_part(&mut plan, &mut layout);
        }
        plan.sizes.push(sizes[dim]);
        plan.strides.push(strides[dim]);
        plan.offset_strides.push(0);
        layout.iter_mut().for_each(|strides| strides.push(0));
    }
    if at >= others.len() {
        common_part(&mut plan, &mut layout);
    }
    c10_core::bytes::numel(&plan.sizes)?;
    layout.insert(0, plan.strides.clone());
    let result_strides = crate::iter::result_strides(&plan.sizes, &layout)?;
    Ok(Selection { plan, result_strides })
}

/// Each index for its dimension; masks become the coordinates of their true elements.
fn expand(this: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Index>>> {
    let mut expanded = Vec::new();
    for index in indices {
        let Some(index) = index else {
            expanded.push(None);
            continue;
        };
        match index.dtype() {
            ScalarType::Int64 | ScalarType::Int32 => {
                let values = if index.is_meta() { Vec::new() } else { index_values::values(index)? };
                expanded.push(Some(Index { sizes: index.sizes(), strides: index.strides(), values }));
            }
            ScalarType::Bool | ScalarType::UInt8 => expand_mask(this, index, &mut expanded)?,
            other => {
                return Err(Error::index(format!(
                    "tensors used as indices must be long, int, byte or bool tensors, not {}",
                    other.name()
                )));
            }
        }
    }
    let rank = this.rank();
    if expanded.len() > rank {
        return Err(Error::index(format!(
            "too many indices for tensor of dimension {rank} (got {})",
            expanded.len()
        )));
    }
    let sizes = this.sizes();
    for (dim, index) in expanded.iter_mut().enumerate() {
        for value in index.iter_mut().flat_map(|index| &mut index.values) {
            if *value < -sizes[dim] || *value >= sizes[dim] {
                return Err(out_of_bounds(*value, dim, sizes[dim]));
            }
            *value += if *value < 0 { sizes[dim] } else { 0 };
        }
    }
    Ok(expanded)
}

fn expand_mask(this: &Tensor, mask: &Tensor, expanded: &mut Vec<Option<Index>>) -> Result<()> {
    if mask.is_meta() {
        return Err(Error::not_implemented("how many elements a mask selects is not known of a meta tensor"));
    }
    let (sizes, mask_sizes) = (this.sizes(), mask.sizes());
    let first = expanded.len();
    for (i, &size) in mask_sizes.iter().enumerate() {
        if sizes.get(first + i) != Some(&size) {
            return Err(Error::index(format!(
                "The shape of the mask {mask_sizes:?} at index {i} does not match the shape of the indexed tensor \
                 {sizes:?} at index {}",
                first + i
            )));
        }
    }
    let truths: Vec<bool> = mask.to_dtype(ScalarType::Bool)?.to_vec()?;
    let mut coordinates = vec![Vec::new(); mask_sizes.len()];
    let mut position = vec![0; mask_sizes.len()];
    for truth in truths {
        if truth {
            coordinates.iter_mut().zip(&position).for_each(|(column, &at)| column.push(at));
        }
        for dim in (0..position.len()).rev() {
            position[dim] += 1;
            if position[dim] < mask_sizes[dim] {
                break;
            }
            position[dim] = 0;
        }
    }
    expanded.extend(coordinates.into_iter().map(|values| {
        Some(Index { sizes: Dims::from([values.len() as i64]), strides: Dims::from([1]), values })
    }));
    Ok(())
}

/// What the indices add to a position, for each position of their common shape.
fn offsets(indices: &[Option<Index>], common: &Dims, strides: &Dims) -> Result<Vec<usize>> {
    let numel = c10_core::bytes::numel(common)? as usize;
    let mut offsets = vec![0; numel];
    for (dim, index) in indices.iter().enumerate() {
        let Some(index) = index else { continue };
        if index.values.is_empty() {
            continue;
        }
        let row_major = shape::contiguous_strides(&index.sizes)?;
        let at = broadcast_strides(&index.sizes, &row_major, common.len());
        let mut offset = offsets.iter_mut();
        crate::kernels::cpu::strided::for_each(common, [&at], |[i]| {
            if let Some(offset) = offset.next() {
                *offset += (index.values[i] * strides[dim]) as usize;
            }
        });
    }
    Ok(offsets)
}

/// Strides over `rank` dimensions, 0 where the sizes are repeated.
fn broadcast_strides(sizes: &[i64], strides: &[i64], rank: usize) -> Dims {
    let mut out = Dims::filled(0, rank);
    let lead = rank - sizes.len();
    for (dim, &size) in sizes.iter().enumerate() {
        out[lead + dim] = if size == 1 { 0 } else { strides[dim] };
    }
    out
}
