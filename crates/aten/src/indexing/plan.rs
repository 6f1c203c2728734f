//! The view that all items but tensors make, and the list of tensors that index it.

use c10_core::{Device, ScalarType};

use super::item::IndexItem;
use crate::error::{Error, Result};
use crate::tensor::{SliceOptions, Tensor};

/// A view, and the tensors that index it: one entry for each of its leading dimensions, or for each run of them
/// that a mask covers.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) view: Tensor,
    pub(super) indices: Vec<Option<Tensor>>,
}

impl Plan {
    /// Applies the items to `tensor`, first to last.
    pub(super) fn of(tensor: &Tensor, items: &[IndexItem]) -> Result<Self> {
        let rank = tensor.rank() as i64;
        let specified: i64 = items.iter().map(dimensions_of).sum();
        if specified > rank {
            return Err(Error::index(format!("too many indices for tensor of dimension {rank}")));
        }
        let ellipses = items.iter().filter(|item| matches!(item, IndexItem::Ellipsis)).count();
        if ellipses > 1 {
            return Err(Error::index("an index can only have a single ellipsis ('..')"));
        }
        let mut planner = Planner { view: tensor.alias()?, dim: 0, indices: Vec::new() };
        for item in items {
            planner.apply(item, rank - specified)?;
        }
        while planner.indices.last().is_some_and(Option::is_none) {
            planner.indices.pop();
        }
        Ok(Self { view: planner.view, indices: planner.indices })
    }
}

/// How many dimensions of the tensor an item speaks of.
fn dimensions_of(item: &IndexItem) -> i64 {
    match item {
        IndexItem::Integer(_) | IndexItem::Slice(_) => 1,
        IndexItem::Ellipsis | IndexItem::NewAxis | IndexItem::Bool(_) => 0,
        IndexItem::Tensor(tensor) if is_mask(tensor) => tensor.rank() as i64,
        IndexItem::Tensor(_) => 1,
    }
}

fn is_mask(tensor: &Tensor) -> bool {
    matches!(tensor.dtype(), ScalarType::Bool | ScalarType::UInt8)
}

struct Planner {
    view: Tensor,
    /// The dimension of `view` that the next item speaks of.
    dim: i64,
    indices: Vec<Option<Tensor>>,
}

impl Planner {
    fn apply(&mut self, item: &IndexItem, left: i64) -> Result<()> {
        match item {
            IndexItem::Integer(index) => self.select(*index),
            IndexItem::Slice(slice) => {
                self.view = self.view.slice_with(SliceOptions {
                    dim: self.dim,
                    start: slice.start,
                    end: slice.end,
                    step: slice.step,
                })?;
                self.keep(1);
                Ok(())
            }
            IndexItem::Ellipsis => {
                self.keep(left);
                Ok(())
            }
            IndexItem::NewAxis => {
                self.view = self.view.unsqueeze(self.dim)?;
                self.keep(1);
                Ok(())
            }
            IndexItem::Bool(value) => self.truth(*value),
            IndexItem::Tensor(tensor) => self.tensor(tensor),
        }
    }

    fn select(&mut self, index: i64) -> Result<()> {
        let size = self.view.sizes()[self.dim as usize];
        if index < -size || index >= size {
            return Err(Error::index(format!(
                "index {index} is out of bounds for dimension {} with size {size}",
                self.dim
            )));
        }
        self.view = self.view.select(self.dim, index)?;
        Ok(())
    }

    /// A truth value indexes a new dimension of size 1: it is there once, or not at all.
    fn truth(&mut self, value: bool) -> Result<()> {
        self.view = self.view.unsqueeze(self.dim)?;
        let places: &[i64] = if value { &[0] } else { &[] };
        let index = Tensor::from_slice(places, &[places.len() as i64])?;
        self.index(index, 1);
        Ok(())
    }

    fn tensor(&mut self, tensor: &Tensor) -> Result<()> {
        let is_zero_dim = tensor.rank() == 0 && tensor.device() == Device::CPU;
        match tensor.dtype() {
            ScalarType::Bool | ScalarType::UInt8 if is_zero_dim => self.truth(tensor.item()?.to::<bool>()?),
            dtype if is_zero_dim && dtype.is_integral(false) => self.select(tensor.item()?.to::<i64>()?),
            _ => {
                let covered = if is_mask(tensor) { tensor.rank() as i64 } else { 1 };
                self.index(tensor.clone(), covered);
                Ok(())
            }
        }
    }

    /// Goes past `count` dimensions that no tensor indexes.
    fn keep(&mut self, count: i64) {
        self.indices.extend((0..count).map(|_| None));
        self.dim += count;
    }

    fn index(&mut self, tensor: Tensor, covered: i64) {
        self.indices.push(Some(tensor));
        self.dim += covered;
    }
}
