//! Operators on tensors with the conjugate or the negative bit: see Note [Math bits].
//!
//! The fallback of the two keys serves every operator that does not know the bits (`ConjugateFallback`,
//! `MathBitsFallback`). It hands the next kernel copies without bits, and
//! - where an argument with the bit is written, lets the copy be written and copies that back;
//! - where a result is a view of an argument, changes nothing: views carry the bits on.

use super::handles;
use crate::dispatch::{
    DispatchKey, DispatchKeySet, Dispatcher, FunctionSchema, Kernel, Library, OperatorHandle, Stack, Value,
};
use crate::error::{Error, Result};
use crate::shape;
use crate::tensor::Tensor;

const KEYS: [DispatchKey; 2] = [DispatchKey::Conjugate, DispatchKey::Negative];

/// Operators beside views that know the bits, or look at no element: what they are called with is left as it is.
const AWARE: &[&str] = &[
    "clone",
    "copy_",
    "copy_.Tensor",
    "_local_scalar_dense",
    "item",
    "conj_physical",
    "is_conj",
    "is_neg",
    // Views in all but the schema.
    "_unsafe_view",
    "lift",
    // Made of the sizes alone.
    "empty_like",
    "full_like",
    "zeros_like",
    "ones_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "randint_like.low_dtype",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_zeros",
    "new_ones",
    // A tensor that changes its place keeps its bits.
    "transpose_",
    "swapaxes_",
    "swapdims_",
    "t_",
    "squeeze_",
    "squeeze_.dim",
    "squeeze_.dims",
    "unsqueeze_",
    "as_strided_",
    "detach_",
    "resize_",
    "resize_as_",
    "set_",
    "set_.source_Tensor",
    "set_.source_Tensor_storage_offset",
    // Queries.
    "size",
    "size.int",
    "stride",
    "stride.int",
    "numel",
    "dim",
    "storage_offset",
    "is_contiguous",
    "is_contiguous.memory_format",
    "is_non_overlapping_and_dense",
    "is_complex",
    "is_floating_point",
    "is_signed",
    "is_same_size",
    "is_set_to",
    "sym_size",
    "sym_size.int",
    "sym_stride",
    "sym_stride.int",
    "sym_numel",
    "sym_storage_offset",
    "sym_is_contiguous",
];

/// Registers the fallback of both keys, for the operators of all namespaces.
pub(crate) fn register_fallback(dispatcher: &Dispatcher) -> Result<()> {
    let mut library = Library::fallbacks(dispatcher);
    for key in KEYS {
        let kernel = Kernel::boxed(move |operator, keys, stack| fallback(key, operator, keys, stack));
        library.fallback(&[key], kernel.named("math bits fallback"))?;
    }
    library.keep();
    Ok(())
}

/// Lets calls of operators that know the bits pass.
pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    for name in AWARE {
        let operator = lib.dispatcher().require(&format!("aten::{name}"))?;
        lib.impl_kernel(operator.name(), &KEYS, Kernel::fallthrough())?;
    }
    Ok(())
}

/// As [`register`], for an operator that has been defined, if it is a view.
pub(super) fn register_view(lib: &mut Library<'_>, operator: OperatorHandle) -> Result<()> {
    match operator.schema() {
        Some(schema) if is_view(schema) => lib.impl_kernel(operator.name(), &KEYS, Kernel::fallthrough()),
        _ => Ok(()),
    }
}

/// Some result is part of an argument that is not written.
fn is_view(schema: &FunctionSchema) -> bool {
    !schema.is_mutable() && schema.arguments().iter().any(|argument| argument.alias.is_some())
}

/// An argument that is written, and the copy without the bit that is written in its stead.
struct Written {
    original: Tensor,
    copy: Tensor,
}

fn fallback(
    key: DispatchKey,
    operator: OperatorHandle,
    keys: DispatchKeySet,
    stack: &mut Stack,
) -> Result<()> {
    let below = keys & DispatchKeySet::full_after(key);
    let schema = operator.schema();
    if schema.is_some_and(is_view) {
        return operator.redispatch_boxed(below, stack);
    }
    let is_written = |at: usize| schema.is_some_and(|s| s.arguments().get(at).is_some_and(|a| a.is_write()));
    check_written(key, stack, &is_written)?;
    let mut written = None;
    for (at, value) in stack.iter_mut().enumerate() {
        let original = match value {
            Value::Tensor(tensor) if tensor.key_set().has(key) && is_written(at) => Some(tensor.clone()),
            _ => None,
        };
        resolve(key, value)?;
        if let (Some(original), Value::Tensor(copy)) = (original, value) {
            written = Some(Written { original, copy: copy.clone() });
        }
    }
    operator.redispatch_boxed(below, stack)?;
    match written {
        Some(written) => written.write_back(stack),
        None => Ok(()),
    }
}

/// Refuses what cannot be written back, before anything is written.
fn check_written(key: DispatchKey, stack: &Stack, is_written: &dyn Fn(usize) -> bool) -> Result<()> {
    let mut found = false;
    for (_, value) in stack.iter().enumerate().filter(|&(at, _)| is_written(at)) {
        let mut has_bit = false;
        value.for_each_tensor(&mut |tensor| has_bit |= tensor.key_set().has(key));
        if !has_bit {
            continue;
        }
        // PyTorch's rules.
        if matches!(value, Value::List(_)) {
            return Err(Error::not_implemented(format!(
                "{key} fallback doesn't support mutable lists of tensors with the bit set. Materialize them before \
                 the call"
            )));
        }
        if std::mem::replace(&mut found, true) {
            return Err(Error::not_implemented(format!(
                "{key} fallback does not support operators with more than one mutable tensor with the bit set"
            )));
        }
    }
    Ok(())
}

/// Puts copies in the place of tensors that have the bit.
fn resolve(key: DispatchKey, value: &mut Value) -> Result<()> {
    match value {
        Value::Tensor(tensor) if tensor.key_set().has(key) => *tensor = handles::CLONE.call(tensor, None)?,
        Value::List(values) => values.iter_mut().try_for_each(|value| resolve(key, value))?,
        _ => {}
    }
    Ok(())
}

impl Written {
    fn write_back(self, results: &mut Stack) -> Result<()> {
        let Self { original, copy } = self;
        let sizes = copy.sizes();
        if original.sizes() != sizes {
            original.resize_for_output(&sizes, &shape::contiguous_strides(&sizes)?)?;
        }
        handles::COPY_.call(&original, &copy, false)?;
        for result in results {
            if let Value::Tensor(tensor) = result
                && tensor.is_same(&copy)
            {
                *tensor = original.clone();
            }
        }
        Ok(())
    }
}
