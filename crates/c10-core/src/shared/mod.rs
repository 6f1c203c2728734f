#![expect(unsafe_code, reason = "owns a value by counts that all its handles share")]
//! [`Shared`] and [`WeakShared`]: what `Arc` and `Weak` are, for the values that operators make and end all the time
//! (`c10::intrusive_ptr`).
//!
//! // Note [Shared values]
//! Storages and tensors come and go with every operator, and with `Arc` the calls of the system's allocator and the
//! second count take a third of the time of the smallest ones. Here the block of a value that has ended is kept by its
//! thread for the next one (`blocks`), and a value that nobody has a weak handle on ends with one atomic operation.
//!
//! Who may touch what:
//! - C1 `strong` is the number of [`Shared`] handles. The value is dropped by whoever takes it to zero, once.
//! - C2 `weak` is the number of [`WeakShared`] handles, and one for all strong ones together; the block is freed by
//!   whoever takes it to zero. `LOCKED` in its place keeps others from making weak handles for a moment.
//! - C3 a weak handle becomes a strong one only while `strong` is not zero.

mod blocks;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::process::abort;
use std::ptr::{self, NonNull};

use crate::sync::atomic::{AtomicUsize, Ordering, fence};
use crate::sync::spin_loop;

/// In the place of the count of weak handles while one is looked for.
const LOCKED: usize = usize::MAX;
/// More handles than fit in memory: they were leaked.
const MOST: usize = isize::MAX as usize;

/// A handle on a shared value, one pointer wide, `None` the same. The value ends with the last one.
///
/// ```
/// use c10_core::shared::Shared;
///
/// let one = Shared::new(|| String::from("value"));
/// let (other, weak) = (one.clone(), Shared::downgrade(&one));
/// assert!(Shared::ptr_eq(&one, &other) && *weak.upgrade().unwrap() == "value");
/// drop((one, other));
/// assert!(weak.upgrade().is_none());
/// ```
pub struct Shared<T> {
    block: NonNull<Block<T>>,
    owns: PhantomData<Block<T>>,
}

/// A handle that does not keep the value.
pub struct WeakShared<T> {
    block: NonNull<Block<T>>,
    owns: PhantomData<Block<T>>,
}

struct Block<T> {
    strong: AtomicUsize,
    weak: AtomicUsize,
    value: T,
}

// SAFETY: handles on all threads reach the value by `&T`, and any of them may drop it.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
// SAFETY: as above; it may become a strong handle.
unsafe impl<T: Send + Sync> Send for WeakShared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for WeakShared<T> {}

// As for `Arc`.
impl<T: RefUnwindSafe> UnwindSafe for Shared<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for Shared<T> {}
impl<T: RefUnwindSafe> UnwindSafe for WeakShared<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for WeakShared<T> {}

impl<T> Shared<T> {
    /// A shared value, made in the place where it stays.
    ///
    /// // Note [Made in place]
    /// A large value that is made on the stack, from many small stores, is moved with few large loads, each of which
    /// waits for several of those stores. So the place is there first. Where `make` panics the place is lost.
    #[inline(always)]
    pub fn new(make: impl FnOnce() -> T) -> Self {
        let block = blocks::take::<Block<T>>();
        let place = block.as_ptr();
        // SAFETY: the block is large and aligned enough, and nobody else's: so are its parts.
        let strong = unsafe { &raw mut (*place).strong };
        // SAFETY: as above.
        let weak = unsafe { &raw mut (*place).weak };
        // SAFETY: as above.
        let value = unsafe { &raw mut (*place).value };
        // SAFETY: as above.
        unsafe { strong.write(AtomicUsize::new(1)) };
        // SAFETY: as above.
        unsafe { weak.write(AtomicUsize::new(1)) };
        // SAFETY: as above.
        unsafe { value.write(make()) };
        Self { block, owns: PhantomData }
    }

    /// The value, if this is the only handle on it, weak ones too.
    #[inline]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        let block = this.block();
        // Nobody makes a weak handle out of another strong one while this looks whether there is one.
        block.weak.compare_exchange(1, LOCKED, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let is_only = block.strong.load(Ordering::Acquire) == 1;
        block.weak.store(1, Ordering::Release);
        if !is_only {
            return None;
        }
        // SAFETY: there is no other handle, and this one is borrowed exclusively.
        Some(unsafe { &mut (*this.block.as_ptr()).value })
    }

    /// Whether two handles are on one value.
    #[inline]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        ptr::eq(this.block.as_ptr(), other.block.as_ptr())
    }

    /// How many strong handles there are. Stale at once if others clone or drop theirs.
    pub fn strong_count(this: &Self) -> usize {
        this.block().strong.load(Ordering::Relaxed)
    }

    /// How many weak handles there are. Stale at once if others clone or drop theirs.
    pub fn weak_count(this: &Self) -> usize {
        match this.block().weak.load(Ordering::Relaxed) {
            LOCKED => 0,
            weak => weak - 1,
        }
    }

    /// A weak handle.
    pub fn downgrade(this: &Self) -> WeakShared<T> {
        let weak = &this.block().weak;
        let mut seen = weak.load(Ordering::Relaxed);
        loop {
            if seen == LOCKED {
                spin_loop();
                seen = weak.load(Ordering::Relaxed);
                continue;
            }
            check_count(seen);
            match weak.compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return WeakShared { block: this.block, owns: PhantomData },
                Err(now) => seen = now,
            }
        }
    }

    #[inline]
    fn block(&self) -> &Block<T> {
        // SAFETY: while there is a strong handle the block and its value are there, and nobody has a `&mut` to it
        // but by an exclusive borrow of the only handle.
        unsafe { self.block.as_ref() }
    }

    /// Ends the value, and frees the block if nobody has a weak handle.
    ///
    /// # Safety
    /// The caller took `strong` to zero, and does not use the handle any more.
    #[inline(never)]
    unsafe fn end(&mut self) {
        // SAFETY: the block is freed at the end of this at the earliest.
        let value = unsafe { &raw mut (*self.block.as_ptr()).value };
        // SAFETY: the caller's, and C3: nobody reaches the value any more, which was not dropped before.
        unsafe { ptr::drop_in_place(value) };
        // SAFETY: as above.
        let weak = unsafe { &(*self.block.as_ptr()).weak };
        // With no weak handle left nobody can make one, and the count needs not be taken to zero.
        if weak.load(Ordering::Acquire) == 1 || weak.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: there is no handle of either kind, and the value is dropped.
            unsafe { blocks::put(self.block) };
        }
    }
}

#[inline]
fn check_count(count: usize) {
    if count > MOST {
        abort();
    }
}

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        check_count(self.block().strong.fetch_add(1, Ordering::Relaxed));
        Self { block: self.block, owns: PhantomData }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.block().value
    }
}

impl<T> Drop for Shared<T> {
    #[inline]
    fn drop(&mut self) {
        if self.block().strong.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this took the count to zero.
            unsafe { self.end() };
        }
    }
}

impl<T> WeakShared<T> {
    /// A strong handle, if the value has not ended.
    pub fn upgrade(&self) -> Option<Shared<T>> {
        let strong = self.strong();
        let mut seen = strong.load(Ordering::Relaxed);
        while seen != 0 {
            check_count(seen);
            match strong.compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Shared { block: self.block, owns: PhantomData }),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// How many strong handles there are. Stale at once if others clone or drop theirs.
    pub fn strong_count(&self) -> usize {
        self.strong().load(Ordering::Relaxed)
    }

    fn strong(&self) -> &AtomicUsize {
        // SAFETY: while there is a weak handle the block is there. The value, which may have ended, is not touched.
        unsafe { &(*self.block.as_ptr()).strong }
    }

    fn weak(&self) -> &AtomicUsize {
        // SAFETY: as in `strong`.
        unsafe { &(*self.block.as_ptr()).weak }
    }
}

impl<T> Clone for WeakShared<T> {
    fn clone(&self) -> Self {
        // Not locked: whoever locks has found no weak handle.
        check_count(self.weak().fetch_add(1, Ordering::Relaxed));
        Self { block: self.block, owns: PhantomData }
    }
}

impl<T> Drop for WeakShared<T> {
    fn drop(&mut self) {
        if self.weak().fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: the strong handles have given up their share, so that the value has ended, and this was the
            // last weak one.
            unsafe { blocks::put(self.block) };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> fmt::Debug for WeakShared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(Weak)")
    }
}
