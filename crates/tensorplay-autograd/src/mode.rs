//! Whether this thread records what it computes (`torch.no_grad`, `enable_grad`, `set_grad_enabled`).
//!
//! The mode is the thread's, and begins as *enabled*. A guard restores what it found, and is dropped on its thread;
//! the closure forms are preferred.

use std::marker::PhantomData;

use aten::dispatch::local::{is_inference_mode, set_view_mark, view_mark};

use crate::view_track::Creation;

/// The mode is what views of this thread are marked with, which aten does for views that need no gradient.
const fn mark(enabled: bool) -> u8 {
    match enabled {
        true => Creation::Default as u8,
        false => Creation::NoGradMode as u8,
    }
}

/// Whether operators on this thread are recorded (`torch.is_grad_enabled`). In inference mode none is.
#[inline]
pub fn is_grad_enabled() -> bool {
    view_mark() == mark(true) && !is_inference_mode()
}

/// Sets the mode of this thread for good (`torch.set_grad_enabled` as a function). A guard that is dropped later
/// restores what it found.
pub fn set_grad_enabled(enabled: bool) {
    set_view_mark(mark(enabled));
}

/// Runs `f` with nothing recorded (`torch.no_grad`). Results need no gradient; versions are counted all the same.
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = GradModeGuard::new(false);
    f()
}

/// Runs `f` with everything recorded (`torch.enable_grad`).
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = GradModeGuard::new(true);
    f()
}

/// Sets the mode of this thread until the guard is dropped (`torch.set_grad_enabled`, `AutoGradMode`).
#[derive(Debug)]
#[must_use = "the mode is restored when the guard is dropped"]
pub struct GradModeGuard {
    before: u8,
    /// The mode is this thread's: the guard must be dropped on it.
    _not_send: PhantomData<*const ()>,
}

impl GradModeGuard {
    /// Records, or does not, from here on.
    #[inline]
    pub fn new(enabled: bool) -> Self {
        Self { before: set_view_mark(mark(enabled)), _not_send: PhantomData }
    }
}

impl Drop for GradModeGuard {
    #[inline]
    fn drop(&mut self) {
        set_view_mark(self.before);
    }
}
