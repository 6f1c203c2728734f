//! [`Dest`]: where the result of an operator goes, so that one function is its functional, its in-place and
//! its `out=` form.

use c10_core::{MemoryFormat, ScalarType};

use crate::error::{Error, Result};
use crate::tensor::{Dims, Fresh, New, Tensor};
use crate::{kernels, shape};

/// Where a result goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dest<'a> {
    /// To a new tensor.
    New,
    /// To this one, which is an argument too and keeps its sizes (`add_`).
    InPlace(&'a Tensor),
    /// To this one, which is resized where it must be (`out=`).
    Out(&'a Tensor),
}

/// What an operator made: a new tensor, or nothing, when it wrote to a given one.
#[derive(Debug)]
pub(crate) struct Made(Option<Tensor>);

impl Made {
    pub(crate) fn new(tensor: Tensor) -> Self {
        Self(Some(tensor))
    }

    pub(crate) fn written() -> Self {
        Self(None)
    }

    /// The tensor made for [`Dest::New`].
    pub(crate) fn new_tensor(self) -> Tensor {
        self.0.expect("an operator makes a tensor where none is given")
    }
}

/// Where a kernel that is no loop over a `TensorIter` writes: a dense tensor that shares memory with no
/// argument. [`finish`](Self::finish) brings the elements to where they should be.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    dest: Option<&'a Tensor>,
    tensor: Tensor,
    is_dest: bool,
}

impl<'a> Dest<'a> {
    /// The tensor that is given.
    pub(crate) fn given(self) -> Option<&'a Tensor> {
        match self {
            Self::New => None,
            Self::InPlace(tensor) | Self::Out(tensor) => Some(tensor),
        }
    }

    /// A place for a result of `new`'s sizes, strides, dtype and device. A given tensor must be of the dtype or one
    /// that it can be cast to; in-place it must have the sizes, else it is resized. It is written directly if it
    /// has the strides wanted and shares no storage with one of `inputs`.
    pub(crate) fn output(self, new: New, inputs: &[&Tensor]) -> Result<Output<'a>> {
        let Some(dest) = self.given() else {
            return Ok(Output { dest: None, tensor: new.make()?, is_dest: false });
        };
        self.check(&new)?;
        let strides = match &new.strides {
            Some(strides) => strides.clone(),
            None => shape::contiguous_strides(&new.sizes)?,
        };
        if *dest.geometry().sizes != *new.sizes {
            dest.resize_for_output(&new.sizes, &strides)?;
        }
        let direct = dest.dtype() == new.dtype
            && !dest.has_math_bits()
            && *dest.geometry().strides == *strides
            && !inputs.iter().any(|input| input.is_alias_of(dest));
        let tensor = if direct { dest.clone() } else { new.make()? };
        Ok(Output { dest: Some(dest), tensor, is_dest: direct })
    }

    /// Refuses a given tensor of another dtype: for operators whose results are not cast.
    pub(crate) fn check_dtype(self, dtype: ScalarType) -> Result<()> {
        match self.given() {
            Some(given) if given.dtype() != dtype => Err(Error::dtype(format!(
                "Expected out tensor to have dtype {}, but got {} instead",
                dtype.name(),
                given.dtype().name()
            ))),
            _ => Ok(()),
        }
    }

    /// A place for a result that begins as a copy of `this`, of which an operator then writes some elements,
    /// reading `others`. In place these are the elements of `this` where they stand; a new result has `strides`.
    pub(crate) fn output_from(self, this: &Tensor, strides: Dims, others: &[&Tensor]) -> Result<Output<'a>> {
        self.check_dtype(this.dtype())?;
        let mut inputs: smallvec::SmallVec<[&Tensor; 4]> = others.iter().copied().collect();
        let strides = match self {
            Self::InPlace(_) => this.strides(),
            _ => strides,
        };
        if self.given().is_none_or(|given| !given.is_same(this)) {
            inputs.push(this);
        }
        let output =
            self.output(New::strided(this.sizes(), strides, this.dtype(), this.device()), &inputs)?;
        if !output.is_meta() && !output.tensor.is_same(this) {
            output.copy_from(this)?;
        }
        Ok(output)
    }

    fn check(self, new: &New) -> Result<()> {
        let Some(dest) = self.given() else { return Ok(()) };
        if dest.device() != new.device {
            return Err(Error::new(
                crate::ErrorKind::Device,
                format!("Expected out tensor to be on {}, but it is on {}", new.device, dest.device()),
            ));
        }
        if !c10_core::can_cast(new.dtype, dest.dtype()) {
            return Err(Error::dtype(format!(
                "result type {} can't be cast to the desired output type {}",
                new.dtype.name(),
                dest.dtype().name()
            )));
        }
        if matches!(self, Self::InPlace(_)) && *dest.geometry().sizes != *new.sizes {
            return Err(Error::shape(format!(
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                dest.sizes(),
                new.sizes
            )));
        }
        crate::iter::overlap::check_no_internal_overlap(dest)
    }
}

impl Output<'_> {
    /// Where the kernel writes.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Whether there are no elements to write: the kernel has nothing to do.
    pub(crate) fn is_meta(&self) -> bool {
        self.tensor.is_meta()
    }

    /// Whether writing counts: the tensor was there before. For [`access`](crate::tensor::access).
    pub(crate) fn fresh(&self) -> Fresh {
        if self.is_dest { Fresh::No } else { Fresh::Yes }
    }

    /// As [`fresh`](Self::fresh), of several that are written together.
    pub(crate) fn fresh_of(outputs: &[&Self]) -> Fresh {
        let all_new = outputs.iter().all(|output| !output.is_dest);
        if all_new { Fresh::Yes } else { Fresh::No }
    }

    /// Copies the elements of a tensor, broadcast, to where the kernel writes.
    pub(crate) fn copy_from(&self, src: &Tensor) -> Result<()> {
        match self.fresh() {
            Fresh::Yes => kernels::copy_fresh(&self.tensor, src),
            Fresh::No => kernels::copy(&self.tensor, src),
        }
    }

    /// Copies to the given tensor what was not written to it directly.
    pub(crate) fn finish(self) -> Result<Made> {
        match self.dest {
            None => Ok(Made::new(self.tensor)),
            Some(_) if self.is_dest => Ok(Made::written()),
            Some(dest) => {
                kernels::copy(dest, &self.tensor)?;
                Ok(Made::written())
            }
        }
    }
}

impl Tensor {
    /// Makes room for an output of other sizes (`at::native::resize_output`).
    ///
    /// Differs from PyTorch: an output that is a part of a larger storage does not grow over elements that are
    /// other tensors' as well.
    pub(crate) fn resize_for_output(&self, sizes: &Dims, strides: &Dims) -> Result<()> {
        let needed = c10_core::bytes::strided_bytes(
            sizes,
            strides,
            self.dtype().element_size(),
            self.storage_offset(),
        )?;
        let (end, bytes) = {
            let geometry = self.geometry();
            (geometry.end_bytes, geometry.storage.nbytes())
        };
        if needed > end && bytes > end && self.as_impl().shares_storage() {
            return Err(Error::shape(format!(
                "an output of sizes {:?} is part of a storage that others use, and cannot be resized to {sizes:?} \
                 without writing over their elements",
                self.sizes()
            )));
        }
        self.resize_geometry(sizes.clone(), strides.clone())
    }

    /// `contiguous()` for kernels: the tensor itself, or a row-major copy. Neither carries a math bit.
    pub(crate) fn to_contiguous(&self) -> Result<Tensor> {
        self.to_format(MemoryFormat::Contiguous)
    }

    /// As [`to_contiguous`](Self::to_contiguous), in a memory format.
    pub(crate) fn to_format(&self, format: MemoryFormat) -> Result<Tensor> {
        if self.is_contiguous_in(format) && !self.has_math_bits() {
            return Ok(self.clone());
        }
        let strides = shape::strides_of_format(&self.sizes(), format)?;
        let copy = New::strided(self.sizes(), strides, self.dtype(), self.device()).make()?;
        kernels::copy_fresh(&copy, self)?;
        Ok(copy)
    }

    /// The strides of a dense tensor whose dimensions are in the order of this one's.
    pub(crate) fn dense_strides(&self) -> Result<Dims> {
        let geometry = self.geometry();
        shape::dense_strides_like(&geometry.sizes, &geometry.strides)
    }

    /// The tensor itself, or a copy of another dtype that keeps the strides where they are dense. Neither carries
    /// a math bit.
    pub(crate) fn to_dtype(&self, dtype: ScalarType) -> Result<Tensor> {
        if self.dtype() == dtype && !self.has_math_bits() {
            return Ok(self.clone());
        }
        let copy = New::strided(self.sizes(), self.dense_strides()?, dtype, self.device()).make()?;
        kernels::copy_fresh(&copy, self)?;
        Ok(copy)
    }
}
