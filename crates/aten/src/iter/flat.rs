//! [`Flat`]: the operands of most operators, which are of one shape, dtype, device and dense layout, beside a number.
//! They are walked as one dimension: nothing has to be compared dimension by dimension, and little is kept of them.
//!
//! What is planned here, `plan` would plan with the same result; what is not so simple is left to it.

use c10_core::storage::{Access, AccessOptions};
use c10_core::{Scalar, ScalarType};
use smallvec::SmallVec;

use super::loops::number_bytes;
use super::operand::Bytes;
use super::run::{First, Further, GRAIN_SIZE, Rows, first_in};
use super::{Config, Input, TensorIter};
use crate::error::Result;
use crate::ops::{Dest, Made};
use crate::parallel::parallel_for;
use crate::tensor::{Geometry, Tensor, dense_like};

/// How many operands there are at most.
const FEW: usize = 4;

/// One output and a few inputs that are walked in the order in which they lie. The output is first.
#[derive(Debug)]
pub(super) struct Flat<'a> {
    /// None, unless the operands are of this kind.
    count: usize,
    numel: usize,
    dtypes: [ScalarType; FEW],
    /// Where tensors of the caller lie. A fresh output and the number have none.
    given: [Option<&'a Geometry>; FEW],
    number: Bytes,
    /// The output, if none was given: nobody else has it.
    fresh: Option<Tensor>,
}

/// Plans `iter`, which has no plan, if the operands are of the simple kind: then they count. It is filled where it is,
/// since it is large to move. It is compiled for each number of inputs, so that there is no loop over them.
pub(super) fn plan<'a, const INPUTS: usize>(
    iter: &mut TensorIter<'a>,
    dest: Dest<'a>,
    inputs: &[Input<'a>],
    config: Config,
) -> Result<()> {
    const { assert!(INPUTS < FEW) };
    let Ok(inputs) = <&[Input<'a>; INPUTS]>::try_from(inputs) else { return Ok(()) };
    let Some(first) = first_tensor(inputs) else { return Ok(()) };
    let Some(geometry) = unchanged(first) else { return Ok(()) };
    let common = first.dtype();
    if first.is_wrapped_number()
        || first.has_math_bits()
        || !geometry.flags.is_non_overlapping_and_dense()
        || (config.integers_to_float && common.is_integral(true))
    {
        return Ok(());
    }
    let flat = &mut iter.flat;
    if !flat.read(inputs, first, geometry, config)? {
        return Ok(());
    }
    let output_dtype = config.output_dtype.unwrap_or(common);
    flat.dtypes[0] = output_dtype;
    // What is walked is what was looked at: a tensor that another thread has changed since then is not.
    match dest.given() {
        None => {
            let fresh = dense_like(geometry, output_dtype, first.device())?;
            // There was none, which needs not be ended.
            std::mem::forget(flat.fresh.replace(fresh));
        }
        Some(given) => match unchanged(given) {
            Some(written) if is_writable(given, written, first, geometry, inputs, output_dtype, config) => {
                flat.dtypes[0] = given.dtype();
                flat.given[0] = Some(written);
            }
            _ => return Ok(()),
        },
    }
    flat.count = INPUTS + 1;
    flat.numel = geometry.numel as usize;
    iter.outputs = 1;
    iter.numel = geometry.numel;
    iter.device = first.device();
    iter.common_dtype = common;
    Ok(())
}

/// A tensor that takes part in promotion.
#[inline(always)]
fn first_tensor<'a>(inputs: &[Input<'a>]) -> Option<&'a Tensor> {
    inputs.iter().find_map(|input| match input {
        Input::Tensor(tensor) => Some(*tensor),
        _ => None,
    })
}

#[inline(always)]
fn unchanged(tensor: &Tensor) -> Option<&Geometry> {
    tensor.as_impl().unchanged()
}

/// Whether the common dtype of a tensor and a number is the tensor's, by its category alone.
fn keeps_dtype(number: Scalar, dtype: ScalarType) -> bool {
    if number.is_complex() {
        return dtype.is_complex();
    }
    if number.is_integral(false) {
        return dtype != ScalarType::Bool;
    }
    number.is_bool() || dtype.is_floating_point() || dtype.is_complex()
}

#[inline]
fn same_layout(a: &Geometry, b: &Geometry) -> bool {
    let contiguous = |g: &Geometry| g.flags.is_contiguous(c10_core::MemoryFormat::Contiguous);
    a.sizes == b.sizes && ((contiguous(a) && contiguous(b)) || a.strides == b.strides)
}

/// Whether the loop can write to a given tensor, which lies at `written`, as it is.
fn is_writable(
    given: &Tensor,
    written: &Geometry,
    first: &Tensor,
    geometry: &Geometry,
    inputs: &[Input<'_>],
    dtype: ScalarType,
    config: Config,
) -> bool {
    let own_dtype = !config.promote && !config.same_dtypes;
    if (!own_dtype && given.dtype() != dtype) || given.device() != first.device() || given.has_math_bits() {
        return false;
    }
    let apart = |input: &Input<'_>| match input {
        Input::Number(_) => true,
        Input::Tensor(tensor) | Input::Uncast(tensor) => {
            tensor.is_same(given)
                || unchanged(tensor).is_some_and(|read| !read.storage.is_same(&written.storage))
        }
    };
    (given.is_same(first) || same_layout(geometry, written)) && inputs.iter().all(apart)
}

impl<'a> Flat<'a> {
    /// None, to be filled by [`plan`].
    #[inline(always)]
    pub(super) fn none() -> Self {
        Self {
            count: 0,
            numel: 0,
            dtypes: [ScalarType::Float32; FEW],
            given: [None; FEW],
            number: Bytes([0; 16]),
            fresh: None,
        }
    }

    /// Takes the inputs, if each is walked as `first` is and needs no cast.
    #[inline(always)]
    fn read(
        &mut self,
        inputs: &[Input<'a>],
        first: &'a Tensor,
        geometry: &'a Geometry,
        config: Config,
    ) -> Result<bool> {
        let mut has_number = false;
        for (at, input) in inputs.iter().enumerate() {
            let (tensor, own_dtype) = match *input {
                Input::Number(number) => {
                    if !config.promote || has_number || !keeps_dtype(number, first.dtype()) {
                        return Ok(false);
                    }
                    has_number = true;
                    self.number = Bytes(number_bytes(number, first.dtype())?);
                    self.dtypes[at + 1] = first.dtype();
                    continue;
                }
                Input::Tensor(tensor) => (tensor, !config.promote && !config.same_dtypes),
                Input::Uncast(tensor) => (tensor, true),
            };
            let lies = if tensor.is_same(first) {
                geometry
            } else {
                let Some(other) = unchanged(tensor) else { return Ok(false) };
                let is_alike = (own_dtype || tensor.dtype() == first.dtype())
                    && !tensor.is_wrapped_number()
                    && !tensor.has_math_bits()
                    && tensor.device() == first.device()
                    && same_layout(geometry, other);
                if !is_alike {
                    return Ok(false);
                }
                other
            };
            self.dtypes[at + 1] = tensor.dtype();
            self.given[at + 1] = Some(lies);
        }
        Ok(true)
    }

    /// Those of the operands, and of nothing beyond them.
    #[inline]
    pub(super) fn dtypes(&self) -> &[ScalarType; FEW] {
        &self.dtypes
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// What became of the output. There is none afterwards.
    #[inline]
    pub(super) fn finish(&mut self) -> Made {
        self.fresh.take().map_or_else(Made::written, Made::new)
    }

    /// Calls `row` with all elements, with access to all operands: at once, or part by part if there are many. There are
    /// `N` operands.
    #[inline(always)]
    pub(super) fn walk<const N: usize>(&self, counts_writes: bool, row: Rows<'_, N>) -> Result<()> {
        let storages: [_; N] = std::array::from_fn(|i| self.given[i].map(|geometry| &geometry.storage));
        match Access::with_few(storages, counts_writes, || self.walk_locked(row)) {
            Some(walked) => walked,
            None => self.walk_late(counts_writes, row),
        }
    }

    /// [`walk`](Self::walk), where others have to be waited for.
    #[cold]
    #[inline(never)]
    fn walk_late<const N: usize>(&self, counts_writes: bool, row: Rows<'_, N>) -> Result<()> {
        let read: SmallVec<[_; FEW]> =
            self.given[1..].iter().flatten().map(|geometry| &geometry.storage).collect();
        let written = self.given[0].map(|geometry| &geometry.storage);
        let options = AccessOptions { bump_version: counts_writes, host: true };
        // Held until the walk is over. A fresh output is this thread's alone.
        let _access = Access::acquire_with(&read, written.as_slice(), options)?;
        self.walk_locked(row)
    }

    #[inline(always)]
    fn walk_locked<const N: usize>(&self, row: Rows<'_, N>) -> Result<()> {
        // What is in no tensor is the number.
        let mut first = First([self.number.0.as_ptr().cast_mut(); N]);
        let mut strides = [0; N];
        let output = self.given[0].or_else(|| self.fresh.as_ref().and_then(unchanged));
        let output = output.expect("the output is given, or was just made");
        for (i, (pointer, stride)) in first.0.iter_mut().zip(&mut strides).enumerate() {
            let Some(geometry) = (if i == 0 { Some(output) } else { self.given[i] }) else { continue };
            let element = self.dtypes[i].element_size();
            *pointer =
                first_in(&geometry.storage, geometry.storage_offset as usize * element, geometry.end_bytes)?;
            *stride = element as i64;
        }
        if self.numel < 2 * GRAIN_SIZE {
            row(&first.0, &strides, self.numel as i64, Further { steps: &[0; N], rows: 0 });
        } else {
            in_parts(self.numel, &first, &strides, row);
        }
        Ok(())
    }
}

/// Calls `row` with parts of all elements, several threads at once.
#[inline(never)]
fn in_parts<const N: usize>(numel: usize, first: &First<N>, strides: &[i64; N], row: Rows<'_, N>) {
    // No two threads meet: what is written is dense, and what is read is the same elements, or elsewhere.
    parallel_for(0..numel, GRAIN_SIZE, |range| {
        let mut pointers = first.0;
        for (pointer, stride) in pointers.iter_mut().zip(strides) {
            *pointer = pointer.wrapping_add(range.start * *stride as usize);
        }
        row(&pointers, strides, range.len() as i64, Further { steps: &[0; N], rows: 0 });
    });
}
