//! Kernels that every dispatcher has: fallthrough for the keys that all calls carry, and the one that refuses
//! an ambiguous choice.

use std::sync::OnceLock;

use super::kernel::Kernel;
use super::key::{DispatchKey, Functionality};
use super::key_set::DispatchKeySet;
use crate::error::Error;

/// The fallback of a key for which nobody has registered one: fallthrough for those that a call may carry
/// without anything to do. Tensors or threads carry the others only where somebody wants them served.
pub(super) fn default_fallback(key: DispatchKey) -> Option<&'static Kernel> {
    const FALLTHROUGH: DispatchKeySet = DispatchKeySet::AUTOGRAD_WITH_AD_INPLACE_OR_VIEW
        .union(DispatchKeySet::AUTOCAST)
        .union(DispatchKeySet::BACKENDS)
        .union(DispatchKeySet::of_functionalities(&[
            Functionality::BackendSelect,
            Functionality::Tracer,
            Functionality::FuncTorchVmapMode,
            Functionality::VmapMode,
            Functionality::PythonTlsSnapshot,
            Functionality::PreDispatch,
            Functionality::PythonDispatcher,
        ]));
    static KERNEL: OnceLock<Kernel> = OnceLock::new();
    FALLTHROUGH.has(key).then(|| KERNEL.get_or_init(|| Kernel::fallthrough().named("by default")))
}

/// Refuses calls on AutogradOther of an operator for which nobody can tell what they should do.
pub(super) fn ambiguous_autograd_other() -> &'static Kernel {
    static KERNEL: OnceLock<Kernel> = OnceLock::new();
    KERNEL.get_or_init(|| {
        let kernel = Kernel::boxed(|operator, _, _| {
            Err(Error::not_implemented(format!(
                "{} has kernels registered to both CompositeImplicitAutograd and a backend mapped to AutogradOther. \
                 This makes the backend kernel unreachable; the dispatcher will always prefer the \
                 CompositeImplicitAutograd lowering. Register a kernel for CompositeExplicitAutograd in the place of \
                 CompositeImplicitAutograd if the operator is differentiated as a whole.",
                operator.name()
            )))
        });
        kernel.named("ambiguous_autogradother")
    })
}
