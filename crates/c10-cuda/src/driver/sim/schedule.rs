//! Whose work runs next: on demand, at once, or as a seed decides. Whatever an item waits for runs first.

use super::config::Completion;
use super::log::Work;
use super::slab::Id;
use super::state::State;
use super::work::{Item, Queued, Ran};
use crate::rng::Rng;

/// How work makes progress.
#[derive(Debug)]
pub(super) enum Schedule {
    Manual,
    Eager,
    Seeded(Rng),
}

impl Schedule {
    pub(super) const fn new(completion: Completion) -> Self {
        match completion {
            Completion::Manual => Self::Manual,
            Completion::Eager => Self::Eager,
            Completion::Seeded(seed) => Self::Seeded(Rng::new(seed)),
        }
    }
}

/// What a stream has to do to reach a place.
enum Next {
    Nothing,
    WaitFor(Id, u64),
    Run,
}

impl State {
    /// Runs a stream up to a place, and before that whatever it waits for on other streams. A wait names an
    /// earlier record, so this ends.
    pub(super) fn run_to(&mut self, stream: Id, place: u64) {
        let mut goal = (stream, place);
        let mut later = Vec::new();
        loop {
            self.pass_records(goal.0, goal.1);
            match self.next_of(goal.0, goal.1) {
                Next::Run => self.run_front(goal.0),
                Next::WaitFor(on, place) => later.push(std::mem::replace(&mut goal, (on, place))),
                Next::Nothing => match later.pop() {
                    Some(next) => goal = next,
                    None => return,
                },
            }
        }
    }

    /// Passes by what does nothing at the front of a stream: the places that events stand for.
    fn pass_records(&mut self, id: Id, place: u64) {
        if self.work.is_on() {
            // Each is written down.
            return;
        }
        let Some(stream) = self.streams.get_mut(id) else { return };
        let is_record = |queued: &Queued| matches!(queued.item, Item::Record);
        while stream.done < place && stream.queue.front().is_some_and(is_record) {
            stream.queue.pop_front();
            stream.done += 1;
        }
        self.drop_if_over(id);
    }

    #[inline]
    fn next_of(&self, id: Id, place: u64) -> Next {
        let Some(stream) = self.streams.get(id).filter(|s| s.done < place) else { return Next::Nothing };
        match stream.queue.front().map(|queued| &queued.item) {
            None => Next::Nothing,
            Some(&Item::Wait { stream: on, place }) if !self.has_run(on, place) => Next::WaitFor(on, place),
            Some(_) => Next::Run,
        }
    }

    #[inline]
    pub(super) fn has_run(&self, stream: Id, place: u64) -> bool {
        self.streams.get(stream).is_none_or(|s| s.done >= place)
    }

    #[inline]
    fn run_front(&mut self, id: Id) {
        let front = self.streams.get(id).and_then(|stream| stream.queue.front());
        if front.is_some_and(|front| matches!(front.item, Item::Graph(_))) && self.run_node(id) {
            // More of the launch is left.
            return;
        }
        let Some(stream) = self.streams.get_mut(id) else { return };
        let Some(queued) = stream.queue.pop_front() else { return };
        stream.done += 1;
        let (handle, place) = (stream.handle(id), stream.done);
        if self.work.is_on() {
            self.work.push(Work { stream: handle, place, name: queued.item.name(), end_ns: queued.end_ns });
        }
        let Queued { item, issued_at, process, .. } = queued;
        self.execute(Ran { on: handle, device: handle.device, process, issued_at }, item);
        self.drop_if_over(id);
    }

    /// Runs everything, stream by stream.
    pub(super) fn run_all(&mut self) {
        let streams: Vec<Id> = self.streams.iter().map(|(id, _)| id).collect();
        for id in streams {
            self.run_to(id, u64::MAX);
        }
    }

    /// Runs the next item of a stream, unless it waits. Whether it did.
    pub(super) fn step(&mut self, id: Id) -> bool {
        let runs = matches!(self.next_of(id, u64::MAX), Next::Run);
        if runs {
            self.run_front(id);
        }
        runs
    }

    /// Lets some streams make progress, if a seed decides.
    #[inline]
    pub(super) fn progress(&mut self) {
        if matches!(self.schedule, Schedule::Seeded(_)) {
            self.progress_at_random();
        }
    }

    #[cold]
    fn progress_at_random(&mut self) {
        let Schedule::Seeded(rng) = &mut self.schedule else { return };
        let mut steps = rng.below(4);
        while steps > 0 {
            steps -= 1;
            let busy: Vec<Id> =
                self.streams.iter().filter(|(_, s)| !s.queue.is_empty()).map(|(id, _)| id).collect();
            let Schedule::Seeded(rng) = &mut self.schedule else { return };
            if busy.is_empty() {
                return;
            }
            let id = busy[rng.below(busy.len() as u64) as usize];
            // A stream that waits stands still for now.
            self.step(id);
        }
    }
}
