#![expect(unsafe_code, reason = "reads records that are never freed, and values whose type was compared")]
//! [`Slot`]: a place for a record that calls read with no lock. [`Erased`]: a value of a type that calls compare.

use std::any::{Any, TypeId};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A place for a reference to a record that lives for ever. Records are unlinked but never freed, so that what
/// was read stays good.
pub(super) struct Slot<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Slot<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(super) fn load(&self) -> Option<&'static T> {
        let record = self.0.load(Ordering::Acquire);
        // SAFETY: null or out of `store`, which takes references that live for ever and that nobody writes
        // through; its release made the record visible.
        unsafe { record.as_ref() }
    }

    pub(super) fn store(&self, record: Option<&'static T>) {
        let record = record.map_or(ptr::null(), ptr::from_ref);
        self.0.store(record.cast_mut(), Ordering::Release);
    }
}

impl<T: Sync + fmt::Debug> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}

/// A value of some type: `Box<dyn Any>`, which says with no call of a function which type it is.
pub(super) struct Erased {
    of: TypeId,
    value: Box<dyn Any + Send + Sync>,
}

impl Erased {
    pub(super) fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self { of: TypeId::of::<T>(), value: Box::new(value) }
    }

    /// The value, if it is a `T`.
    #[inline]
    pub(super) fn get<T: 'static>(&self) -> Option<&T> {
        if self.of != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: `new` put a value of this very type into the box, which nobody replaces.
        Some(unsafe { &*ptr::from_ref(&*self.value).cast::<T>() })
    }
}
