#![expect(unsafe_code, reason = "counts the owners of a copy-on-write context, and ends it with the last")]
//! The context of a copy-on-write [`DataPtr`]: the whole original, and how many share it
//! (`c10::impl::cow::COWDeleterContext`).
//!
//! It is counted by hand, on the atomics of [`sync`](crate::sync), so that loom sees the count.
//!
//! Differs from PyTorch: the context owns the original `DataPtr` and not only its owner, so that memory of
//! any kind can be shared, and not only "simple" pointers. And it has no lock: who copies the bytes holds a
//! share for as long as that takes, instead of a lock that the last owner waits for.

use std::ffi::c_void;
use std::mem;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::data_ptr::{DataPtr, DeleterEntry};
use crate::sync::atomic::{AtomicUsize, Ordering, fence};

/// The deleter of a copy-on-write layer (`c10::impl::cow::cow_deleter`).
static COW_DELETER: DeleterEntry = DeleterEntry::new("copy_on_write", drop_share).with_inner(original);

/// What the owners share.
#[derive(Debug)]
pub(crate) struct Context {
    /// All shares; the last one ends the context.
    shares: AtomicUsize,
    /// Those of them for which the bytes must stay as they are, which includes the storages'.
    of_bytes: AtomicUsize,
    original: DataPtr,
    /// The last owner may write the original, and need not copy it.
    writable: bool,
}

/// What a share is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The bytes stay as they are.
    Bytes,
    /// The memory stays alive.
    Owner,
}

/// One owner's share in a [`Context`]: the original lives for as long as any does.
#[derive(Debug)]
pub(crate) struct Share {
    context: NonNull<Context>,
    kind: Kind,
}

// SAFETY: a share is a counted reference, as `Arc`, to a context whose fields are `Send + Sync`; the count is
// atomic, and the last share to go synchronises with all others before it drops the context.
unsafe impl Send for Share {}
// SAFETY: `&Share` gives out `&Context`, which is `Sync`.
unsafe impl Sync for Share {}

impl Context {
    /// Room for a context, to be made before locks are taken.
    pub(crate) fn room() -> Box<Self> {
        Box::new(Self {
            shares: AtomicUsize::new(0),
            of_bytes: AtomicUsize::new(0),
            original: DataPtr::default(),
            writable: false,
        })
    }

    pub(crate) fn original(&self) -> &DataPtr {
        &self.original
    }

    fn add(&self, kind: Kind) {
        let before = self.shares.fetch_add(1, Ordering::Relaxed);
        // Shares are owned by values of several words: so many are only there when they are leaked.
        assert!(before < isize::MAX.unsigned_abs(), "more copy-on-write owners than can be counted");
        if kind == Kind::Bytes {
            self.of_bytes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Share {
    /// A share in the layer around `slot`, which is put there if there is none; the address stays.
    pub(crate) fn wrap(slot: &mut DataPtr, mut room: Box<Context>, writable: bool, kind: Kind) -> Self {
        if let Some(share) = Self::of(slot, kind) {
            return share;
        }
        let device = slot.device();
        room.original = mem::replace(slot, DataPtr::null(device));
        room.writable = writable;
        let context = NonNull::from(Box::leak(room));
        let first = Self::counted(context, Kind::Bytes);
        let second = Self::counted(context, kind);
        *slot = first.into_data_ptr();
        second
    }

    /// A new share in the layer around `slot`, if there is one.
    pub(crate) fn of(slot: &DataPtr, kind: Kind) -> Option<Self> {
        layer(slot).map(|context| Self::counted(NonNull::from(context), kind))
    }

    fn counted(context: NonNull<Context>, kind: Kind) -> Self {
        let share = Self { context, kind };
        share.add(kind);
        share
    }

    /// Whether `slot` holds a share of the same context.
    pub(crate) fn is_of(&self, slot: &DataPtr) -> bool {
        std::ptr::eq(slot.context(), self.context.as_ptr().cast())
    }

    /// The share, which is one of bytes, as a `DataPtr` at the original's address.
    pub(crate) fn into_data_ptr(self) -> DataPtr {
        assert!(self.kind == Kind::Bytes, "a storage's share is one of bytes");
        let (address, device) = (self.original.as_ptr(), self.original.device());
        let context = mem::ManuallyDrop::new(self).context.as_ptr();
        // SAFETY: the share keeps the original alive until the deleter gives it back, which may be on any
        // thread; `original` finds it in any live context.
        unsafe { DataPtr::new(address, context.cast(), &COW_DELETER, device) }
    }
}

/// Whether nobody but `slot` has a share in the bytes of the layer around it, and they may be written, or else
/// its storage is `read_only` anyhow.
///
/// With `slot` borrowed exclusively no share can be added, so that it stays so.
pub(crate) fn is_sole(slot: &mut DataPtr, read_only: bool) -> bool {
    // Acquires what the others did before they gave their shares back.
    layer(slot).is_some_and(|context| {
        (context.writable || read_only) && context.of_bytes.load(Ordering::Acquire) == 1
    })
}

/// Takes the layer around `slot` off, if there is one that nobody else has a share in.
pub(crate) fn strip(slot: &mut DataPtr) {
    let Some(context) = layer(slot) else { return };
    if context.shares.load(Ordering::Acquire) != 1 {
        return;
    }
    let context = slot.release_context();
    // SAFETY: the only share was `slot`'s, which has given it up without running the deleter, so that this is
    // the only reference to the context, which `wrap` made by leaking a box.
    let context = unsafe { Box::from_raw(context.cast::<Context>()) };
    *slot = context.original;
}

fn layer(slot: &DataPtr) -> Option<&Context> {
    // SAFETY: only `into_data_ptr` makes pointers with this deleter, from a share's context.
    let context = unsafe { slot.cast_context::<Context>(&COW_DELETER) }?;
    // SAFETY: `slot` has a share, which keeps the context alive for as long as `slot` is borrowed.
    Some(unsafe { context.as_ref() })
}

impl Deref for Share {
    type Target = Context;

    fn deref(&self) -> &Context {
        // SAFETY: the context is alive as long as this share is.
        unsafe { self.context.as_ref() }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.kind == Kind::Bytes {
            self.of_bytes.fetch_sub(1, Ordering::Release);
        }
        if self.shares.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last share of a context that `wrap` made by leaking a box.
            drop(unsafe { Box::from_raw(self.context.as_ptr()) });
        }
    }
}

/// Gives a share back. The deleter of `into_data_ptr`.
unsafe fn drop_share(context: *mut c_void) {
    // SAFETY: `into_data_ptr` made the context from a share, which it gave up.
    let context = unsafe { NonNull::new_unchecked(context.cast::<Context>()) };
    drop(Share { context, kind: Kind::Bytes });
}

/// Where the original is. See Note [Wrapped owners].
unsafe fn original(context: *mut c_void) -> *const DataPtr {
    // SAFETY: `into_data_ptr` made the context from a share, and the deleter has not run.
    unsafe { &raw const (*context.cast::<Context>()).original }
}
