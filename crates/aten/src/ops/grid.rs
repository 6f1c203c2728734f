//! Several tensors at once: brought to at least some dimensions, broadcast to each other, laid out as a grid, put
//! along a diagonal.

use super::new_options::fill_fresh;
use crate::dispatch::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::shape;
use crate::tensor::{Dims, New, SliceOptions, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.composite("atleast_1d", at_least_1d)?;
    lib.composite("atleast_2d", at_least_2d)?;
    lib.composite("atleast_3d", at_least_3d)?;
    lib.composite("atleast_1d.Sequence", |x: &[Tensor]| {
        x.iter().map(at_least_1d).collect::<Result<Vec<_>>>()
    })?;
    lib.composite("atleast_2d.Sequence", |x: &[Tensor]| {
        x.iter().map(at_least_2d).collect::<Result<Vec<_>>>()
    })?;
    lib.composite("atleast_3d.Sequence", |x: &[Tensor]| {
        x.iter().map(at_least_3d).collect::<Result<Vec<_>>>()
    })?;
    lib.composite("broadcast_tensors", broadcast_tensors)?;
    lib.composite("meshgrid", |tensors: &[Tensor]| meshgrid(tensors, "ij"))?;
    lib.composite("meshgrid.indexing", meshgrid)?;
    lib.all_backends("block_diag", block_diag)
}

fn at_least_1d(x: &Tensor) -> Result<Tensor> {
    if x.rank() == 0 { x.reshape(&[1]) } else { Ok(x.clone()) }
}

fn at_least_2d(x: &Tensor) -> Result<Tensor> {
    match x.rank() {
        0 => x.reshape(&[1, 1]),
        1 => x.unsqueeze(0),
        _ => Ok(x.clone()),
    }
}

fn at_least_3d(x: &Tensor) -> Result<Tensor> {
    match x.rank() {
        0 => x.reshape(&[1, 1, 1]),
        1 => x.unsqueeze(0)?.unsqueeze(-1),
        2 => x.unsqueeze(-1),
        _ => Ok(x.clone()),
    }
}

fn broadcast_tensors(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut sizes = Dims::new();
    for tensor in tensors {
        sizes = shape::broadcast(&sizes, &tensor.sizes())?;
    }
    tensors.iter().map(|tensor| tensor.expand(&sizes)).collect()
}

fn meshgrid(tensors: &[Tensor], indexing: &str) -> Result<Vec<Tensor>> {
    let Some(first) = tensors.first() else {
        return Err(Error::invalid_argument("meshgrid expects a non-empty TensorList"));
    };
    for tensor in tensors {
        if tensor.rank() > 1 {
            return Err(Error::shape(format!(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got sizes {:?}",
                tensor.sizes()
            )));
        }
        if tensor.dtype() != first.dtype() {
            return Err(Error::dtype("torch.meshgrid expects all tensors to have the same dtype"));
        }
        if tensor.device() != first.device() {
            return Err(Error::new(
                ErrorKind::Device,
                "torch.meshgrid expects all tensors to have the same device",
            ));
        }
    }
    match indexing {
        "ij" => grid(tensors),
        "xy" if tensors.len() < 2 => grid(tensors),
        "xy" => {
            let mut swapped = tensors.to_vec();
            swapped.swap(0, 1);
            let mut grids = grid(&swapped)?;
            grids.swap(0, 1);
            Ok(grids)
        }
        _ => Err(Error::invalid_argument(format!(
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {indexing}"
        ))),
    }
}

/// Each tensor along a dimension of its own.
fn grid(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let sizes: Dims = tensors.iter().map(Tensor::numel).collect();
    let along = |(dim, tensor): (usize, &Tensor)| {
        let mut own = Dims::filled(1, tensors.len());
        own[dim] = sizes[dim];
        tensor.view(&own)?.expand(&sizes)
    };
    tensors.iter().enumerate().map(along).collect()
}

fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return New::contiguous([1, 0], crate::tensor::default_dtype(), c10_core::Device::CPU).make();
    };
    let mut dtype = first.dtype();
    let mut blocks = Vec::with_capacity(tensors.len());
    let (mut rows, mut columns) = (0_i64, 0_i64);
    for (index, tensor) in tensors.iter().enumerate() {
        if tensor.device() != first.device() {
            return Err(Error::new(
                ErrorKind::Device,
                format!(
                    "torch.block_diag: input tensors must all be on the same device. Input 0 is on device {} and \
                     input {index} is on device {}.",
                    first.device(),
                    tensor.device()
                ),
            ));
        }
        if tensor.rank() > 2 {
            return Err(Error::shape(format!(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {index} has {} dimensions",
                tensor.rank()
            )));
        }
        dtype = c10_core::promote_types(dtype, tensor.dtype())?;
        let block = at_least_2d(tensor)?;
        // Sizes of tensors that are there, so that the sums are far from an overflow; `make` checks the product.
        rows = rows.saturating_add(block.sizes()[0]);
        columns = columns.saturating_add(block.sizes()[1]);
        blocks.push(block);
    }
    let whole = New::contiguous([rows, columns], dtype, first.device()).make()?;
    fill_fresh(&whole, 0.into())?;
    let (mut row, mut column) = (0, 0);
    for block in &blocks {
        let [height, width] = [block.sizes()[0], block.sizes()[1]];
        let part =
            |dim, start, length| SliceOptions { dim, start: Some(start), end: Some(start + length), step: 1 };
        let place = whole.slice_with(part(0, row, height))?.slice_with(part(1, column, width))?;
        place.copy_(block)?;
        row += height;
        column += width;
    }
    Ok(whole)
}
