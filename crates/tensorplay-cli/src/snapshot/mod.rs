//! PyTorch's memory snapshots (`torch.cuda.memory._dump_snapshot`): reading them, and the state in which their
//! history began.
//!
//! A file is bytes that a stranger wrote. It goes through [`read`] (gzip, and whether it is a pickle or JSON),
//! [`unpickle`] or [`json`] (a flat table of plain [`values`]), [`decode`] (types) and [`check`] (geometry);
//! each step refuses what it does not understand and says where it stands.

mod ascii;
mod check;
mod decode;
mod error;
mod event;
mod initial;
mod json;
mod limits;
mod opcode;
mod path;
mod read;
mod scan;
mod segment;
mod settings;
mod stacks;
mod unpickle;
mod values;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

pub(crate) use error::ReadError;
pub(crate) use event::{Action, Event};
pub(crate) use initial::{InitialSegment, InitialState, initial_state};
pub(crate) use limits::Limits;
pub(crate) use read::{InputError, Wanted, read_file, read_snapshot};
pub(crate) use segment::{BlockState, PoolId, Segment};
pub(crate) use settings::AllocatorSettings;
pub(crate) use stacks::{Frame, StackId, Stacks};

/// What is read of a snapshot. Annotations are not kept, and stack frames where they are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    /// The segments at the end of the recording, of all devices, in address order within each.
    pub(crate) segments: Vec<Segment>,
    /// What happened, oldest first; the index is the device.
    pub(crate) device_traces: Vec<Vec<Event>>,
    /// How the allocator was configured; files from before 2024 do not say.
    pub(crate) allocator_settings: Option<AllocatorSettings>,
    /// Where the program was.
    pub(crate) stacks: Arc<Stacks>,
}

impl Snapshot {
    /// One more than the highest device that the file speaks of.
    pub(crate) fn device_count(&self) -> usize {
        let segments = self.segments.iter().map(|segment| segment.device + 1).max();
        self.device_traces.len().max(segments.unwrap_or(0))
    }

    /// The history of a device, empty when it has none.
    pub(crate) fn trace(&self, device: usize) -> &[Event] {
        self.device_traces.get(device).map_or(&[], Vec::as_slice)
    }

    /// The segments of a device.
    pub(crate) fn segments_of(&self, device: usize) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| segment.device == device)
    }
}
