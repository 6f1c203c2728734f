//! [`OperatorHandle`]: an operator, its schema and its table of kernels (`c10::OperatorHandle`,
//! `c10::impl::OperatorEntry`).
//!
//! The table has one slot for each runtime key, and is recomputed by the dispatcher, under its lock, whenever
//! a registration changes. Calls read it with no lock.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::kernel::Kernel;
use super::key::{DispatchKey, NUM_RUNTIME_ENTRIES};
use super::key_set::DispatchKeySet;
use super::local::LocalDispatchKeySet;
use super::schema::FunctionSchema;
use super::slot::Slot;
use super::value::{Stack, Value};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// An operator of a dispatcher. It is good for ever, also when the operator's definition is taken back.
#[derive(Clone, Copy)]
pub struct OperatorHandle(pub(super) &'static OperatorEntry);

pub(super) struct OperatorEntry {
    /// `namespace::name.overload`.
    pub(super) name: String,
    pub(super) schema: Slot<FunctionSchema>,
    pub(super) table: [Slot<Kernel>; NUM_RUNTIME_ENTRIES],
    /// The keys whose kernels are not fallthrough.
    pub(super) mask: AtomicU64,
}

impl OperatorEntry {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            schema: Slot::new(),
            table: [const { Slot::new() }; NUM_RUNTIME_ENTRIES],
            mask: AtomicU64::new(DispatchKeySet::FULL.raw_repr()),
        }
    }
}

impl OperatorHandle {
    /// `namespace::name.overload`.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// The schema; `None` when there are kernels and no definition.
    pub fn schema(self) -> Option<&'static FunctionSchema> {
        self.0.schema.load()
    }

    /// Whether a call that meets this runtime key finds a kernel, be it one that serves many keys
    /// (`hasComputedKernelForDispatchKey`). An alias has none.
    pub fn has_kernel_for(self, key: DispatchKey) -> bool {
        let kernel = key.table_index().and_then(|index| self.0.table[index].load());
        kernel.is_some_and(|kernel| !kernel.is_fallthrough())
    }

    /// Calls it by its schema's arguments, in their order and all of them; they are replaced by the results.
    ///
    /// # Errors
    /// As [`Op::call`](super::Op::call).
    pub fn call_boxed(self, stack: &mut Stack) -> Result<()> {
        let mut keys = DispatchKeySet::EMPTY;
        let mut add = |tensor: &Tensor| keys = keys.union(tensor.key_set());
        stack.iter().for_each(|value| value.for_each_tensor(&mut add));
        self.call_boxed_for_keys(self.effective_keys(keys), stack)
    }

    /// Calls the kernel of the highest of `keys`, whatever the arguments and the thread say
    /// (`redispatchBoxed`).
    ///
    /// # Errors
    /// As [`call_boxed`](Self::call_boxed).
    pub fn redispatch_boxed(self, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        self.call_boxed_for_keys(self.mask(keys), stack)
    }

    fn call_boxed_for_keys(self, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
        let arguments: Vec<Tensor> = tensors(stack);
        self.kernel(keys)
            .and_then(|kernel| kernel.call_boxed(self, keys, stack))
            .map_err(|error| error.with_operator(self.name()).with_tensors(&arguments))
    }

    /// The keys that a call has of its arguments' and the thread's.
    #[inline]
    pub(super) fn effective_keys(self, keys: DispatchKeySet) -> DispatchKeySet {
        self.mask(LocalDispatchKeySet::current().apply(keys))
    }

    #[inline]
    pub(super) fn mask(self, keys: DispatchKeySet) -> DispatchKeySet {
        DispatchKeySet::from_raw_repr(keys.raw_repr() & self.0.mask.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn kernel(self, keys: DispatchKeySet) -> Result<&'static Kernel> {
        match self.0.table[keys.table_index()].load() {
            Some(kernel) => Ok(kernel),
            None => Err(self.missing(keys)),
        }
    }

    #[cold]
    fn missing(self, keys: DispatchKeySet) -> Error {
        Error::not_implemented(format!(
            "Could not run '{}' with arguments from the '{:?}' backend",
            self.name(),
            keys.highest_priority_key()
        ))
    }

    #[cold]
    pub(super) fn fell_through(self, keys: DispatchKeySet) -> Error {
        Error::not_implemented(format!("'{}' was called on a fallthrough key of {keys:?}", self.name()))
    }

    #[cold]
    pub(super) fn annotate(self, error: Error, for_each: &dyn Fn(&mut dyn FnMut(&Tensor))) -> Error {
        let mut tensors = Vec::new();
        for_each(&mut |tensor| tensors.push(tensor.clone()));
        error.with_operator(self.name()).with_tensors(&tensors)
    }

    /// The arguments on the stack that are results too, in the order of the results.
    pub(super) fn written_results(self, stack: &Stack) -> Vec<Value> {
        match self.schema() {
            Some(schema) => written_results(schema).filter_map(|at| stack.get(at).cloned()).collect(),
            None => Vec::new(),
        }
    }
}

/// For each return that is a written argument, which argument it is.
fn written_results(schema: &FunctionSchema) -> impl Iterator<Item = usize> {
    let of = |alias: &Option<super::arg_type::AliasInfo>| {
        alias.as_ref().filter(|alias| alias.is_write).map(|alias| alias.before.clone())
    };
    schema.returns().iter().filter_map(move |result| {
        let sets = of(&result.alias)?;
        schema.arguments().iter().position(|argument| of(&argument.alias).as_ref() == Some(&sets))
    })
}

fn tensors(stack: &Stack) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    stack.iter().for_each(|value| value.for_each_tensor(&mut |tensor| tensors.push(tensor.clone())));
    tensors
}

impl fmt::Debug for OperatorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorHandle({})", self.name())
    }
}
