//! The state before the first event of a history.
//!
//! A snapshot shows the end, and the history what led there, so the beginning follows by undoing the events,
//! newest first ([`backward`]). Which segments there were and which blocks were live comes out exactly. Free
//! blocks come out too, because neighbouring free blocks always merge: each gap between live blocks is one
//! free block, as large as it can be.
//!
//! One thing a history does not say: the size of a block that it only sees being freed. Events carry what the
//! program asked for; the block is that, rounded up, and in the large pool up to 1 MiB more when a free block
//! was not worth splitting. [`sizes`] narrows it down by what else was live at the same time; what remains
//! open is marked by [`InitialBlock::size_is_known`] and counted in [`InitialState::notes`].

mod backward;
mod sizes;

#[cfg(test)]
mod tests;

use backward::{Backward, Live, Range};

use super::error::ReadError;
use super::path::Path;
use super::segment::{BlockState, PoolId};
use super::{Action, AllocatorSettings, Snapshot};

/// What a device held before the first event of its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitialState {
    /// The device.
    pub(crate) device: usize,
    /// Its segments, in address order.
    pub(crate) segments: Vec<InitialSegment>,
    /// Whether there were none, so that the history is whole.
    pub(crate) starts_empty: bool,
    /// Sentences on what the file leaves open.
    pub(crate) notes: Vec<String>,
}

/// A segment before the first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitialSegment {
    /// The device.
    pub(crate) device: usize,
    /// The first byte.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) total_size: u64,
    /// The stream of its blocks.
    pub(crate) stream: u64,
    /// Whether it serves requests up to 1 MiB.
    pub(crate) is_small: bool,
    /// Whether it is a mapped range of an expandable segment.
    pub(crate) is_expandable: bool,
    /// Its pool.
    pub(crate) pool_id: PoolId,
    /// Its blocks, live and free, in address order, without gaps.
    pub(crate) blocks: Vec<InitialBlock>,
}

/// A block before the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InitialBlock {
    /// The first byte.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Bytes that the program had asked for; 0 in a free block.
    pub(crate) requested_size: u64,
    /// Who had it.
    pub(crate) state: BlockState,
    /// Whether `size` follows from the file. If not, it is the smallest that the block can have had, and the
    /// free block behind it the largest.
    pub(crate) size_is_known: bool,
}

impl InitialState {
    /// The blocks that were not free.
    pub(crate) fn live(&self) -> impl Iterator<Item = &InitialBlock> {
        self.segments.iter().flat_map(|segment| &segment.blocks).filter(|block| block.is_active())
    }
}

impl InitialBlock {
    /// Whether it was not free.
    pub(crate) fn is_active(&self) -> bool {
        self.state != BlockState::Inactive
    }
}

/// The state of `device` before the first event of its history.
///
/// # Errors
/// The event that cannot have happened, given what follows it: the history has gaps, or is no history of the
/// segments in the file.
pub(crate) fn initial_state(snapshot: &Snapshot, device: usize) -> Result<InitialState, ReadError> {
    let default = AllocatorSettings::default();
    let settings = snapshot.allocator_settings.as_ref().unwrap_or(&default);
    let mut backward = Backward::from_end(snapshot, device);
    let traces = Path::Root.key("device_traces");
    let trace = traces.index(device);
    for (index, event) in snapshot.trace(device).iter().enumerate().rev() {
        backward.undo(event).map_err(|reason| trace.index(index).error(reason))?;
    }
    let segments: Vec<_> = backward
        .segments
        .iter()
        .map(|(start, range)| segment(device, start, range, &backward, settings))
        .collect();
    let mut state = InitialState { device, starts_empty: segments.is_empty(), segments, notes: Vec::new() };
    state.notes = notes(&state, snapshot);
    Ok(state)
}

fn segment(
    device: usize,
    start: u64,
    range: &Range,
    backward: &Backward,
    settings: &AllocatorSettings,
) -> InitialSegment {
    let mut blocks = Vec::new();
    let mut at = start;
    for (address, live) in backward.live.range(start..range.end) {
        push_free(&mut blocks, at, address);
        let (size, size_is_known) = sizes::infer(address, live, range, settings);
        at = address + size;
        blocks.push(block(address, size, live, size_is_known));
    }
    push_free(&mut blocks, at, range.end);
    InitialSegment {
        device,
        address: start,
        total_size: range.end - start,
        stream: range.stream,
        is_small: range.is_small,
        is_expandable: range.is_expandable,
        pool_id: range.pool_id,
        blocks,
    }
}

fn block(address: u64, size: u64, live: &Live, size_is_known: bool) -> InitialBlock {
    let state = if live.pending { BlockState::PendingFree } else { BlockState::Allocated };
    InitialBlock { address, size, requested_size: live.requested_size, state, size_is_known }
}

fn push_free(blocks: &mut Vec<InitialBlock>, from: u64, to: u64) {
    if from < to {
        blocks.push(InitialBlock {
            address: from,
            size: to - from,
            requested_size: 0,
            state: BlockState::Inactive,
            size_is_known: true,
        });
    }
}

fn notes(state: &InitialState, snapshot: &Snapshot) -> Vec<String> {
    let mut notes = Vec::new();
    if state.starts_empty {
        return notes;
    }
    notes.push(
        "Recording began in a running process. The segments and live blocks of that moment follow from the end \
         of the file; the order in which the segments had been obtained is not recorded."
            .into(),
    );
    let open = state.live().filter(|block| !block.size_is_known).count();
    if open > 0 {
        notes.push(format!(
            "Blocks of that moment whose size is open by up to 1 MiB: {open}. Each is taken as small as it can be."
        ));
    }
    if state.live().any(|block| block.state == BlockState::PendingFree) {
        notes
            .push("Some blocks waited for streams from before the recording, which it does not name.".into());
    }
    let recorded = snapshot.trace(state.device);
    if recorded.iter().all(|event| matches!(event.action, Action::Snapshot | Action::Annotate)) {
        notes.push("The file has no history for this device.".into());
    }
    notes
}
