//! Hooks of several tensors together (`torch.autograd.graph.register_multi_grad_hook`).
//!
//! Each tensor has a hook of its own, which reports. A call waits for the tensors whose nodes run in it: the engine
//! says which these are, if anybody waits.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aten::{Result, Tensor, WeakTensor};

use super::tensor::{HookHandle, register};
use crate::engine::{current_task_id, queue_callback, runs_in_current};
use crate::meta::meta;
use crate::node::{Node, WeakNode};
use crate::view_track::made_by;

/// Takes the hooks of several tensors away. Dropping it leaves them.
#[derive(Clone)]
pub struct MultiGradHandle(Vec<HookHandle>);

impl MultiGradHandle {
    /// Takes them away. Nothing happens when they are gone.
    pub fn remove(&self) {
        self.0.iter().for_each(HookHandle::remove);
    }
}

impl fmt::Debug for MultiGradHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MultiGradHandle").field(&self.0).finish()
    }
}

/// Calls `hook` in each backward call when it has computed the gradients of all of the tensors that it computes any
/// of, with these; `None` stands for those of the others.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for a tensor that requires no gradient; no hook is
/// left then.
pub fn register_multi_grad_hook(
    tensors: &[&Tensor],
    hook: impl Fn(&[Option<Tensor>]) -> Result<()> + Send + Sync + 'static,
) -> Result<MultiGradHandle> {
    let all = Arc::new(All {
        hook: Box::new(hook),
        places: tensors.iter().map(|tensor| Place::of(tensor)).collect::<Result<_>>()?,
        calls: Calls::default(),
        _awaited: Awaited::new(),
    });
    register_each(tensors, |at| {
        let all = Arc::clone(&all);
        move |gradient: &Tensor| all.report(at, gradient)
    })
}

/// Calls `hook` in each backward call with the first gradient of one of the tensors that it computes.
///
/// # Errors
/// As [`register_multi_grad_hook`].
pub fn register_multi_grad_hook_any(
    tensors: &[&Tensor],
    hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
) -> Result<MultiGradHandle> {
    let any = Arc::new((hook, Calls::<()>::default()));
    register_each(tensors, |_| {
        let any = Arc::clone(&any);
        move |gradient: &Tensor| {
            let (hook, calls) = &*any;
            match calls.enter(current_task_id(), || ())? {
                true => hook(gradient),
                false => Ok(()),
            }
        }
    })
}

fn register_each<F>(tensors: &[&Tensor], hook: impl Fn(usize) -> F) -> Result<MultiGradHandle>
where
    F: Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
{
    let mut handles = MultiGradHandle(Vec::with_capacity(tensors.len()));
    for (at, tensor) in tensors.iter().enumerate() {
        let own = hook(at);
        match register(tensor, Arc::new(move |gradient| own(gradient).map(|()| None))) {
            Ok(handle) => handles.0.push(handle),
            Err(error) => {
                handles.remove();
                return Err(error);
            }
        }
    }
    Ok(handles)
}

/// What is known of each backward call that goes on.
struct Calls<T>(Arc<Mutex<HashMap<u64, T>>>);

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Send + 'static> Calls<T> {
    fn has(&self, call: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&call)
    }

    /// Says whether the call is new. It is forgotten at its end, also when it fails.
    fn enter(&self, call: u64, new: impl FnOnce() -> T) -> Result<bool> {
        struct Forget<T>(Arc<Mutex<HashMap<u64, T>>>, u64);
        impl<T> Drop for Forget<T> {
            fn drop(&mut self) {
                let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
                drop(left);
            }
        }
        {
            let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if calls.contains_key(&call) {
                return Ok(false);
            }
            calls.insert(call, new());
        }
        let forget = Forget(Arc::clone(&self.0), call);
        queue_callback(move || {
            drop(forget);
            Ok(())
        })?;
        Ok(true)
    }
}

type HookOfAll = dyn Fn(&[Option<Tensor>]) -> Result<()> + Send + Sync;

/// A hook that waits for all.
struct All {
    hook: Box<HookOfAll>,
    places: Vec<Place>,
    calls: Calls<Progress>,
    _awaited: Awaited,
}

/// The gradients so far, and how many are to come.
struct Progress {
    gradients: Vec<Option<Tensor>>,
    left: usize,
}

impl All {
    fn report(&self, at: usize, gradient: &Tensor) -> Result<()> {
        let call = current_task_id();
        if !self.calls.has(call) {
            // The engine is asked before anything is locked.
            let left = self.places.iter().filter(|place| place.runs()).count();
            self.calls.enter(call, || Progress { gradients: vec![None; self.places.len()], left })?;
        }
        let mut calls = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(progress) = calls.get_mut(&call) else { return Ok(()) };
        progress.gradients[at] = Some(gradient.clone());
        progress.left = progress.left.saturating_sub(1);
        if progress.left > 0 {
            return Ok(());
        }
        let gradients = std::mem::take(&mut progress.gradients);
        drop(calls);
        (self.hook)(&gradients)
    }
}

/// Where the gradient of a tensor arrives.
enum Place {
    Leaf(WeakTensor),
    Node(WeakNode),
}

impl Place {
    fn of(tensor: &Tensor) -> Result<Self> {
        Ok(match made_by(tensor)? {
            Some(edge) => Self::Node(edge.node.downgrade()),
            None => Self::Leaf(tensor.downgrade()),
        })
    }

    /// Whether it does in the call that this thread works for.
    fn runs(&self) -> bool {
        let node: Option<Node> = match self {
            Self::Node(node) => node.upgrade(),
            Self::Leaf(leaf) => leaf.upgrade().and_then(|leaf| meta(&leaf)?.state().accumulator.upgrade()),
        };
        node.is_some_and(|node| runs_in_current(&node))
    }
}

static AWAITED: AtomicUsize = AtomicUsize::new(0);

/// Whether calls have to know which nodes run in them.
#[inline]
pub(crate) fn are_awaited() -> bool {
    AWAITED.load(Ordering::Acquire) > 0
}

/// Counts the hooks that wait for all.
struct Awaited;

impl Awaited {
    fn new() -> Self {
        AWAITED.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        AWAITED.fetch_sub(1, Ordering::AcqRel);
    }
}
