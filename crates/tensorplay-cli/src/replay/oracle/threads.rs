//! The threads of a trace: each lives from its first command to the end, and only one of all runs at a time.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use super::Stop;
use super::machine::Machine;
use crate::progress::Progress;
use crate::replay::ops::Op;

/// A thread that runs what it is given.
struct Worker<'a> {
    jobs: Sender<&'a Op<'a>>,
    ends: Receiver<Result<(), Stop>>,
}

/// Runs all commands, each on its thread, in their order.
pub(super) fn run<'a>(machine: &'a Mutex<Machine>, ops: &'a [Op<'a>]) -> Result<(), Stop> {
    let progress = Progress::new("Replaying", ops.len());
    thread::scope(|scope| {
        let mut workers = BTreeMap::new();
        for op in ops {
            if op.thread == 0 {
                lock(machine).step(op)?;
            } else {
                workers.entry(op.thread).or_insert_with(|| Worker::begin(scope, machine)).run(op)?;
            }
            progress.step();
        }
        Ok(())
    })
}

fn lock(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Worker<'a> {
    fn begin<'scope>(scope: &'scope Scope<'scope, '_>, machine: &'a Mutex<Machine>) -> Self
    where
        'a: 'scope,
    {
        let (jobs, received) = channel::<&Op<'_>>();
        let (end, ends) = channel();
        scope.spawn(move || {
            lock(machine).begin_thread();
            for op in received {
                let done = lock(machine).step(op);
                if end.send(done).is_err() {
                    break;
                }
            }
        });
        Worker { jobs, ends }
    }

    fn run(&self, op: &'a Op<'a>) -> Result<(), Stop> {
        self.jobs.send(op).expect("the thread waits for commands as long as it can be given some");
        self.ends.recv().expect("the thread answers each command")
    }
}
