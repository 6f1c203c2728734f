#![expect(unsafe_code, reason = "boxes a wrapped DataPtr as a context and finds it again by its deleter")]
//! [`Wrapping`]: a deleter whose contexts own a whole [`DataPtr`] and a value beside it. What an allocator's
//! adaptor is made of, without unsafe code of its own.

use std::any::TypeId;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{DataPtr, Deleter, DeleterEntry, same_deleter};

/// A deleter of wrapped pointers: each context owns the `DataPtr` that was wrapped, and a `T` that is dropped
/// *after* that memory is free. See Note \[Wrapped owners\] at the head of [`data_ptr`](super).
///
/// ```
/// use c10_core::data_ptr::{DataPtr, Wrapping};
///
/// struct Bell;
/// impl Drop for Bell {
///     fn drop(&mut self) { /* the memory is free now */ }
/// }
/// static BELL: Wrapping<Bell> = Wrapping::new("bell");
///
/// let plain = DataPtr::from_boxed_slice(vec![7; 3].into());
/// let address = plain.as_ptr();
/// let wrapped = BELL.wrap(plain, Bell);
/// assert_eq!(wrapped.as_ptr(), address);
/// assert!(BELL.held(&wrapped).is_some());
/// assert_eq!(wrapped.root().deleter().name, "boxed_slice");
/// ```
pub struct Wrapping<T> {
    entry: DeleterEntry,
    /// Not read: it makes the values of different types different. Equal constants may be merged into one, and
    /// so may the functions of types of one layout, and then a pointer would be taken for one of another type.
    _type: TypeId,
    held: PhantomData<fn(T) -> T>,
}

struct Wrapped<T> {
    // Dropped in this order: the memory first.
    inner: DataPtr,
    held: T,
}

impl<T: Send + 'static> Wrapping<T> {
    /// A deleter called `name` in dumps; its identity is the `static` it is put in.
    pub const fn new(name: &'static str) -> Self {
        let entry = DeleterEntry::new(name, drop_wrapped::<T>).with_inner(inner_of::<T>);
        Self { entry, _type: TypeId::of::<T>(), held: PhantomData }
    }

    /// The deleter of every pointer that [`wrap`](Self::wrap) makes.
    pub const fn deleter(&'static self) -> Deleter {
        &self.entry
    }

    /// A pointer to the same memory that owns `inner` and `held`: at its end `inner` is dropped, and then
    /// `held`. A panic in either aborts the process.
    pub fn wrap(&'static self, inner: DataPtr, held: T) -> DataPtr {
        let (data, device) = (inner.as_ptr(), inner.device());
        let context = Box::into_raw(Box::new(Wrapped { inner, held }));
        // SAFETY: the box owns the inner pointer, and with it the memory, until the deleter drops it, which may
        // be on any thread since both parts are `Send`; `inner_of` points into the box, which never moves.
        unsafe { DataPtr::new(data, context.cast(), self.deleter(), device) }
    }

    /// What is held beside the memory, if `ptr` was made by this deleter.
    pub fn held<'a>(&'static self, ptr: &'a DataPtr) -> Option<&'a T>
    where
        T: Sync,
    {
        // SAFETY: only `wrap` pairs this deleter with a context, which is then a boxed `Wrapped<T>`: a value with
        // this address is of this type, as `_type` sees to.
        let wrapped = unsafe { ptr.cast_context::<Wrapped<T>>(self.deleter()) }?;
        // SAFETY: the box lives until the deleter runs, which cannot be while `ptr` is borrowed, and is only
        // read until then.
        Some(unsafe { &wrapped.as_ref().held })
    }

    /// Takes a wrapped pointer apart again, or gives back one that another deleter ends.
    ///
    /// # Errors
    /// `ptr` itself, when it was not made by this deleter or owns nothing any more.
    pub fn unwrap(&'static self, mut ptr: DataPtr) -> Result<(DataPtr, T), DataPtr> {
        if !same_deleter(ptr.deleter(), self.deleter()) || ptr.context().is_null() {
            return Err(ptr);
        }
        let context = ptr.release_context().cast::<Wrapped<T>>();
        // SAFETY: `wrap` made the context from such a box, and the deleter will not run on it any more.
        let wrapped = unsafe { Box::from_raw(context) };
        Ok((wrapped.inner, wrapped.held))
    }
}

unsafe fn drop_wrapped<T>(context: *mut c_void) {
    // SAFETY: `wrap` made the context from a box of this type, and a deleter runs once.
    let wrapped = unsafe { Box::from_raw(context.cast::<Wrapped<T>>()) };
    // A panic that leaves a deleter would unwind through whoever drops memory, under whatever lock.
    if catch_unwind(AssertUnwindSafe(|| drop(wrapped))).is_err() {
        std::process::abort();
    }
}

unsafe fn inner_of<T>(context: *mut c_void) -> *const DataPtr {
    let wrapped = context.cast::<Wrapped<T>>();
    // SAFETY: the caller's context is a live box of this type.
    unsafe { &raw const (*wrapped).inner }
}

impl<T> fmt::Debug for Wrapping<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wrapping").field(&self.entry.name).finish()
    }
}
