#![expect(unsafe_code, reason = "writes a value into an allocation that nobody else knows of yet")]
//! Shared values that are made where they stay.

use std::sync::Arc;

/// A shared value, made in its place.
///
/// // Note [Made in place]
/// `Arc::new` of a large value makes it on the stack, from many small stores, and moves it with few large loads,
/// each of which waits for several of those stores: it takes longer than the allocation. Here the place is there
/// first. So it is in `Arc::new_cyclic`, which pays for it with an atomic operation.
#[inline(always)]
pub fn new_in_place<T>(make: impl FnOnce() -> T) -> Arc<T> {
    let place = Arc::<T>::new_uninit();
    let slot = Arc::as_ptr(&place).cast_mut();
    // SAFETY: `slot` is the place of the value in a live allocation, to which there is no other handle.
    unsafe { (*slot).write(make()) };
    // SAFETY: it was written just now.
    unsafe { place.assume_init() }
}
