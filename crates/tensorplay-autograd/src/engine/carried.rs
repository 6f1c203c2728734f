//! [`Carried`]: the modes of the thread that called, for threads that work for it (`ThreadLocalState`).

use std::sync::Arc;

use aten::dispatch::local::{InferenceModeGuard, LocalDispatchKeySet, is_inference_mode};

use super::call::{self, Call};
use crate::anomaly;
use crate::mode::{GradModeGuard, is_grad_enabled};
use crate::saved_hooks::{self, SavedTensorHooks};

/// Modes of a thread.
pub(super) struct Carried {
    is_grad_enabled: bool,
    is_inference_mode: bool,
    keys: LocalDispatchKeySet,
    anomaly: anomaly::Carried,
    saved_hooks: Vec<Arc<dyn SavedTensorHooks>>,
    call: Option<Arc<Call>>,
}

impl Carried {
    /// This thread's.
    pub(super) fn here() -> Self {
        Self {
            is_grad_enabled: is_grad_enabled(),
            is_inference_mode: is_inference_mode(),
            keys: LocalDispatchKeySet::current(),
            anomaly: anomaly::carried(),
            saved_hooks: saved_hooks::carried(),
            call: call::current(),
        }
    }

    /// Makes them this thread's, until the guard is dropped.
    pub(super) fn enter(&self) -> impl Sized + use<> {
        let inference = InferenceModeGuard::new(self.is_inference_mode);
        (
            self.keys.enter(),
            inference,
            GradModeGuard::new(self.is_grad_enabled),
            self.anomaly.enter(),
            saved_hooks::enter(self.saved_hooks.clone()),
            self.call.as_ref().map(Call::enter),
        )
    }
}
