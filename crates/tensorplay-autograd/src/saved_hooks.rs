//! Saved-tensor hooks: how tensors are kept between forward and backward
//! (`torch.autograd.graph.saved_tensors_hooks`).
//!
//! Hooks are the thread's while they are [entered](with_saved_tensor_hooks), the innermost alone. What is packed
//! remembers them.
//!
//! // Note [Stopping early]
//! A computation that is done again for what it saves need not go on when the last of that was saved. Hooks cannot end
//! it themselves: an operator may fill, while it runs, what was saved before. So they [ask](request_stop), and the
//! recording of the call [refuses](check_stop): before the operator runs, if it writes none of its arguments, and else
//! after it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use aten::{Error, Result, Tensor};

/// How a tensor is kept: on another device, on disk, or not at all and made again.
pub trait SavedTensorHooks: Send + Sync {
    /// What is kept in the place of a tensor. The tensor has no history; it must not be written.
    ///
    /// # Errors
    /// The forward call fails with it.
    fn pack(&self, tensor: &Tensor) -> Result<Box<dyn Any + Send + Sync>>;

    /// The tensor, from what is kept.
    ///
    /// # Errors
    /// The backward call fails with it.
    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor>;
}

thread_local! {
    static STACK: RefCell<Vec<Arc<dyn SavedTensorHooks>>> = const { RefCell::new(Vec::new()) };
    /// Whether the computation that this thread does again should end.
    static STOPS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; tensors that calls in it save go through `hooks`.
pub fn with_saved_tensor_hooks<R>(hooks: Arc<dyn SavedTensorHooks>, f: impl FnOnce() -> R) -> R {
    let mut stack = carried();
    stack.push(hooks);
    let _entered = enter(stack);
    f()
}

/// The hooks of this thread, for another one that works for it.
pub(crate) fn carried() -> Vec<Arc<dyn SavedTensorHooks>> {
    STACK.with_borrow(Clone::clone)
}

/// Makes them this thread's, until the guard is dropped.
pub(crate) fn enter(hooks: Vec<Arc<dyn SavedTensorHooks>>) -> impl Sized {
    struct Before(Vec<Arc<dyn SavedTensorHooks>>);
    impl Drop for Before {
        fn drop(&mut self) {
            drop(STACK.replace(std::mem::take(&mut self.0)));
        }
    }
    Before(STACK.replace(hooks))
}

/// The innermost hooks of this thread.
#[inline]
pub(crate) fn current() -> Option<Entrance> {
    STACK.with_borrow(|stack| stack.last().cloned()).map(Entrance)
}

/// Hooks through which a tensor goes.
pub(crate) struct Entrance(Arc<dyn SavedTensorHooks>);

impl Entrance {
    pub(crate) fn pack(self, tensor: &Tensor) -> Result<Packed> {
        let version = tensor.version();
        let what = self.0.pack(tensor)?;
        if tensor.version() != version {
            return Err(Error::invalid_argument(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can \
                 not be modified by in-place operations as this can lead to unexpected side-effects. Please open an \
                 issue if you need to perform in-place operations on the input to a pack hook.",
            ));
        }
        Ok(Packed { what: what.into(), hooks: self.0 })
    }
}

/// What hooks made of a tensor.
#[derive(Clone)]
pub(crate) struct Packed {
    what: Arc<dyn Any + Send + Sync>,
    hooks: Arc<dyn SavedTensorHooks>,
}

impl Packed {
    pub(crate) fn unpack(&self) -> Result<Tensor> {
        self.hooks.unpack(&*self.what)
    }
}

/// Asks that what this thread computes end: see Note [Stopping early].
pub(crate) fn request_stop() {
    STOPS.set(true);
}

/// Refuses to go on when that was asked for.
///
/// # Errors
/// Whoever does the computation again knows that it asked, and does not look at what the error says.
#[inline]
pub(crate) fn check_stop() -> Result<()> {
    if STOPS.get() { Err(stopped()) } else { Ok(()) }
}

#[cold]
fn stopped() -> Error {
    Error::invalid_argument("the recomputation of a checkpoint has all that it needs")
}

/// A computation that may be asked to end; the one around it is not.
pub(crate) struct Stoppable {
    before: bool,
}

impl Stoppable {
    pub(crate) fn enter() -> Self {
        Self { before: STOPS.replace(false) }
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        STOPS.set(self.before);
    }
}
