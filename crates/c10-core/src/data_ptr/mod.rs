#![expect(unsafe_code, reason = "runs deleters on the contexts they were given with, each once")]
//! [`DataPtr`]: an address, the device it is on, and who frees it and how (`c10::DataPtr`).
//!
//! Ownership is in the *context* alone: when a `DataPtr` ends, its deleter runs once on the context, unless
//! that is null. The address may differ from the context (a view into a larger object, a mapped file).
//!
//! It does not count references, and it knows no size: it promises only who frees and how.
//!
//! Differs from PyTorch: a deleter is the address of a [`DeleterEntry`] and not of a function. The compiler
//! may give two functions one address or one function two, so that comparing functions proves nothing; a
//! `static` has an address of its own, and room for a name that a leak hunter can read.
//!
//! // Note [Wrapped owners]
//! An adaptor, a copy-on-write context, or a profiler often owns a *whole* `DataPtr` and hands out one of its
//! own in front of it. The owner of the memory must still know its own: `record_stream` looks for the block
//! behind a pointer that came through any number of such layers. So a deleter may say how to find the
//! `DataPtr` that its context holds ([`DeleterEntry::with_inner`]), and [`DataPtr::root`] walks to the
//! innermost, whose context and deleter are untouched. Each layer is an owner of the next, so that the walk
//! is a list without cycles, and as long as the outer pointer is borrowed no layer can end.

use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};

use crate::device::Device;

mod erased;
mod wrapping;

pub use wrapping::Wrapping;

/// How a context is ended, with a name for reports. Declared as a `static`, which is its identity.
pub struct DeleterEntry {
    /// A name for dumps.
    pub name: &'static str,
    /// Ends the context it is given.
    ///
    /// It may run on any thread, and must not unwind.
    pub run: unsafe fn(*mut c_void),
    /// Where in a context the `DataPtr` is that it wraps. See Note [Wrapped owners].
    inner: Option<unsafe fn(*mut c_void) -> *const DataPtr>,
}

impl DeleterEntry {
    /// A deleter that ends a context by `run`.
    pub const fn new(name: &'static str, run: unsafe fn(*mut c_void)) -> Self {
        Self { name, run, inner: None }
    }

    /// Says how to find, in a context, the [`DataPtr`] that it owns whole, so that [`DataPtr::root`] can walk
    /// past this layer.
    ///
    /// Whoever makes a `DataPtr` with this deleter promises that `inner` may be called on its context from any
    /// thread, any number of times, and returns a pointer that is valid for shared reads until the deleter
    /// runs.
    #[must_use]
    pub const fn with_inner(mut self, inner: unsafe fn(*mut c_void) -> *const DataPtr) -> Self {
        self.inner = Some(inner);
        self
    }
}

/// A deleter's identity (`c10::DeleterFnPtr`); two are the same when [`same_deleter`] says so.
pub type Deleter = &'static DeleterEntry;

/// Whether two deleters are the same `static`.
pub fn same_deleter(a: Deleter, b: Deleter) -> bool {
    ptr::eq(a, b)
}

/// The deleter of memory that nobody has to free (`c10::deleteNothing`).
pub static DELETE_NOTHING: DeleterEntry = DeleterEntry::new("delete_nothing", |_| {});

/// An owned (or borrowed) piece of memory on a device. Move-only; its end runs the deleter once.
pub struct DataPtr {
    data: *mut u8,
    context: *mut c_void,
    deleter: Deleter,
    device: Device,
}

const _: () = assert!(size_of::<DataPtr>() == 32 && size_of::<Option<DataPtr>>() == 32);

// SAFETY: `new` and the setters take contexts only with deleters that may run on any thread, and the
// address is given out as a raw pointer, whose use is the caller's to justify.
unsafe impl Send for DataPtr {}
// SAFETY: `&DataPtr` gives out copies of its fields and runs nothing.
unsafe impl Sync for DataPtr {}

impl DataPtr {
    /// No memory, on a device: what an allocation of 0 bytes gives.
    #[inline]
    pub const fn null(device: Device) -> Self {
        Self { data: ptr::null_mut(), context: ptr::null_mut(), deleter: &DELETE_NOTHING, device }
    }

    /// Memory at `data`, which `deleter` frees when it is run on `context`.
    ///
    /// # Safety
    /// Until the deleter has run, the memory at `data` stays valid for what the receiver was told of it (its
    /// size, and whether it may be written), and nobody else frees it. Running `deleter` on `context` once,
    /// from any thread, must be sound, and so must what [`DeleterEntry::with_inner`] asks. Host memory is
    /// initialised.
    #[inline]
    pub const unsafe fn new(data: *mut u8, context: *mut c_void, deleter: Deleter, device: Device) -> Self {
        Self { data, context, deleter, device }
    }

    /// Memory that somebody else owns: nothing happens at its end.
    ///
    /// # Safety
    /// The memory at `data` outlives the result and whatever is made of it, and is initialised if it is the
    /// host's.
    pub const unsafe fn borrowed(data: *mut u8, device: Device) -> Self {
        Self { data, context: ptr::null_mut(), deleter: &DELETE_NOTHING, device }
    }

    /// Memory at `data` that `free` frees (`c10::InefficientStdFunctionContext`; one heap object more).
    ///
    /// # Safety
    /// As [`new`](Self::new): the memory stays valid until `free` is called, which is once, on any thread. A
    /// panic in it aborts the process.
    pub unsafe fn from_closure(data: *mut u8, device: Device, free: impl FnOnce() + Send + 'static) -> Self {
        let (context, deleter) = erased::closure(free);
        // SAFETY: the caller's duty covers the address, and `erased::closure` pairs the context with its deleter.
        unsafe { Self::new(data, context, deleter, device) }
    }

    /// Takes over the bytes of a boxed slice, which is freed at the end.
    pub fn from_boxed_slice(bytes: Box<[u8]>) -> Self {
        let (data, context, deleter) = erased::boxed_slice(bytes);
        // SAFETY: the box owns its initialised bytes until the deleter drops it.
        unsafe { Self::new(data, context, deleter, Device::CPU) }
    }

    /// The address. Whether it may be read or written, and how far, is not known here.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.data
    }

    /// What the deleter will be run on; null when nothing is owned.
    pub fn context(&self) -> *mut c_void {
        self.context
    }

    /// The deleter.
    pub fn deleter(&self) -> Deleter {
        self.deleter
    }

    /// The device that the memory is on.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// The `DataPtr` that this one's context owns whole, if it is such a layer. See Note \[Wrapped owners\] in
    /// this module's source.
    pub fn inner(&self) -> Option<&Self> {
        let inner = self.deleter.inner?;
        if self.context.is_null() {
            return None;
        }
        // SAFETY: the deleter has not run on this context, and `new` and the setters promise that `inner` may
        // then be called on it.
        let inner = unsafe { inner(self.context) };
        // SAFETY: they promise too that the result is valid for reads until the deleter runs, which cannot be
        // before the borrow of `self` ends.
        Some(unsafe { &*inner })
    }

    /// The innermost `DataPtr`: the one that the owner of the memory made, behind every adaptor and
    /// copy-on-write layer. Itself, when nothing is wrapped.
    pub fn root(&self) -> &Self {
        let mut root = self;
        while let Some(inner) = root.inner() {
            root = inner;
        }
        root
    }

    /// Whether there is neither an address nor a context (PyTorch's `operator bool`, negated).
    pub fn is_null(&self) -> bool {
        self.data.is_null() && self.context.is_null()
    }

    /// Frees what is owned now; the address is null afterwards, the device stays.
    pub fn clear(&mut self) {
        let device = self.device;
        drop(mem::replace(self, Self::null(device)));
    }

    /// Gives the context away without running the deleter. The address stays, now borrowed.
    ///
    /// The caller owes one run of [`deleter`](Self::deleter) on the result; forgetting it leaks.
    #[must_use = "the context leaks unless its deleter is run"]
    pub fn release_context(&mut self) -> *mut c_void {
        mem::replace(&mut self.context, ptr::null_mut())
    }

    /// Moves the owner out as a value of its own. The address stays, now borrowed from the result
    /// (`move_context`).
    ///
    /// # Safety
    /// `self` must not be used to reach the memory after the result has ended.
    pub unsafe fn move_context(&mut self) -> Self {
        let context = self.release_context();
        Self {
            data: self.data,
            context,
            deleter: mem::replace(&mut self.deleter, &DELETE_NOTHING),
            device: self.device,
        }
    }

    /// The context as a `T`, if the deleter is `expected`.
    ///
    /// # Safety
    /// Every `DataPtr` with the deleter `expected` has a `T` as its context, or null.
    pub unsafe fn cast_context<T>(&self, expected: Deleter) -> Option<NonNull<T>> {
        if same_deleter(self.deleter, expected) { NonNull::new(self.context.cast()) } else { None }
    }

    /// Puts `new` in the deleter's place if the deleter is `expected`, and says whether it was. The context
    /// is untouched.
    ///
    /// # Safety
    /// Running `new` on the context once, from any thread, must be sound in `expected`'s place, and so must
    /// what [`DeleterEntry::with_inner`] asks of it.
    #[must_use = "the deleter may not have been the expected one"]
    pub unsafe fn compare_exchange_deleter(&mut self, expected: Deleter, new: Deleter) -> bool {
        let found = same_deleter(self.deleter, expected);
        if found {
            self.deleter = new;
        }
        found
    }

    /// Puts `new` in the deleter's place and returns the old one. The context is untouched.
    ///
    /// # Safety
    /// Running `new` on the context once, from any thread, must be sound, and so must what
    /// [`DeleterEntry::with_inner`] asks of it.
    pub unsafe fn replace_deleter(&mut self, new: Deleter) -> Deleter {
        mem::replace(&mut self.deleter, new)
    }

    /// Makes both address and context `p`, if nothing is owned now, and says whether that was so.
    ///
    /// # Safety
    /// As [`borrowed`](Self::borrowed), of `p`.
    #[must_use = "nothing changes where the memory is owned"]
    pub unsafe fn unsafe_reset_data_and_context(&mut self, p: *mut u8) -> bool {
        let free = same_deleter(self.deleter, &DELETE_NOTHING);
        if free {
            self.data = p;
            self.context = p.cast();
        }
        free
    }

    /// Rewrites the device label; the memory stays where it is (`unsafe_set_device`).
    ///
    /// # Safety
    /// The memory can be reached in the way of the new device.
    pub unsafe fn unsafe_set_device(&mut self, device: Device) {
        self.device = device;
    }
}

impl Default for DataPtr {
    fn default() -> Self {
        Self::null(Device::CPU)
    }
}

impl Drop for DataPtr {
    #[inline]
    fn drop(&mut self) {
        if !self.context.is_null() {
            // SAFETY: the context is here, so that its deleter has not run; `new` and the setters promise
            // that running it once is sound.
            unsafe { (self.deleter.run)(self.context) }
        }
    }
}

impl fmt::Debug for DataPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataPtr")
            .field("data", &self.data)
            .field("context", &self.context)
            .field("deleter", &self.deleter.name)
            .field("device", &format_args!("{}", self.device))
            .finish()
    }
}

impl fmt::Debug for DeleterEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deleter").field(&self.name).finish()
    }
}
