//! [`Failure`]: why a call failed, as a code and a text that its thread can ask for.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use c10_cuda::{Error, ErrorKind};

thread_local! {
    /// The text of the thread's last failure.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A code of the header, and a text.
#[derive(Debug)]
pub(crate) struct Failure {
    code: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { code: 2, text: text.into() }
    }

    pub(crate) fn config(text: impl Into<String>) -> Self {
        Self { code: 3, text: text.into() }
    }

    pub(crate) fn file(text: impl Into<String>) -> Self {
        Self { code: 8, text: text.into() }
    }

    fn panicked(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Self { code: 7, text: format!("a fault of the allocator: {text}") }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::OutOfMemory => 1,
            ErrorKind::InvalidArgument => 2,
            ErrorKind::Config => 3,
            ErrorKind::NotReady => 5,
            ErrorKind::NotImplemented => 6,
            _ => 4,
        };
        Self { code, text: error.to_string() }
    }
}

impl Clone for Failure {
    fn clone(&self) -> Self {
        Self { code: self.code, text: self.text.clone() }
    }
}

/// Runs a call; its value, or its failure's code when the text has been kept.
fn run<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, c_int> {
    let result = catch_unwind(AssertUnwindSafe(call));
    let result = result.unwrap_or_else(|payload| {
        let failure = Failure::panicked(&*payload);
        // Its destructor may panic, too.
        std::mem::forget(payload);
        Err(failure)
    });
    result.map_err(|Failure { code, text }| {
        // A thread that is ending has nowhere to keep it.
        let _ = LAST.try_with(|last| *last.borrow_mut() = text);
        code
    })
}

/// A call's value, or another where it fails.
pub(crate) fn value_or<T>(otherwise: T, call: impl FnOnce() -> Result<T, Failure>) -> T {
    run(call).unwrap_or(otherwise)
}

/// 0, or the failure's code.
pub(crate) fn code(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    run(call).err().unwrap_or(0)
}

/// Looks at the text of the thread's last failure; empty when there was none.
pub(crate) fn with_last<R>(look: impl FnOnce(&str) -> R) -> R {
    let text = LAST.try_with(|last| last.borrow().clone()).unwrap_or_default();
    look(&text)
}
