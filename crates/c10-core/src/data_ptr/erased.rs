#![expect(unsafe_code, reason = "turns owned values into contexts and back, each once")]
//! Owned values as a context and the deleter that ends it.

use std::ffi::c_void;

use super::{Deleter, DeleterEntry};

type Closure = Box<dyn FnOnce() + Send>;

static RUN_CLOSURE: DeleterEntry = DeleterEntry::new("closure", run_closure);
static DROP_BOXED_SLICE: DeleterEntry = DeleterEntry::new("boxed_slice", drop_boxed_slice);

/// A closure as a context; its deleter calls it.
pub(super) fn closure(free: impl FnOnce() + Send + 'static) -> (*mut c_void, Deleter) {
    let boxed: Box<Closure> = Box::new(Box::new(free));
    (Box::into_raw(boxed).cast(), &RUN_CLOSURE)
}

/// The bytes, the context and the deleter of a boxed slice.
pub(super) fn boxed_slice(bytes: Box<[u8]>) -> (*mut u8, *mut c_void, Deleter) {
    // A fat pointer does not fit a context: the box itself goes to the heap.
    let mut owner = Box::new(bytes);
    let data = owner.as_mut_ptr();
    (data, Box::into_raw(owner).cast(), &DROP_BOXED_SLICE)
}

unsafe fn run_closure(context: *mut c_void) {
    // SAFETY: `closure` made the context from a box of this type, and a deleter runs once.
    let free = unsafe { Box::from_raw(context.cast::<Closure>()) };
    // A panic that leaves a deleter would unwind through whoever drops memory, under whatever lock.
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(*free)).is_err() {
        std::process::abort();
    }
}

unsafe fn drop_boxed_slice(context: *mut c_void) {
    // SAFETY: `boxed_slice` made the context from a box of this type, and a deleter runs once.
    drop(unsafe { Box::from_raw(context.cast::<Box<[u8]>>()) });
}
