//! [`TensorIter`]: element by element over several tensors at once (`at::TensorIterator`).
//!
//! It broadcasts the inputs to one shape, finds the dtype that the loop computes in, casts inputs to it, makes
//! or resizes outputs, checks that what is written overlaps nothing, and brings the dimensions, those of all
//! operands alike, into the order in which memory is walked best. What remains is one loop of [`loops`] over
//! raw pointers and byte strides.
//!
//! ```text
//! let iter = TensorIter::binary(dest, a, b, Config::PROMOTE)?;
//! if !iter.is_meta() { loops::binary(&iter, |a: f32, b: f32| a + b)?; }
//! iter.finish()
//! ```

mod apart;
pub(crate) mod blocks;
pub(crate) mod config;
mod flat;
pub(crate) mod lane;
pub(crate) mod loops;
mod operand;
pub(crate) mod overlap;
mod plan;
pub(crate) mod promote;
pub(crate) mod run;
#[cfg(test)]
mod tests;

use c10_core::{Device, ScalarType};

pub(crate) use config::{Config, Input};
use flat::Flat;
use plan::General;
pub(crate) use plan::{result_strides, walk_order};

use crate::error::{Error, Result};
use crate::ops::{Dest, Made};
use crate::tensor::Tensor;

/// Several tensors, walked element by element. Outputs come first.
#[derive(Debug)]
pub(crate) struct TensorIter<'a> {
    /// The operands, if they are of the simple kind.
    flat: Flat<'a>,
    /// The operands, if they are of any other kind.
    general: Option<General<'a>>,
    outputs: usize,
    numel: i64,
    device: Device,
    /// The dtype that inputs are cast to and the loop computes in.
    common_dtype: ScalarType,
    /// Given outputs count a write.
    counts_writes: bool,
}

impl<'a> TensorIter<'a> {
    /// An output of one input.
    pub(crate) fn unary(dest: Dest<'a>, input: &'a Tensor, config: Config) -> Result<Self> {
        Self::new(&[dest], &[Input::Tensor(input)], config)
    }

    /// An output of two inputs.
    pub(crate) fn binary(
        dest: Dest<'a>,
        a: impl Into<Input<'a>>,
        b: impl Into<Input<'a>>,
        config: Config,
    ) -> Result<Self> {
        Self::new(&[dest], &[a.into(), b.into()], config)
    }

    /// Outputs and inputs of any number.
    ///
    /// # Errors
    /// When sizes, dtypes or devices do not go together, or what is written overlaps. A given output is
    /// resized at most.
    pub(crate) fn new(dests: &[Dest<'a>], inputs: &[Input<'a>], config: Config) -> Result<Self> {
        let mut iter = Self::unplanned();
        iter.plan(dests, inputs, config)?;
        Ok(iter)
    }

    /// An iterator to be [planned](Self::plan) where it is. It is large, and operators that are called for single
    /// elements should not move it.
    #[inline(always)]
    pub(crate) fn unplanned() -> Self {
        Self {
            flat: Flat::none(),
            general: None,
            outputs: 0,
            numel: 0,
            device: Device::CPU,
            common_dtype: ScalarType::Float32,
            counts_writes: true,
        }
    }

    /// [`new`](Self::new), of one that has no plan yet.
    ///
    /// # Errors
    /// As [`new`](Self::new). It has no plan then.
    #[inline]
    pub(crate) fn plan(&mut self, dests: &[Dest<'a>], inputs: &[Input<'a>], config: Config) -> Result<()> {
        match (dests, inputs) {
            (&[dest], [_]) => flat::plan::<1>(self, dest, inputs, config)?,
            (&[dest], [_, _]) => flat::plan::<2>(self, dest, inputs, config)?,
            (&[dest], [_, _, _]) => flat::plan::<3>(self, dest, inputs, config)?,
            _ => {}
        }
        if self.flat.count() == 0 {
            plan::plan(self, dests, inputs, config)?;
        }
        self.counts_writes = !config.fresh_outputs;
        Ok(())
    }

    /// Whether there are no elements: the loop has nothing to do.
    #[inline]
    pub(crate) fn is_meta(&self) -> bool {
        self.device == Device::META
    }

    /// The dtype that inputs are cast to and the loop computes in.
    #[inline]
    pub(crate) fn common_dtype(&self) -> ScalarType {
        self.common_dtype
    }

    /// The dtype of operand `i` as the loop sees it.
    #[inline]
    pub(crate) fn dtype(&self, i: usize) -> ScalarType {
        match &self.general {
            Some(general) => general.operands[i].dtype,
            None => self.flat.dtypes()[i],
        }
    }

    /// The dtypes of all operands, if there are `N`, and so many of them are outputs.
    #[inline]
    fn dtypes<const N: usize>(&self, outputs: usize) -> Result<[ScalarType; N]> {
        if self.outputs != outputs || self.count() != N {
            return Err(self.wrong_count(outputs, N));
        }
        Ok(match &self.general {
            Some(general) => std::array::from_fn(|i| general.operands[i].dtype),
            None => std::array::from_fn(|i| self.flat.dtypes()[i]),
        })
    }

    #[cold]
    fn wrong_count(&self, outputs: usize, operands: usize) -> Error {
        Error::invalid_argument(format!(
            "a loop of {outputs} outputs and {} inputs over {} and {}",
            operands - outputs,
            self.outputs,
            self.count() - self.outputs
        ))
    }

    /// How many operands there are.
    #[inline]
    fn count(&self) -> usize {
        self.general.as_ref().map_or(self.flat.count(), |general| general.operands.len())
    }

    /// Copies outputs to given tensors of other dtypes, and gives the first output.
    #[inline(always)]
    pub(crate) fn finish(mut self) -> Result<Made> {
        self.finish_first()
    }

    /// [`finish`](Self::finish), of one that stays where it is. It is not to be used again.
    #[inline]
    pub(crate) fn finish_first(&mut self) -> Result<Made> {
        match &mut self.general {
            None => Ok(self.flat.finish()),
            Some(general) => general.finish(self.outputs),
        }
    }
}
