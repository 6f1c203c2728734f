//! [`Frame`]: one call of a checkpointed function, with what it takes to run it again.
//!
//! A holder keeps the place of a saved tensor in the graph, and with the hooks that packed it the frame alive; the
//! frame knows its holders weakly. For each backward call the frame has the tensors of one run, each until it is used,
//! its holder goes, or the call ends. Nothing runs and nothing is dropped under the lock.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;

use aten::{Dims, Error, Result, Tensor};
use c10_core::{Device, ScalarType};

use super::context::{CheckpointContext, within};
use super::hooks::{LaterRun, Recomputed};
use super::random::Rewound;
use crate::engine::{current_task_id, queue_callback};
use crate::mode::GradModeGuard;
use crate::saved::{self, SavedTensor};
use crate::saved_hooks::{Stoppable, with_saved_tensor_hooks};

type Run = dyn Fn(&[Tensor]) -> Result<()> + Send + Sync;

pub(super) struct Frame {
    run: Box<Run>,
    inputs: Vec<SavedTensor>,
    settings: Settings,
    state: Mutex<State>,
    /// A run has ended.
    ended: Condvar,
}

pub(super) struct Settings {
    /// Where the generator was.
    pub(super) random: Option<Vec<u8>>,
    pub(super) early_stop: bool,
    pub(super) checks_metadata: bool,
    pub(super) context: Option<Arc<dyn CheckpointContext>>,
}

#[derive(Default)]
struct State {
    held: Vec<Held>,
    /// For each backward call its run.
    runs: HashMap<u64, Progress>,
}

/// A tensor that the first run saved.
struct Held {
    holder: Weak<Holder>,
    look: Look,
}

enum Progress {
    Going(ThreadId),
    Done(Vec<Option<Recomputed>>),
}

/// Stands for a saved tensor in the graph.
pub(super) struct Holder {
    at: usize,
    frame: Weak<Frame>,
}

/// What is compared of a tensor of the two runs.
#[derive(Clone, PartialEq, Eq)]
struct Look {
    sizes: Dims,
    dtype: ScalarType,
    device: Device,
}

impl Frame {
    pub(super) fn new(run: Box<Run>, inputs: Vec<SavedTensor>, settings: Settings) -> Arc<Self> {
        Arc::new(Self { run, inputs, settings, state: Mutex::default(), ended: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A holder for a tensor that the first run saves.
    pub(super) fn hold(frame: &Arc<Self>, tensor: &Tensor) -> Arc<Holder> {
        let mut state = frame.state();
        let holder = Arc::new(Holder { at: state.held.len(), frame: Arc::downgrade(frame) });
        state.held.push(Held { holder: Arc::downgrade(&holder), look: Look::of(tensor) });
        holder
    }

    /// The tensor of a holder. The first that a backward call asks for has the function run again.
    pub(super) fn tensor_of(self: &Arc<Self>, holder: &Holder) -> Result<Tensor> {
        let task = current_task_id();
        let recomputed = if task == 0 {
            // No call will ask for the others.
            self.recompute()?.get_mut(holder.at).and_then(Option::take)
        } else {
            self.run_for(task)?;
            self.take(task, holder.at)
        };
        let Some(Recomputed { tensor, version }) = recomputed else {
            return Err(Error::invalid_argument(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you \
                 are calling ctx.saved_tensors in backward, make sure to do so only once.",
            ));
        };
        if tensor.version() != version {
            return Err(saved::modified(&tensor, version, None));
        }
        Ok(tensor)
    }

    fn take(&self, task: u64, at: usize) -> Option<Recomputed> {
        match self.state().runs.get_mut(&task) {
            Some(Progress::Done(tensors)) => tensors.get_mut(at)?.take(),
            _ => None,
        }
    }

    /// Runs the function for a backward call, if that was not done.
    fn run_for(self: &Arc<Self>, task: u64) -> Result<()> {
        let me = std::thread::current().id();
        let mut state = self.state();
        loop {
            match state.runs.get(&task) {
                Some(Progress::Done(_)) => return Ok(()),
                Some(Progress::Going(by)) if *by == me => {
                    return Err(Error::invalid_argument(
                        "torch.utils.checkpoint: the recomputation needs a tensor that it recomputes",
                    ));
                }
                Some(Progress::Going(_)) => {
                    state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        state.runs.insert(task, Progress::Going(me));
        drop(state);
        let mut going = Going { frame: self, task, result: None };
        going.result = Some(self.recompute()?);
        drop(going);
        self.forget_at_the_end_of(task)
    }

    /// Runs the function again; the tensors that it saved.
    fn recompute(&self) -> Result<Vec<Option<Recomputed>>> {
        let inputs = self.inputs.iter().map(SavedTensor::unpack_argument).collect::<Result<Vec<_>>>()?;
        let needed = self.state().held.iter().map(|held| held.holder.strong_count() > 0).collect();
        let settings = &self.settings;
        let later = Arc::new(LaterRun::new(needed, settings.early_stop));
        let result = {
            let _stoppable = Stoppable::enter();
            let _random = settings.random.as_deref().map(Rewound::to).transpose()?;
            let _grad = GradModeGuard::new(true);
            let run = || within(settings.context.as_deref(), || (self.run)(&inputs));
            with_saved_tensor_hooks(Arc::clone(&later) as _, run)
        };
        let is_stopped = later.is_stopped();
        match result.and_then(|result| result) {
            Err(error) if !is_stopped => return Err(error),
            _ => {}
        }
        let (tensors, count) = later.take();
        self.compare(&tensors, count)?;
        Ok(tensors)
    }

    /// Refuses a run that saved other tensors than the first.
    fn compare(&self, tensors: &[Option<Recomputed>], count: usize) -> Result<()> {
        let state = self.state();
        let expected = state.held.len();
        if count < expected {
            return Err(Error::invalid_argument(format!(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and \
                 recomputation.\nNumber of tensors saved during forward: {expected}\nNumber of tensors saved during \
                 recomputation: {count}.\n"
            )));
        }
        if !self.settings.checks_metadata {
            return Ok(());
        }
        let mut different = String::new();
        for (at, (held, recomputed)) in state.held.iter().zip(tensors).enumerate() {
            let Some(recomputed) = recomputed else { continue };
            let look = Look::of(&recomputed.tensor);
            if look != held.look {
                different += &format!(
                    "tensor at position {at}:\nsaved metadata: {}\nrecomputed metadata: {look}\n",
                    held.look
                );
            }
        }
        if different.is_empty() {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during \
             the forward pass.\n{different}"
        )))
    }

    /// What a backward call leaves goes with the call, also when that fails.
    fn forget_at_the_end_of(self: &Arc<Self>, task: u64) -> Result<()> {
        struct Forget(Weak<Frame>, u64);
        impl Drop for Forget {
            fn drop(&mut self) {
                let Some(frame) = self.0.upgrade() else { return };
                let left = frame.state().runs.remove(&self.1);
                drop(left);
            }
        }
        let forget = Forget(Arc::downgrade(self), task);
        queue_callback(move || {
            drop(forget);
            Ok(())
        })
    }
}

/// A run that goes on. It is found as ended however it ends.
struct Going<'a> {
    frame: &'a Frame,
    task: u64,
    result: Option<Vec<Option<Recomputed>>>,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let mut state = self.frame.state();
        match self.result.take() {
            Some(tensors) => state.runs.insert(self.task, Progress::Done(tensors)),
            None => state.runs.remove(&self.task),
        };
        drop(state);
        self.frame.ended.notify_all();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let Some(frame) = self.frame.upgrade() else { return };
        let mut gone = Vec::new();
        for run in frame.state().runs.values_mut() {
            if let Progress::Done(tensors) = run {
                gone.extend(tensors.get_mut(self.at).and_then(Option::take));
            }
        }
        drop(gone);
    }
}

impl Look {
    fn of(tensor: &Tensor) -> Self {
        Self { sizes: tensor.sizes(), dtype: tensor.dtype(), device: tensor.device() }
    }
}

impl std::fmt::Display for Look {
    /// As Python prints the dictionary.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(i64::to_string).collect();
        write!(f, "{{'shape': torch.Size([{}]), 'dtype': {:#}, ", sizes.join(", "), self.dtype)?;
        write!(f, "'device': device(type='{}'", self.device.device_type())?;
        if let Some(index) = self.device.index() {
            write!(f, ", index={index}")?;
        }
        f.write_str(")}")
    }
}
