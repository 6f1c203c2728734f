//! Which of an operator's kernels serves a runtime key: PyTorch's order of precedence.
//!
//! For each key the first that applies:
//! 1. a kernel for the key itself;
//! 2. for backends and *undefined*: CompositeExplicitAutogradNonFunctional where it covers the key, then
//!    CompositeExplicitAutograd;
//! 3. for nested tensors and their autograd: CompositeImplicitAutogradNestedTensor;
//! 4. for backends, autograd keys and *undefined*: CompositeImplicitAutograd;
//! 5. for autograd keys: Autograd;
//! 6. for FuncTorchBatched: its decomposition;
//! 7. the fallback of the key for all operators.
//!
//! For an autograd key, 4 does not apply when a backend of that key has a kernel of its own, or all have by
//! CompositeExplicitAutograd: the composite would differentiate itself where the backend's kernel does not. For
//! AutogradOther, which many backends share, nobody can tell in the first case: calls are refused.

use std::fmt;

use super::key::{DispatchKey, Functionality, NUM_RUNTIME_ENTRIES};
use super::key_set::DispatchKeySet;

/// Why a slot of an operator's table holds what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelSource {
    /// A kernel for the key itself.
    Kernel,
    /// A kernel for every backend.
    DefaultBackend,
    /// A kernel for every backend and autograd key, made of operators that differentiate themselves.
    Math,
    /// A kernel for nested tensors, made of other operators.
    Nested,
    /// A kernel for every autograd key.
    Autograd,
    /// A decomposition for batched tensors.
    Batched,
    /// Refuses: a composite kernel and one of a backend without its own autograd key exclude each other.
    AmbiguousAutogradOther,
    /// The key's fallback for all operators.
    BackendFallback,
    /// Nothing: calls are refused.
    Missing,
}

impl KernelSource {
    pub(super) const ALL: [Self; 9] = [
        Self::Kernel,
        Self::DefaultBackend,
        Self::Math,
        Self::Nested,
        Self::Autograd,
        Self::Batched,
        Self::AmbiguousAutogradOther,
        Self::BackendFallback,
        Self::Missing,
    ];
}

impl fmt::Display for KernelSource {
    /// As in PyTorch's dumps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::DefaultBackend => "default backend kernel",
            Self::Math => "math kernel",
            Self::Nested => "nested kernel",
            Self::Autograd => "autograd kernel",
            Self::Batched => "batched kernel",
            Self::AmbiguousAutogradOther => "ambiguous autogradother",
            Self::BackendFallback => "backend fallback",
            Self::Missing => "missing",
        })
    }
}

/// Where a runtime key's kernel comes from, and the key of registration that it stands under there. `has` says
/// for which keys the operator has kernels.
pub(super) fn choose(
    key: DispatchKey,
    has: &dyn Fn(DispatchKey) -> bool,
) -> (KernelSource, Option<DispatchKey>) {
    let covers = |alias: DispatchKey| DispatchKeySet::runtime_of(alias).has(key);
    let offers = |alias: DispatchKey| covers(alias) && has(alias);
    let undefined = key == DispatchKey::Undefined;
    let found = |source, alias| (source, Some(alias));

    if has(key) {
        return found(KernelSource::Kernel, key);
    }
    for alias in [DispatchKey::CompositeExplicitAutogradNonFunctional, DispatchKey::CompositeExplicitAutograd]
    {
        if offers(alias) || (undefined && has(alias)) {
            return found(KernelSource::DefaultBackend, alias);
        }
    }
    let nested = DispatchKey::CompositeImplicitAutogradNestedTensor;
    if offers(nested) {
        return found(KernelSource::Nested, nested);
    }
    let math = DispatchKey::CompositeImplicitAutograd;
    if offers(math) || (undefined && has(math)) {
        let backend_has_kernel = DispatchKeySet::backends_of_autograd(key).iter().any(has);
        if key.functionality() == Some(Functionality::AutogradOther) && backend_has_kernel {
            return (KernelSource::AmbiguousAutogradOther, None);
        }
        if !backend_has_kernel && !has(DispatchKey::CompositeExplicitAutograd) {
            return found(KernelSource::Math, math);
        }
    }
    if offers(DispatchKey::Autograd) {
        return found(KernelSource::Autograd, DispatchKey::Autograd);
    }
    if offers(DispatchKey::FuncTorchBatchedDecomposition) {
        return found(KernelSource::Batched, DispatchKey::FuncTorchBatchedDecomposition);
    }
    (KernelSource::Missing, None)
}

/// Whether the kernel of any slot may change with one that is registered under `key`.
pub(super) fn affects_all(key: DispatchKey) -> bool {
    key.is_alias() && key != DispatchKey::Autograd
}

/// The slots whose kernel may change with a kernel registered under `key`: all for most aliases; those of the
/// autograd keys for theirs; else its own, and that of the autograd key whose backend it is.
pub(super) fn affected(key: DispatchKey) -> impl Iterator<Item = usize> {
    let all = if affects_all(key) { 0..NUM_RUNTIME_ENTRIES } else { 0..0 };
    let of_alias = match key {
        DispatchKey::Autograd => DispatchKeySet::runtime_of(key),
        _ => DispatchKeySet::EMPTY,
    };
    let of_alias = of_alias.iter().filter_map(DispatchKey::table_index);
    let autograd = match (key.functionality(), key.backend()) {
        (Some(Functionality::Dense), Some(backend)) => {
            Some(DispatchKey::new(Functionality::Autograd, backend))
        }
        (Some(Functionality::NestedTensor), _) => Some(DispatchKey::AutogradNestedTensor),
        _ if DispatchKeySet::AUTOGRAD_OTHER_BACKENDS.has(key) => Some(DispatchKey::AutogradOther),
        _ => None,
    };
    all.chain(of_alias).chain(key.table_index()).chain(autograd.and_then(DispatchKey::table_index))
}
