//! [`TensorDataset`]: tensors whose first dimension counts examples.

use aten::{Error, Result, Tensor};

/// Examples in memory: tensors with the same first size (`torch.utils.data.TensorDataset`).
#[derive(Clone, Debug)]
pub struct TensorDataset {
    tensors: Vec<Tensor>,
    examples: i64,
}

impl TensorDataset {
    /// Of at least one tensor.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](aten::ErrorKind::Shape) when first sizes differ or one is missing.
    pub fn new(tensors: Vec<Tensor>) -> Result<Self> {
        let sizes: Vec<Option<i64>> = tensors.iter().map(|tensor| tensor.sizes().first().copied()).collect();
        match sizes.first() {
            Some(Some(examples)) if sizes.iter().all(|size| size == &Some(*examples)) => {
                Ok(Self { examples: *examples, tensors })
            }
            _ => {
                Err(Error::shape("a dataset is tensors whose first sizes are the same")
                    .with_tensors(&tensors))
            }
        }
    }

    /// How many examples there are.
    pub fn examples(&self) -> i64 {
        self.examples
    }

    /// The tensors, whole.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// A run of examples: views of each tensor.
    ///
    /// # Errors
    /// [`ErrorKind::Index`](aten::ErrorKind::Index) when they are not all there.
    pub fn slice(&self, start: i64, length: i64) -> Result<Self> {
        let tensors =
            self.tensors.iter().map(|tensor| tensor.narrow(0, start, length)).collect::<Result<_>>()?;
        Ok(Self { tensors, examples: length })
    }

    /// The examples of these numbers, copied from each tensor.
    ///
    /// # Errors
    /// [`ErrorKind::Index`](aten::ErrorKind::Index) when one is not there.
    pub fn select(&self, numbers: &Tensor) -> Result<Vec<Tensor>> {
        self.tensors.iter().map(|tensor| tensor.index_select(0, numbers)).collect()
    }
}
