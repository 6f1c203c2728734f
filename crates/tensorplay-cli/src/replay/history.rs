//! [`History`]: one device's part of a recording, and what can be read off it.

use super::growable::Growable;
use super::lane::Lanes;
use crate::snapshot::{Action, AllocatorSettings, Event, InitialState};

/// One device's history.
#[derive(Clone, Copy, Debug)]
pub(super) struct History<'a> {
    pub(super) trace: &'a [Event],
    pub(super) initial: &'a InitialState,
    pub(super) lanes: &'a Lanes,
    pub(super) growable: &'a Growable,
    /// How the recording rounded sizes.
    pub(super) settings: &'a AllocatorSettings,
}

impl History<'_> {
    /// Whether the block whose free is requested at an event is free at once: no other stream uses it.
    pub(super) fn completes_at_once(&self, index: usize) -> bool {
        let address = self.trace[index].address;
        self.trace
            .get(index + 1)
            .is_some_and(|next| next.action == Action::FreeCompleted && next.address == address)
    }

    /// Whether the event behind one is of that kind.
    pub(super) fn next_is(&self, index: usize, action: Action) -> bool {
        self.trace.get(index + 1).is_some_and(|next| next.action == action)
    }
}
