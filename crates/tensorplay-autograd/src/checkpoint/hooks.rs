//! The saved-tensor hooks of a checkpoint: see Note [How a checkpoint works].

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aten::{Error, Result, Tensor};

use super::frame::{Frame, Holder};
use crate::saved_hooks::{SavedTensorHooks, request_stop};

/// Keeps holders in the place of tensors.
pub(super) struct FirstRun(pub(super) Arc<Frame>);

impl SavedTensorHooks for FirstRun {
    fn pack(&self, tensor: &Tensor) -> Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(Frame::hold(&self.0, tensor)))
    }

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor> {
        match packed.downcast_ref::<Arc<Holder>>() {
            Some(holder) => self.0.tensor_of(holder),
            None => Err(Error::invalid_argument("the checkpoint did not pack this")),
        }
    }
}

/// A tensor that a run gave, and its version then.
pub(super) struct Recomputed {
    pub(super) tensor: Tensor,
    pub(super) version: u32,
}

/// Collects what a later run saves.
pub(super) struct LaterRun {
    /// Of those that the first run saved, which are still needed.
    needed: Vec<bool>,
    early_stop: bool,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    count: usize,
    tensors: Vec<Option<Recomputed>>,
}

impl LaterRun {
    pub(super) fn new(needed: Vec<bool>, early_stop: bool) -> Self {
        let tensors = needed.iter().map(|_| None).collect();
        Self { needed, early_stop, progress: Mutex::new(Progress { count: 0, tensors }) }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has asked to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.early_stop && self.progress().count >= self.needed.len()
    }

    /// What it has collected, and how many were saved.
    pub(super) fn take(&self) -> (Vec<Option<Recomputed>>, usize) {
        let mut progress = self.progress();
        (std::mem::take(&mut progress.tensors), progress.count)
    }
}

impl SavedTensorHooks for LaterRun {
    fn pack(&self, tensor: &Tensor) -> Result<Box<dyn Any + Send + Sync>> {
        let mut progress = self.progress();
        let at = progress.count;
        progress.count += 1;
        match self.needed.get(at) {
            Some(true) => {
                let recomputed = Recomputed { tensor: tensor.clone(), version: tensor.version() };
                progress.tensors[at] = Some(recomputed);
            }
            Some(false) => {}
            None if self.early_stop => {}
            None => {
                return Err(Error::invalid_argument(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original \
                     forward pass.",
                ));
            }
        }
        drop(progress);
        if self.is_stopped() {
            request_stop();
        }
        // The function may compute gradients itself.
        Ok(Box::new(tensor.clone()))
    }

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor> {
        packed
            .downcast_ref::<Tensor>()
            .cloned()
            .ok_or_else(|| Error::invalid_argument("the checkpoint did not pack this"))
    }
}
