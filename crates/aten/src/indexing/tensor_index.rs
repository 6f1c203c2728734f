//! Reading and assigning through an index.

use c10_core::Scalar;

use super::list::IndexList;
use super::plan::Plan;
use crate::error::Result;
use crate::tensor::Tensor;

impl Tensor {
    /// What the index means of the tensor (`x[…]`): a view, unless tensors or truth values are in the index.
    ///
    /// ```
    /// use aten::Tensor;
    /// use aten::indexing::{All, NewAxis, step};
    ///
    /// let x = Tensor::from_slice(&[0, 1, 2, 3, 4, 5], &[2, 3])?;
    /// assert_eq!(x.i((1, -1))?.item()?, 5_i64);
    /// assert_eq!(x.i((.., 1..))?.to_vec::<i32>()?, [1, 2, 4, 5]);
    /// assert_eq!(x.i((NewAxis, All, step(.., 2)))?.sizes(), [1, 2, 2]);
    /// # Ok::<(), aten::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Index`](crate::ErrorKind::Index) when a place is out of range or there are more items than
    /// dimensions; else as `index.Tensor`.
    pub fn i(&self, index: impl IndexList) -> Result<Self> {
        let Plan { view, indices } = Plan::of(self, &index.into_items())?;
        if indices.is_empty() { Ok(view) } else { view.index(&indices) }
    }

    /// Writes `value`, broadcast, to what the index means of the tensor (`x[…] = value`).
    ///
    /// # Errors
    /// As [`i`](Self::i), `copy_` and `index_put_`. Nothing is written then.
    pub fn i_put_(&self, index: impl IndexList, value: &Self) -> Result<&Self> {
        let Plan { view, indices } = Plan::of(self, &index.into_items())?;
        let value = without_leading_ones(value)?;
        if indices.is_empty() {
            view.copy_(&value)?;
        } else {
            view.index_put_(&indices, &value)?;
        }
        Ok(self)
    }

    /// Writes a number to each element that the index means (`x[…] = 3`).
    ///
    /// # Errors
    /// As [`i`](Self::i), `fill_` and `index_put_`. Nothing is written then.
    pub fn i_fill_(&self, index: impl IndexList, value: impl Into<Scalar>) -> Result<&Self> {
        let Plan { view, indices } = Plan::of(self, &index.into_items())?;
        if indices.is_empty() {
            view.fill_scalar_(value)?;
        } else {
            let value = Self::scalar_tensor(value, (view.dtype(), view.device()))?;
            view.index_put_(&indices, &value)?;
        }
        Ok(self)
    }
}

/// A value may have more leading dimensions of size 1 than what it is written to.
fn without_leading_ones(value: &Tensor) -> Result<Tensor> {
    let sizes = value.sizes();
    let ones = sizes.iter().take_while(|&&size| size == 1).count();
    if ones == 0 { Ok(value.clone()) } else { value.view(&sizes[ones..]) }
}
