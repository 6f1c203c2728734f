//! What every entry point does first: it counts the call, lets the fault plan speak, looks at what the call needs, and
//! keeps panics from crossing into C.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::{Code, Outcome};
use crate::exit;
use crate::machine::Machine;

/// What has to be there for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: it can be called before `cuInit`.
    Nothing,
    /// `cuInit`.
    Init,
    /// A current context that works.
    Context,
    /// `cuInit`, and what is given back is gone even where the context is lost: what cannot be given back otherwise
    /// would be counted as live for ever.
    GiveBack,
}

static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);

thread_local! {
    /// Whether this thread runs a host function of the program, which must not call CUDA.
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Runs a host function of the program.
pub(crate) fn as_host_function<R>(function: impl FnOnce() -> R) -> R {
    IN_HOST_FUNCTION.set(true);
    let result = function();
    IN_HOST_FUNCTION.set(false);
    result
}

/// The machine, made at the first call as the environment says.
pub(crate) fn machine() -> MutexGuard<'static, Option<Machine>> {
    let mut machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    if machine.is_none() {
        *machine = Some(Machine::from_environment());
    }
    machine
}

/// One call.
pub(crate) fn call(name: &'static str, needs: Needs, op: impl FnOnce(&mut Machine) -> Outcome) -> Code {
    // With thread-local storage gone, the thread is ending: nothing runs a host function.
    if IN_HOST_FUNCTION.try_with(Cell::get).unwrap_or(false) {
        return Code::NOT_PERMITTED;
    }
    if exit::has_begun() {
        return Code::DEINITIALIZED;
    }
    let whole = AssertUnwindSafe(|| {
        let mut guard = machine();
        let machine = guard.as_mut().ok_or(Code::UNKNOWN)?;
        machine.begin_call(name)?;
        machine.checked(needs, op)
    });
    match catch_unwind(whole) {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => Code::UNKNOWN,
    }
}

/// Defines entry points, and the table by which `cuGetProcAddress` finds them.
///
/// `NEEDS fn NAME(ARGUMENTS) |machine| { … }`: the body gives an `Outcome`.
macro_rules! exports {
    ($($(#[doc = $doc:literal])* $needs:ident fn $name:ident($($arg:ident: $type:ty),* $(,)?) |$machine:pat_param| $body:block)*) => {
        $(
            $(#[doc = $doc])*
            #[allow(unsafe_code, non_snake_case, reason = "the name under which C programs find it")]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($arg: $type),*) -> $crate::abi::Code {
                $crate::entry::call(stringify!($name), $crate::entry::Needs::$needs, |$machine| $body)
            }
        )*

        /// All of these by name.
        pub(crate) const TABLE: &[$crate::exports::Symbol] =
            &[$((stringify!($name), $name as *const ())),*];
    };
}
pub(crate) use exports;
