#![expect(unsafe_code, reason = "owns a value by counts that all its handles share")]
//! [`Shared`] and [`WeakShared`]: what `Arc` and `Weak` are, for the values that operators make and end all the time
//! (`c10::intrusive_ptr`).
//!
//! // Note [Shared values]
//! Storages and tensors come and go with every operator, and with `Arc` the calls of the system's allocator and the
//! second count take a third of the time of the smallest ones. Here the block of a value that has ended is kept by its
//! thread for the next one (`blocks`). Both counts are one word, so that one load tells whether a handle is the only
//! one of either kind: then nobody else can come by, and the value ends with no atomic change of the counts at all.
//!
//! Who may touch what:
//! - C1 the upper half of `counts` is the number of [`Shared`] handles less one. The value is dropped by whoever takes
//!   it below zero, or finds the counts `SOLE`, once.
//! - C2 the lower half is the number of [`WeakShared`] handles, and one for all strong ones together; the block is
//!   freed by whoever takes it to zero, or found `SOLE`.
//! - C3 a weak handle becomes a strong one only while there is a strong one.

mod blocks;
mod keeping;
#[cfg(all(test, not(loom)))]
mod tests;

pub use keeping::{Keep, Keeping};

use std::alloc::Layout;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::process::abort;
use std::ptr::{self, NonNull};

use crate::sync::atomic::{AtomicU64, Ordering, fence};

// Note [Counts in a sign]
// Of the number of strong handles two things are asked with every change: whether it is too large, and whether it is
// none. Less one, and in the upper half, either is the sign of the whole word after the change, which the processor
// says of the change itself: the old counts need not be fetched. Who drops a handle and finds the sign asks which of
// the two it is: several threads that have counted a handle too many may be about to end the process.

/// A strong handle, as it counts.
const STRONG: u64 = 1 << 32;
/// A weak handle, or all strong ones together.
const WEAK: u64 = 1;
/// There is one strong handle, and no weak one.
const SOLE: u64 = WEAK;
/// More handles of a kind are not in use: they were leaked.
const MOST: u64 = i32::MAX as u64;

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
pub struct Shared<T: ?Sized> {
    block: NonNull<Block<T>>,
    owns: PhantomData<Block<T>>,
}

/// A handle that does not keep the value.
pub struct WeakShared<T> {
    block: NonNull<Block<T>>,
    owns: PhantomData<Block<T>>,
}

struct Block<T: ?Sized> {
    counts: AtomicU64,
    value: T,
}

// SAFETY: handles on all threads reach the value by `&T`, and any of them may drop it.
unsafe impl<T: Send + Sync + ?Sized> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync + ?Sized> Sync for Shared<T> {}
// SAFETY: as above; it may become a strong handle.
unsafe impl<T: Send + Sync> Send for WeakShared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for WeakShared<T> {}

// As for `Arc`.
impl<T: RefUnwindSafe + ?Sized> UnwindSafe for Shared<T> {}
impl<T: RefUnwindSafe + ?Sized> RefUnwindSafe for Shared<T> {}
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
        Self::new_with(make, |_| ()).0
    }

    /// As [`new`](Self::new), of a value that `finish` changes where it stays, before there is a handle. Where one of
    /// the two panics the place is lost.
    #[inline(always)]
    pub fn new_with<R>(make: impl FnOnce() -> T, finish: impl FnOnce(&mut T) -> R) -> (Self, R) {
        let block = blocks::take::<Block<T>>();
        let place = block.as_ptr();
        // SAFETY: the block is large and aligned enough, and nobody else's: so are its parts.
        let counts = unsafe { &raw mut (*place).counts };
        // SAFETY: as above.
        let value = unsafe { &raw mut (*place).value };
        // SAFETY: as above.
        unsafe { counts.write(AtomicU64::new(SOLE)) };
        // SAFETY: as above.
        unsafe { value.write(make()) };
        // SAFETY: it was just written, and there is no handle on it yet.
        let result = finish(unsafe { &mut *value });
        (Self { block, owns: PhantomData }, result)
    }

    /// A weak handle.
    pub fn downgrade(this: &Self) -> WeakShared<T> {
        check(weak(this.counts().fetch_add(WEAK, Ordering::Relaxed)));
        WeakShared { block: this.block, owns: PhantomData }
    }
}

/// A value of which only those who made it know the type.
pub type SharedAny = Shared<dyn Any + Send + Sync>;

impl<T: Any + Send + Sync> Shared<T> {
    /// The handle, for those who need not know the type.
    #[inline]
    pub fn into_any(self) -> SharedAny {
        Shared { block: ManuallyDrop::new(self).block, owns: PhantomData }
    }
}

impl SharedAny {
    /// Another handle, if the value is a `T`.
    #[inline]
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<Shared<T>> {
        let own = (**self).is::<T>().then(|| ManuallyDrop::new(self.clone()))?;
        // The block was one for a `T` when the handle forgot its type.
        Some(Shared { block: own.block.cast(), owns: PhantomData })
    }
}

impl<T: ?Sized> Shared<T> {
    /// The value, if this is the only handle on it, weak ones too.
    #[inline]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        if !this.is_sole() {
            return None;
        }
        // SAFETY: there is no other handle, and this one is borrowed exclusively.
        Some(unsafe { &mut (*this.block.as_ptr()).value })
    }

    /// Whether this is the only handle of either kind. What others did with theirs is seen then.
    #[inline]
    fn is_sole(&self) -> bool {
        self.counts().load(Ordering::Acquire) == SOLE
    }

    /// Drops the only handle.
    ///
    /// # Safety
    /// [`is_sole`](Self::is_sole) said that it is, and was asked of this handle, which nobody has used since.
    #[inline]
    unsafe fn drop_sole(self) {
        let mut handle = ManuallyDrop::new(self);
        // SAFETY: the caller's: no handle can come from anywhere but this one.
        unsafe { handle.end(true) };
    }

    /// Drops a handle that was not [sole](Self::is_sole) a moment ago.
    #[inline]
    fn drop_one_of_many(self) {
        let mut handle = ManuallyDrop::new(self);
        if change_strong(handle.counts(), STRONG.wrapping_neg(), Ordering::Release) {
            fence(Ordering::Acquire);
            // SAFETY: the handle was taken off the counts, which are negative.
            unsafe { handle.end(false) };
        }
    }

    /// Whether two handles are on one value.
    #[inline]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        ptr::addr_eq(this.block.as_ptr(), other.block.as_ptr())
    }

    /// How many strong handles there are. Stale at once if others clone or drop theirs.
    #[inline]
    pub fn strong_count(this: &Self) -> usize {
        strong(this.counts().load(Ordering::Relaxed)) as usize
    }

    /// How many weak handles there are. Stale at once if others clone or drop theirs.
    pub fn weak_count(this: &Self) -> usize {
        weak(this.counts().load(Ordering::Relaxed)) as usize - 1
    }

    #[inline]
    fn block(&self) -> &Block<T> {
        // SAFETY: while there is a strong handle the block and its value are there, and nobody has a `&mut` to it
        // but by an exclusive borrow of the only handle.
        unsafe { self.block.as_ref() }
    }

    #[inline]
    fn counts(&self) -> &AtomicU64 {
        &self.block().counts
    }

    /// Ends the value, and frees the block if nobody has a weak handle; ends the process if there were too many handles.
    ///
    /// # Safety
    /// The caller found the counts `SOLE`, which `is_sole` says, or took a strong handle off them and found them
    /// negative; it does not use the handle any more.
    #[inline(never)]
    unsafe fn end(&mut self, is_sole: bool) {
        // SAFETY: the block is freed at the end of this at the earliest.
        let counts = unsafe { &(*self.block.as_ptr()).counts };
        // See Note [Counts in a sign]. None stays none, by C3.
        if !is_sole && strong(counts.load(Ordering::Relaxed)) != 0 {
            abort();
        }
        // SAFETY: the value has not ended yet.
        let layout = Layout::for_value(unsafe { self.block.as_ref() });
        // SAFETY: the block is freed at the end of this at the earliest.
        let value = unsafe { &raw mut (*self.block.as_ptr()).value };
        // SAFETY: the caller's, and C3: nobody reaches the value any more, which was not dropped before.
        unsafe { ptr::drop_in_place(value) };
        if is_sole || weak(counts.fetch_sub(WEAK, Ordering::Release)) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: there is no handle of either kind, and the value is dropped.
            unsafe { blocks::put(self.block.cast(), layout) };
        }
    }
}

#[inline]
const fn strong(counts: u64) -> u64 {
    (counts / STRONG + 1) % STRONG
}

#[inline]
const fn weak(counts: u64) -> u64 {
    counts % STRONG
}

/// Adds `change` strong handles, as they count, and says whether that left too many or none. See Note [Counts in a
/// sign]; what is compared is written in the way in which the compiler sees it.
#[inline(always)]
fn change_strong(counts: &AtomicU64, change: u64, ordering: Ordering) -> bool {
    (counts.fetch_add(change, ordering).wrapping_add(change) as i64) < 0
}

/// Ends the process before a count of handles runs into the other.
#[inline]
fn check(count: u64) {
    if count > MOST {
        abort();
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        if change_strong(self.counts(), STRONG, Ordering::Relaxed) {
            abort();
        }
        Self { block: self.block, owns: PhantomData }
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.block().value
    }
}

impl<T: ?Sized> Drop for Shared<T> {
    #[inline]
    fn drop(&mut self) {
        let is_sole = self.is_sole();
        if is_sole || change_strong(self.counts(), STRONG.wrapping_neg(), Ordering::Release) {
            fence(Ordering::Acquire);
            // SAFETY: this is the only handle, or was taken off the counts, which are negative.
            unsafe { self.end(is_sole) };
        }
    }
}

impl<T> WeakShared<T> {
    /// A strong handle, if the value has not ended.
    pub fn upgrade(&self) -> Option<Shared<T>> {
        let counts = self.counts();
        let mut seen = counts.load(Ordering::Relaxed);
        while strong(seen) != 0 {
            check(strong(seen));
            match counts.compare_exchange_weak(seen, seen + STRONG, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Shared { block: self.block, owns: PhantomData }),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// How many strong handles there are. Stale at once if others clone or drop theirs.
    pub fn strong_count(&self) -> usize {
        strong(self.counts().load(Ordering::Relaxed)) as usize
    }

    fn counts(&self) -> &AtomicU64 {
        // SAFETY: while there is a weak handle the block is there. The value, which may have ended, is not touched.
        unsafe { &(*self.block.as_ptr()).counts }
    }
}

impl<T> Clone for WeakShared<T> {
    fn clone(&self) -> Self {
        check(weak(self.counts().fetch_add(WEAK, Ordering::Relaxed)));
        Self { block: self.block, owns: PhantomData }
    }
}

impl<T> Drop for WeakShared<T> {
    fn drop(&mut self) {
        if weak(self.counts().fetch_sub(WEAK, Ordering::Release)) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: the strong handles have given up their share, so that the value has ended, and this was the
            // last weak one.
            unsafe { blocks::put(self.block.cast(), Layout::new::<Block<T>>()) };
        }
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> fmt::Debug for WeakShared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(Weak)")
    }
}
