//! What every entry point does first: it counts the call, lets the fault plan speak, looks at what the call needs, and
//! keeps panics from crossing into C.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::abi::{Code, Outcome};
use crate::exit::{self, AtEnd};
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

/// What an operation that may have to wait for another process says.
#[derive(Debug)]
pub(crate) enum Wait {
    Over,
    Longer,
}

/// How long to sleep before asking another process again.
const POLL: Duration = Duration::from_micros(200);

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

/// What there is when the process ends; `None` where a thread is in a call.
pub(crate) fn at_end() -> Option<AtEnd> {
    let machine = MACHINE.try_lock().ok()?;
    let machine = machine.as_ref()?;
    Some(AtEnd { live: machine.live_handles(), swept: machine.swept, calls: machine.calls })
}

/// One call.
pub(crate) fn call(name: &'static str, needs: Needs, op: impl FnOnce(&mut Machine) -> Outcome) -> Code {
    match attempt(Some(name), needs, op) {
        Ok(()) => Code::SUCCESS,
        Err(code) => code,
    }
}

/// One call, whose operation is asked again while it has to wait; meanwhile other threads can call.
pub(crate) fn call_waiting(
    name: &'static str,
    needs: Needs,
    mut op: impl FnMut(&mut Machine) -> Outcome<Wait>,
) -> Code {
    let mut first = Some(name);
    loop {
        match attempt(first.take(), needs, &mut op) {
            Ok(Wait::Over) => return Code::SUCCESS,
            Ok(Wait::Longer) => thread::sleep(POLL),
            Err(code) => return code,
        }
    }
}

/// Runs an operation of the call of that name; without one, of a call that has begun.
fn attempt<R>(name: Option<&str>, needs: Needs, op: impl FnOnce(&mut Machine) -> Outcome<R>) -> Outcome<R> {
    // With thread-local storage gone, the thread is ending: nothing runs a host function.
    if IN_HOST_FUNCTION.try_with(Cell::get).unwrap_or(false) {
        return Err(Code::NOT_PERMITTED);
    }
    if exit::has_begun() {
        // One that waits has been called before.
        name.into_iter().for_each(exit::late);
        return Err(Code::DEINITIALIZED);
    }
    let whole = AssertUnwindSafe(|| {
        let mut guard = machine();
        let machine = guard.as_mut().ok_or(Code::UNKNOWN)?;
        name.map_or(Ok(()), |name| machine.begin_call(name))?;
        machine.checked(needs, op)
    });
    catch_unwind(whole).unwrap_or(Err(Code::UNKNOWN))
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
