//! Items of work, and what running them does.

use super::slab::Id;
use super::state::State;
use crate::driver::StreamHandle;

/// What stands in a stream's queue.
#[derive(Debug)]
pub(super) enum Item {
    /// A place that an event stands for.
    Record,
    /// Nothing behind it runs before `stream` has run up to `place`.
    Wait { stream: Id, place: u64 },
}

impl Item {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Wait { .. } => "wait",
        }
    }
}

/// An item with what was known when it was issued.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) item: Item,
    /// How many ranges had come to life by then: memory that is younger is not what the item meant.
    pub(super) issued_at: u64,
    pub(super) end_ns: u64,
}

impl State {
    pub(super) fn execute(&mut self, _on: StreamHandle, queued: Queued) {
        match queued.item {
            Item::Record | Item::Wait { .. } => {}
        }
    }
}
