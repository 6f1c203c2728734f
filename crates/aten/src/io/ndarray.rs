//! Arrays of the `ndarray` crate, copied in and out.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use c10_core::Element;

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;

impl Tensor {
    /// A contiguous tensor of the elements of an array, whatever the array's strides.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] when there are more elements than can be counted, [`ErrorKind::OutOfMemory`].
    pub fn from_ndarray<T, S, D>(array: &ArrayBase<S, D>) -> Result<Self>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        let sizes: Result<Vec<i64>, _> = array.shape().iter().map(|&size| i64::try_from(size)).collect();
        let sizes = sizes.map_err(|_| {
            Error::new(ErrorKind::Overflow, "the array has more elements than can be counted")
        })?;
        match array.as_slice() {
            Some(elements) => Self::from_slice(elements, &sizes),
            None => Self::from_slice(&array.iter().copied().collect::<Vec<_>>(), &sizes),
        }
    }

    /// An array of the elements in row-major order, whatever the strides.
    ///
    /// ```
    /// let tensor = aten::Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(tensor.to_ndarray::<f32>()?, ndarray::arr2(&[[1.0, 2.0], [3.0, 4.0]]).into_dyn());
    /// # Ok::<(), aten::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec); [`ErrorKind::Overflow`] for a tensor without elements whose other sizes
    /// no array has.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let sizes: Vec<usize> = self.sizes().iter().map(|&size| size as usize).collect();
        ArrayD::from_shape_vec(IxDyn(&sizes), self.to_vec()?).map_err(|error| {
            Error::new(ErrorKind::Overflow, format!("no array has sizes {sizes:?}: {error}"))
        })
    }
}
