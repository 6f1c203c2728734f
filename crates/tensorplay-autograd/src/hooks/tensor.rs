//! Hooks of tensors: functions that see, and may change, the gradient of a tensor (`Tensor.register_hook`).
//!
//! A hook of a leaf is kept with the leaf, one of a result with the node that made it. It is gone when its
//! [`HookHandle`] says so, or with what keeps it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aten::{Error, Result, Tensor};

use crate::meta::{meta, meta_or_init, requires_grad};
use crate::node::Node;
use crate::view_track::made_by;

/// Sees the gradient of a tensor; what it returns takes its place.
pub(crate) type TensorHookFunction = dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync;
/// Sees a leaf whose gradient was just accumulated.
pub(crate) type PostAccumulateFunction = dyn Fn(&Tensor) -> Result<()> + Send + Sync;

#[derive(Clone)]
pub(crate) struct TensorHook {
    pub(crate) id: u64,
    pub(crate) function: Arc<TensorHookFunction>,
}

#[derive(Clone)]
pub(crate) struct PostAccumulateHook {
    pub(crate) id: u64,
    pub(crate) function: Arc<PostAccumulateFunction>,
}

/// Takes a hook away. Dropping it leaves the hook.
#[derive(Clone)]
pub struct HookHandle {
    id: u64,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Leaf(aten::WeakTensor),
    Node(crate::node::WeakNode),
}

pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl HookHandle {
    /// Takes the hook away. Nothing happens when it is gone.
    pub fn remove(&self) {
        let id = self.id;
        match &self.place {
            Place::Leaf(tensor) => {
                let Some(tensor) = tensor.upgrade() else { return };
                let Some(own) = meta(&tensor) else { return };
                let gone = own.change(|state| {
                    let (hooks, kept) =
                        std::mem::take(&mut state.hooks).into_iter().partition(|hook| hook.id == id);
                    let (post, kept_post) = std::mem::take(&mut state.post_accumulate)
                        .into_iter()
                        .partition(|hook| hook.id == id);
                    (state.hooks, state.post_accumulate) = (kept, kept_post);
                    (hooks, post) as (Vec<TensorHook>, Vec<PostAccumulateHook>)
                });
                // What a hook holds ends under no lock.
                drop(gone);
            }
            Place::Node(node) => {
                if let Some(node) = node.upgrade()
                    && let Some(hooks) = node.hooks()
                {
                    hooks.remove(id);
                }
            }
        }
    }

    pub(crate) fn of_node(id: u64, node: &Node) -> Self {
        Self { id, place: Place::Node(node.downgrade()) }
    }
}

/// `Tensor.register_hook`.
pub(crate) fn register(tensor: &Tensor, function: Arc<TensorHookFunction>) -> Result<HookHandle> {
    if !requires_grad(tensor) {
        return Err(Error::invalid_argument(
            "cannot register a hook on a tensor that doesn't require gradient",
        ));
    }
    let hook = TensorHook { id: next_id(), function };
    let id = hook.id;
    let place = match made_by(tensor)? {
        Some(edge) => {
            edge.node.hooks_or_init().add_tensor_hook(edge.input, hook);
            Place::Node(edge.node.downgrade())
        }
        None => {
            meta_or_init(tensor).change(|state| state.hooks.push(hook));
            Place::Leaf(tensor.downgrade())
        }
    };
    Ok(HookHandle { id, place })
}

/// `Tensor.register_post_accumulate_grad_hook`.
pub(crate) fn register_post_accumulate(
    tensor: &Tensor,
    function: Arc<PostAccumulateFunction>,
) -> Result<HookHandle> {
    if !requires_grad(tensor) {
        return Err(Error::invalid_argument(
            "cannot register a hook on a tensor that doesn't require gradient",
        ));
    }
    if made_by(tensor)?.is_some() {
        return Err(Error::invalid_argument(
            "post accumulate grad hooks cannot be registered on non-leaf tensors",
        ));
    }
    let hook = PostAccumulateHook { id: next_id(), function };
    let id = hook.id;
    meta_or_init(tensor).change(|state| state.post_accumulate.push(hook));
    Ok(HookHandle { id, place: Place::Leaf(tensor.downgrade()) })
}

/// Runs tensor hooks on a gradient, in the order of their registration.
pub(crate) fn run(hooks: &[TensorHook], mut gradient: Tensor) -> Result<Tensor> {
    for hook in hooks {
        let Some(changed) = (hook.function)(&gradient)? else { continue };
        check_replaced("hook", &gradient, &changed)?;
        gradient = changed;
    }
    Ok(gradient)
}

/// Refuses what a hook gave if it is not like what it was given.
pub(crate) fn check_replaced(what: &str, before: &Tensor, after: &Tensor) -> Result<()> {
    if before.dtype() != after.dtype() {
        return Err(Error::dtype(format!(
            "{what} has changed the type of value (was {} got {})",
            before.dtype().name(),
            after.dtype().name()
        )));
    }
    if before.device() != after.device() {
        return Err(Error::new(
            aten::ErrorKind::Device,
            format!(
                "{what} has changed the device of value (was {} got {})",
                before.device(),
                after.device()
            ),
        ));
    }
    if before.sizes() != after.sizes() {
        return Err(Error::shape(format!(
            "{what} has changed the size of value: from {:?} to {:?}",
            before.sizes(),
            after.sizes()
        )));
    }
    Ok(())
}

impl fmt::Debug for HookHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
