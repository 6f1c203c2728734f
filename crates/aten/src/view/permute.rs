//! Dimensions in another order.

use smallvec::SmallVec;

use super::Strided;
use crate::error::{Error, Result};
use crate::shape::wrap_dim;

impl Strided {
    /// `permute`: the dimension `dims[i]` becomes the `i`th.
    pub(crate) fn permute(&mut self, dims: &[i64]) -> Result<()> {
        if dims.len() != self.rank() {
            return Err(Error::shape(format!(
                "permute: number of dimensions in the tensor input does not match the length of the desired ordering \
                 of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
                self.rank(),
                dims.len()
            )));
        }
        let mut order: SmallVec<[usize; 5]> = SmallVec::new();
        for &dim in dims {
            let dim = wrap_dim(dim, self.rank())?;
            if order.contains(&dim) {
                return Err(Error::invalid_argument("permute(): duplicate dims are not allowed."));
            }
            order.push(dim);
        }
        *self = self.in_order(&order);
        Ok(())
    }

    /// `transpose`: two dimensions change places. A 0-dim tensor has one dimension to change with itself.
    #[inline(always)]
    pub(crate) fn transpose(&mut self, dim0: i64, dim1: i64) -> Result<()> {
        let (a, b) = (wrap_dim(dim0, self.rank())?, wrap_dim(dim1, self.rank())?);
        if a != b {
            self.sizes.swap(a, b);
            self.strides.swap(a, b);
        }
        Ok(())
    }

    /// `t`: a matrix transposed; fewer dimensions stay.
    pub(crate) fn t(&mut self) -> Result<()> {
        match self.rank() {
            0 | 1 => Ok(()),
            2 => self.transpose(0, 1),
            rank => {
                Err(Error::shape(format!("t() expects a tensor with <= 2 dimensions, but self is {rank}D")))
            }
        }
    }

    fn in_order(&self, order: &[usize]) -> Self {
        Self {
            sizes: order.iter().map(|&dim| self.sizes[dim]).collect(),
            strides: order.iter().map(|&dim| self.strides[dim]).collect(),
            storage_offset: self.storage_offset,
        }
    }
}

/// The order of `rank` dimensions after those of `source` moved to the places `destination`, the others
/// keeping theirs among each other (`movedim`).
pub(crate) fn moved(rank: usize, source: &[i64], destination: &[i64]) -> Result<SmallVec<[i64; 5]>> {
    if source.len() != destination.len() {
        return Err(Error::invalid_argument(format!(
            "movedim: Invalid source or destination dims: source ({source:?} dims) should contain the same number of \
             dims as destination ({destination:?} dims)"
        )));
    }
    let from = distinct(rank, source, "source")?;
    let to = distinct(rank, destination, "destination")?;
    let mut rest = (0..rank).filter(|dim| !from.contains(dim));
    let order = (0..rank).map(|place| match to.iter().position(|&dim| dim == place) {
        Some(at) => from[at] as i64,
        None => rest.next().map_or(0, |dim| dim as i64),
    });
    Ok(order.collect())
}

fn distinct(rank: usize, dims: &[i64], what: &str) -> Result<SmallVec<[usize; 5]>> {
    let mut wrapped = SmallVec::new();
    for &dim in dims {
        let dim = wrap_dim(dim, rank)?;
        if wrapped.contains(&dim) {
            return Err(Error::invalid_argument(format!("movedim: repeated dim in `{what}` ({dims:?})")));
        }
        wrapped.push(dim);
    }
    Ok(wrapped)
}
