//! [`Shared`]: a task that several threads work for.
//!
//! Who may touch what: the task under its lock, under which no operator and no hook runs. `outstanding` counts the
//! nodes that are in queues or run; who makes it zero wakes the thread that called. That thread returns only then,
//! also after a failure: nothing of a call runs when it has returned. Locks are not nested.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aten::{Error, Result};
use c10_core::Device;
use smallvec::SmallVec;

use super::call::Call;
use super::carried::Carried;
use super::queue::{Item, Queue};
use super::ready::{Ready, Turn};
use super::run::{Access, Flow, step};
use super::task::GraphTask;
use super::worker;
use crate::node::Node;

/// A task, and the queues of those who work for it.
pub(super) struct Shared {
    task: Mutex<GraphTask>,
    call: Arc<Call>,
    keep_graph: bool,
    /// The queue of the thread that called, which runs the nodes of the host.
    home: Arc<Queue>,
    workers: SmallVec<[(Device, Arc<Queue>); 1]>,
    outstanding: AtomicUsize,
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
    carried: Carried,
}

/// What ended a task early.
enum Failure {
    Error(Error),
    Panic(Box<dyn Any + Send>),
}

/// Runs a task that is on `devices`; `seed` gives the roots their gradients.
pub(super) fn run(
    task: GraphTask,
    call: &Arc<Call>,
    devices: &[Device],
    keep_graph: bool,
    seed: impl FnOnce(&mut Arc<Shared>) -> Result<()>,
) -> Result<GraphTask> {
    let of_device = |device: &Device| Ok((*device, worker::queue_of(*device)?));
    let shared = Arc::new(Shared {
        task: Mutex::new(task),
        call: Arc::clone(call),
        keep_graph,
        home: worker::home().unwrap_or_default(),
        workers: devices.iter().map(of_device).collect::<Result<_>>()?,
        // The seeding is the first.
        outstanding: AtomicUsize::new(1),
        has_failed: AtomicBool::new(false),
        failure: Mutex::new(None),
        carried: Carried::here(),
    });
    shared.attempt(|| seed(&mut Arc::clone(&shared)));
    let is_done = || shared.outstanding.load(Ordering::Acquire) == 0;
    while let Some(item) = shared.home.pop_until(is_done) {
        run_item(item);
    }
    // What it holds ends here, and not on a worker that still has a handle.
    let task = std::mem::take(&mut *shared.task());
    let failure = shared.failure().take();
    match failure {
        None => Ok(task),
        Some(Failure::Error(error)) => Err(error),
        Some(Failure::Panic(payload)) => resume_unwind(payload),
    }
}

/// Runs a node on this thread, for whatever call it is of.
pub(super) fn run_item(Item { ready, task }: Item) {
    task.attempt(|| {
        if task.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let _carried = (!task.call.is_current()).then(|| task.carried.enter());
        let Ready { node, turn } = ready;
        step(&mut Arc::clone(&task), &node, turn, &mut Flow::default())
    });
}

impl Shared {
    pub(super) fn depth(&self) -> u64 {
        self.call.depth()
    }

    /// Does one of the outstanding things. The first failure is kept.
    fn attempt(&self, f: impl FnOnce() -> Result<()>) {
        let failure = match catch_unwind(AssertUnwindSafe(f)) {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Failure::Error(error)),
            Err(payload) => Some(Failure::Panic(payload)),
        };
        if let Some(failure) = failure {
            self.has_failed.store(true, Ordering::Release);
            let mut first = self.failure();
            let later = if first.is_none() { first.replace(failure) } else { Some(failure) };
            drop(first);
            drop(later);
        }
        if self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.home.wake();
        }
    }

    fn task(&self) -> MutexGuard<'_, GraphTask> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Access<'_> for Arc<Shared> {
    fn with<R>(&mut self, f: impl FnOnce(&mut GraphTask) -> R) -> R {
        f(&mut self.task())
    }

    fn push(&mut self, node: &Node, turn: Turn) -> Result<()> {
        let device = node.stream().map(c10_core::Stream::device);
        let queue = match device {
            None => &self.home,
            Some(device) => {
                let worker = self.workers.iter().find(|(of, _)| *of == device);
                &worker.ok_or_else(|| Error::invalid_argument(format!("no worker for {device}")))?.1
            }
        };
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        let ready = Ready { node: node.clone(), turn };
        queue.push(Item { ready, task: Self::clone(self) });
        Ok(())
    }

    /// Others may put something in its place meanwhile.
    fn runs_next(&self, _: &Node) -> bool {
        false
    }

    fn keeps_graph(&self) -> bool {
        self.keep_graph
    }
}
