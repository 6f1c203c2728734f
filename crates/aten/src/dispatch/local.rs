//! What a thread adds to and takes from the keys of every call: its included and excluded sets, and the guards
//! that change them for a while.
//!
//! # Rules
//! - A guard remembers which bits it flipped and flips them back. Flips commute: when all guards of a thread are
//!   gone, in whatever order, its sets are what they were, and a guard that is forgotten leaves behind its own
//!   change alone.
//! - Nothing crosses threads by itself: [`LocalDispatchKeySet::current`] is carried there and
//!   [entered](LocalDispatchKeySet::enter).
//! - While nobody changed them, BackendSelect and ADInplaceOrView are included and the autocast keys excluded.

use std::cell::Cell;
use std::marker::PhantomData;

use super::key::DispatchKey;
use super::key_set::DispatchKeySet;

thread_local! {
    // One word each and no destructor: reading them is two loads, at any time of a thread's life.
    static LOCAL: Cell<LocalDispatchKeySet> = const { Cell::new(LocalDispatchKeySet::DEFAULT) };
    static INFERENCE_MODE: Cell<bool> = const { Cell::new(false) };
    static VIEW_MARK: Cell<u8> = const { Cell::new(0) };
}

/// The included and excluded sets of a thread, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDispatchKeySet {
    /// In every call's keys.
    pub included: DispatchKeySet,
    /// In no call's keys, even when included.
    pub excluded: DispatchKeySet,
}

impl LocalDispatchKeySet {
    /// What a thread begins with.
    pub const DEFAULT: Self = Self {
        included: DispatchKeySet::of(&[DispatchKey::BackendSelect, DispatchKey::AdInplaceOrView]),
        excluded: DispatchKeySet::AUTOCAST,
    };

    /// This thread's.
    #[inline]
    pub fn current() -> Self {
        LOCAL.get()
    }

    /// What a call with tensors of these keys is dispatched by.
    #[inline]
    pub const fn apply(self, keys: DispatchKeySet) -> DispatchKeySet {
        keys.union(self.included).minus(self.excluded)
    }

    /// Makes these sets this thread's while the guard lives. PyTorch's `ForceDispatchKeyGuard`.
    pub fn enter(self) -> ForceDispatchKeyGuard {
        ForceDispatchKeyGuard::new(self)
    }

    /// Runs `f` with these sets.
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        let _guard = self.enter();
        f()
    }

    fn flipped_by(self, other: Self) -> Self {
        Self { included: self.included ^ other.included, excluded: self.excluded ^ other.excluded }
    }
}

impl Default for LocalDispatchKeySet {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Bits of this thread's sets that are flipped until this is dropped.
#[derive(Debug)]
struct Flip {
    bits: LocalDispatchKeySet,
    /// The sets are this thread's: the guard must be dropped on it.
    _not_send: PhantomData<*const ()>,
}

impl Flip {
    /// Makes the thread's sets what `change` makes of them.
    #[inline]
    fn new(change: impl FnOnce(LocalDispatchKeySet) -> LocalDispatchKeySet) -> Self {
        let before = LOCAL.get();
        let after = change(before);
        LOCAL.set(after);
        Self { bits: before.flipped_by(after), _not_send: PhantomData }
    }
}

impl Drop for Flip {
    #[inline]
    fn drop(&mut self) {
        LOCAL.set(LOCAL.get().flipped_by(self.bits));
    }
}

macro_rules! guards {
    ($($(#[$doc:meta])* $guard:ident($value:ident: $type:ty) |$local:ident| $change:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "the sets are restored when the guard is dropped"]
        pub struct $guard {
            _flip: Flip,
        }

        impl $guard {
            /// Changes this thread's sets until the guard is dropped.
            #[inline]
            pub fn new($value: $type) -> Self {
                Self { _flip: Flip::new(|$local| $change) }
            }

            /// Runs `f` under the guard.
            #[inline]
            pub fn scope<R>($value: $type, f: impl FnOnce() -> R) -> R {
                let _guard = Self::new($value);
                f()
            }
        }
    )*};
}

guards! {
    /// Includes keys in every call of this thread.
    IncludeDispatchKeyGuard(keys: DispatchKeySet) |local| {
        LocalDispatchKeySet { included: local.included | keys, ..local }
    };
    /// Excludes keys from every call of this thread.
    ExcludeDispatchKeyGuard(keys: DispatchKeySet) |local| {
        LocalDispatchKeySet { excluded: local.excluded | keys, ..local }
    };
    /// Replaces both sets of this thread.
    ForceDispatchKeyGuard(sets: LocalDispatchKeySet) |_local| sets;
}

macro_rules! below {
    ($($(#[$doc:meta])* $guard:ident = $keys:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "the sets are restored when the guard is dropped"]
        pub struct $guard {
            _exclude: ExcludeDispatchKeyGuard,
        }

        impl $guard {
            /// Excludes the keys until the guard is dropped.
            #[inline]
            #[expect(clippy::new_without_default, reason = "a guard is made for its effect")]
            pub fn new() -> Self {
                Self { _exclude: ExcludeDispatchKeyGuard::new($keys) }
            }

            /// Runs `f` under the guard.
            #[inline]
            pub fn scope<R>(f: impl FnOnce() -> R) -> R {
                let _guard = Self::new();
                f()
            }
        }
    )*};
}

below! {
    /// Calls go past the autograd keys: what an autograd kernel holds while it calls what it differentiates.
    AutoDispatchBelowAutograd = DispatchKeySet::AUTOGRAD;
    /// Calls go past the autograd keys and ADInplaceOrView.
    AutoDispatchBelowADInplaceOrView = DispatchKeySet::AUTOGRAD_WITH_AD_INPLACE_OR_VIEW;
}

/// Whether tensors that this thread makes are not followed by autograd (`torch.is_inference_mode_enabled`).
#[inline]
pub fn is_inference_mode() -> bool {
    INFERENCE_MODE.get()
}

/// What an autograd crate [says](crate::Tensor::view_mark) of views that are made on this thread: 0 at first.
#[inline]
pub fn view_mark() -> u8 {
    VIEW_MARK.get()
}

/// Has an autograd crate say that of views that are made on this thread from now on, and gives what it said before. A
/// view of a view has the higher of this and the other's mark.
#[inline]
pub fn set_view_mark(mark: u8) -> u8 {
    VIEW_MARK.replace(mark)
}

/// Inference mode, until the guard is dropped (`c10::InferenceMode`): calls go past autograd, and tensors that are
/// made [are not followed by it](crate::Tensor::is_inference) for all their lives.
#[derive(Debug)]
#[must_use = "the mode is restored when the guard is dropped"]
pub struct InferenceModeGuard {
    before: bool,
    _sets: ForceDispatchKeyGuard,
}

impl InferenceModeGuard {
    /// Turns the mode on, or off within another.
    pub fn new(enabled: bool) -> Self {
        let LocalDispatchKeySet { included, excluded } = LocalDispatchKeySet::current();
        let in_place = DispatchKeySet::new(DispatchKey::AdInplaceOrView);
        let sets = if enabled {
            LocalDispatchKeySet {
                included: included - in_place,
                excluded: excluded | DispatchKeySet::AUTOGRAD,
            }
        } else {
            LocalDispatchKeySet {
                included: included | in_place,
                excluded: excluded - DispatchKeySet::AUTOGRAD,
            }
        };
        Self { before: INFERENCE_MODE.replace(enabled), _sets: sets.enter() }
    }
}

impl Drop for InferenceModeGuard {
    fn drop(&mut self) {
        INFERENCE_MODE.set(self.before);
    }
}
