//! [`NodeHooks`]: what is called before and after a node runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aten::{Error, Result, Tensor, WeakTensor};

use super::Node;
use crate::gradients::Gradients;
use crate::hooks::{self, HookHandle, TensorHook};
use crate::meta::meta_or_init;

/// May change the gradients before the node takes them.
pub(crate) type PreHook = dyn Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync;
/// May change the gradients that the node gives; it sees those that the node took behind them.
pub(crate) type PostHook =
    dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync;

/// The hooks of one node. They are called in copies of the lists, under no lock.
#[derive(Default)]
pub(crate) struct NodeHooks(Mutex<Lists>);

#[derive(Clone, Default)]
struct Lists {
    tensor: Vec<(usize, TensorHook)>,
    retained: Vec<(usize, WeakTensor)>,
    pre: Vec<(u64, Arc<PreHook>)>,
    post: Vec<(u64, Arc<PostHook>)>,
}

impl NodeHooks {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn copy(&self) -> Lists {
        self.lists().clone()
    }

    pub(crate) fn add_tensor_hook(&self, input: usize, hook: TensorHook) {
        self.lists().tensor.push((input, hook));
    }

    pub(crate) fn retain_grad(&self, input: usize, tensor: WeakTensor) {
        self.lists().retained.push((input, tensor));
    }

    /// No gradient is put to a tensor that another node makes now.
    pub(crate) fn forget_retained(&self, input: usize, tensor: &Tensor) {
        let is_other = |(of, kept): &(usize, WeakTensor)| {
            *of != input || kept.upgrade().is_none_or(|kept| !kept.is_same(tensor))
        };
        self.lists().retained.retain(is_other);
    }

    pub(crate) fn remove(&self, id: u64) {
        let mut lists = self.lists();
        let kept = Lists {
            tensor: lists.tensor.iter().filter(|(_, hook)| hook.id != id).cloned().collect(),
            retained: lists.retained.clone(),
            pre: lists.pre.iter().filter(|(own, _)| *own != id).cloned().collect(),
            post: lists.post.iter().filter(|(own, _)| *own != id).cloned().collect(),
        };
        let gone = std::mem::replace(&mut *lists, kept);
        drop(lists);
        // What a hook holds ends under no lock.
        drop(gone);
    }

    /// What comes first: hooks of tensors, then gradients that are retained.
    pub(crate) fn run_tensor_hooks(&self, gradients: &mut Gradients) -> Result<()> {
        let lists = self.copy();
        for (input, hook) in lists.tensor {
            if let Some(gradient) = gradients.get_mut(input).and_then(Option::take) {
                gradients[input] = Some(hooks::run(std::slice::from_ref(&hook), gradient)?);
            }
        }
        for (input, tensor) in lists.retained {
            let Some(tensor) = tensor.upgrade() else { continue };
            if let Some(Some(gradient)) = gradients.get(input) {
                crate::accumulate::retain(meta_or_init(&tensor), gradient)?;
            }
        }
        Ok(())
    }

    /// What comes then: hooks of the node.
    pub(crate) fn before(&self, gradients: &mut Gradients) -> Result<()> {
        for (_, hook) in self.copy().pre {
            if let Some(changed) = hook(gradients)? {
                replace("prehook", gradients, changed, Undefined::MayBeFilled)?;
            }
        }
        Ok(())
    }

    /// What comes after the node.
    pub(crate) fn after(&self, given: &mut Gradients, taken: &[Option<Tensor>]) -> Result<()> {
        for (_, hook) in self.copy().post {
            if let Some(changed) = hook(given, taken)? {
                replace("hook", given, changed, Undefined::Stays)?;
            }
        }
        Ok(())
    }

    pub(crate) fn has_post(&self) -> bool {
        !self.lists().post.is_empty()
    }
}

/// What a hook may make of a gradient that is not defined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undefined {
    MayBeFilled,
    Stays,
}

fn replace(
    what: &str,
    gradients: &mut Gradients,
    changed: Vec<Option<Tensor>>,
    undefined: Undefined,
) -> Result<()> {
    if changed.len() != gradients.len() {
        return Err(Error::invalid_argument(format!(
            "{what} has returned an incorrect number of values (got {}, but expected {})",
            changed.len(),
            gradients.len()
        )));
    }
    for (before, after) in gradients.iter().zip(&changed) {
        match (before, after) {
            (Some(before), Some(after)) => hooks::check_replaced(what, before, after)?,
            (None, Some(_)) if undefined == Undefined::Stays => {
                return Err(Error::invalid_argument("can't replace a None gradient with a non-None value"));
            }
            _ => {}
        }
    }
    *gradients = changed.into();
    Ok(())
}

impl Node {
    /// Calls `hook` with the gradients that the node takes, before it runs; what it returns takes their place
    /// (`Node.register_prehook`).
    pub fn register_prehook(
        &self,
        hook: impl Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync + 'static,
    ) -> HookHandle {
        let id = hooks::next_id();
        self.hooks_or_init().lists().pre.push((id, Arc::new(hook)));
        HookHandle::of_node(id, self)
    }

    /// Calls `hook` with the gradients that the node gave and those it took, after it ran; what it returns takes the
    /// place of the first (`Node.register_hook`).
    pub fn register_hook(
        &self,
        hook: impl Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>>
        + Send
        + Sync
        + 'static,
    ) -> HookHandle {
        let id = hooks::next_id();
        self.hooks_or_init().lists().post.push((id, Arc::new(hook)));
        HookHandle::of_node(id, self)
    }
}
