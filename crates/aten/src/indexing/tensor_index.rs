//! Reading and assigning through an index.

use c10_core::{Complex, F8E4M3Fn, F8E5M2, Scalar, bf16, f16};

use super::list::IndexList;
use super::plan::Plan;
use crate::dispatch::{Dispatcher, Stack, Value};
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::tensor::Tensor;

impl Tensor {
    /// What the index means of the tensor (`x[…]`): a view, unless tensors or truth values are in the index.
    ///
    /// ```
    /// use aten::Tensor;
    /// use aten::indexing::{All, NewAxis, step};
    ///
    /// let x = Tensor::from_slice(&[0, 1, 2, 3, 4, 5], &[2, 3])?;
    /// assert_eq!(x.i((1, -1))?.item()?, 5.into());
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
        if indices.is_empty() { Ok(view) } else { index_tensor(&view, indices) }
    }

    /// Writes `value`, broadcast, to what the index means of the tensor (`x[…] = value`).
    ///
    /// # Errors
    /// As [`i`](Self::i), `copy_` and `index_put_`. Nothing is written then.
    pub fn i_put_(&self, index: impl IndexList, value: &Self) -> Result<&Self> {
        let Plan { view, indices } = Plan::of(self, &index.into_items())?;
        let value = without_leading_ones(value, view.rank())?;
        if indices.is_empty() {
            view.copy_(&value)?;
        } else {
            index_put(&view, indices, &value)?;
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
            view.copy_(&filler(&view, value.into())?)?;
        } else {
            let value = filler(&view, value.into())?;
            index_put(&view, indices, &value)?;
        }
        Ok(self)
    }
}

/// A value may have more leading dimensions of size 1 than what it is written to.
fn without_leading_ones(value: &Tensor, rank: usize) -> Result<Tensor> {
    let sizes = value.sizes();
    let extra = sizes.len().saturating_sub(rank);
    let ones = sizes[..extra].iter().take_while(|&&size| size == 1).count();
    if ones == 0 { Ok(value.clone()) } else { value.view(&sizes[ones..]) }
}

/// A 0-dim tensor of a number, of the dtype of what it is written to.
fn filler(view: &Tensor, value: Scalar) -> Result<Tensor> {
    let number = dispatch!(
        view.dtype(),
        "fill_",
        [
            bool, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, Complex<f16>, Complex<f32>, Complex<f64>,
            F8E4M3Fn, F8E5M2
        ],
        T => Tensor::from_slice(&[value.to::<T>()?], &[])
    )?;
    number.to(view.device())
}

fn index_tensor(view: &Tensor, indices: Vec<Option<Tensor>>) -> Result<Tensor> {
    let mut stack = vec![view.clone().into(), indices.into()];
    call("aten::index.Tensor", &mut stack)?;
    match stack.pop() {
        Some(Value::Tensor(result)) => Ok(result),
        _ => Err(Error::not_implemented("index.Tensor gave no tensor")),
    }
}

fn index_put(view: &Tensor, indices: Vec<Option<Tensor>>, value: &Tensor) -> Result<()> {
    let accumulate = Value::from(false);
    call("aten::index_put_", &mut vec![view.clone().into(), indices.into(), value.clone().into(), accumulate])
}

fn call(name: &str, stack: &mut Stack) -> Result<()> {
    let operator = Dispatcher::global().find(name);
    operator.ok_or_else(|| Error::not_implemented(format!("there is no {name}")))?.call_boxed(stack)
}
