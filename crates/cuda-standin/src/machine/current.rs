//! The contexts that are current, a stack for each thread.

use std::cell::RefCell;

use c10_core::DeviceIndex;

use super::{Context, Machine};
use crate::abi::{Code, Handle, Outcome};

thread_local! {
    /// The top is the current one.
    static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// Works on the calling thread's stack; on an empty one while the thread ends.
fn with_stack<R>(work: impl FnOnce(&mut Vec<Handle>) -> R) -> R {
    let mut work = Some(work);
    let done = STACK.try_with(|stack| work.take().map(|work| work(&mut stack.borrow_mut())));
    match (done, work) {
        (Ok(Some(done)), _) => done,
        (_, Some(work)) => work(&mut Vec::new()),
        (_, None) => unreachable!("the work is taken where it is done"),
    }
}

/// The thread's current context, [`Handle::NULL`] if it has none.
pub(crate) fn top() -> Handle {
    with_stack(|stack| stack.last().copied().unwrap_or(Handle::NULL))
}

/// Makes a context current on top of what is.
pub(crate) fn push(context: Handle) {
    with_stack(|stack| stack.push(context));
}

/// Takes the current one away.
pub(crate) fn pop() -> Option<Handle> {
    with_stack(Vec::pop)
}

/// Puts a context in the place of the current one; [`Handle::NULL`] takes it away.
pub(crate) fn set(context: Handle) {
    with_stack(|stack| {
        stack.pop();
        if !context.is_null() {
            stack.push(context);
        }
    });
}

impl Machine {
    /// The current context: none is an invalid one, and one that has ended is known as such.
    pub(crate) fn current_context(&self) -> Outcome<(Handle, &Context)> {
        let handle = top();
        if handle.is_null() {
            return Err(Code::INVALID_CONTEXT);
        }
        let context = self.contexts.get(handle).map_err(|_| Code::CONTEXT_IS_DESTROYED)?;
        Ok((handle, context))
    }

    /// The device of the current context.
    pub(crate) fn current_device(&self) -> Outcome<DeviceIndex> {
        self.current_context().map(|(_, context)| context.device)
    }
}
