#![expect(unsafe_code, reason = "takes a handle out of what is dropped, once")]
//! [`Keeping`]: handles on values that say themselves what becomes of them in the end.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::Shared;

/// A value that may be kept for another use when its last handle ends.
pub trait Keep: Sized {
    /// Whether it is worth a call of [`keep`](Self::keep). It is asked wherever a handle is dropped as the last one.
    fn may_be_kept(&self) -> bool;

    /// Keeps the value, or ends it by dropping the handle. There is no other one of either kind.
    fn keep(last: Shared<Self>);
}

/// A [`Shared`] handle that gives itself to [`Keep::keep`] where it is dropped as the only one of either kind.
pub struct Keeping<T: Keep>(ManuallyDrop<Shared<T>>);

impl<T: Keep> From<Shared<T>> for Keeping<T> {
    #[inline]
    fn from(handle: Shared<T>) -> Self {
        Self(ManuallyDrop::new(handle))
    }
}

impl<T: Keep> Clone for Keeping<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Keep> Deref for Keeping<T> {
    type Target = Shared<T>;

    #[inline]
    fn deref(&self) -> &Shared<T> {
        &self.0
    }
}

impl<T: Keep> DerefMut for Keeping<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shared<T> {
        &mut self.0
    }
}

impl<T: Keep> Drop for Keeping<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: nobody uses what is left of it.
        let handle = unsafe { ManuallyDrop::take(&mut self.0) };
        if !handle.is_sole() {
            handle.drop_one_of_many();
        } else if handle.may_be_kept() {
            T::keep(handle);
        } else {
            // SAFETY: it was just asked; `may_be_kept` was given the value alone, of which it can make no handle.
            unsafe { handle.drop_sole() };
        }
    }
}

impl<T: Keep + fmt::Debug> fmt::Debug for Keeping<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
