//! [`what_if`]: the requests of a history under other terms, to see whether they fit and what they take.
//!
//! Nothing is compared. What was live when the recording began is allocated first, in the order of addresses, as
//! a program would from an empty device. Segments go back when the allocator says so, and when the program
//! emptied the cache as far as the recording shows that. A request that was refused when recorded is tried, and
//! given back at once where it is served.

use c10_cuda::alloc::Snapshot;
use c10_cuda::plan::{PlanStats, Recording};
use c10_cuda::{DeviceStats, Error};

use super::chart::Timeline;
use super::history::History;
use super::lane::Lane;
use super::player::{Allocated, Player, Stage};
use super::report::OutOfMemory;
use crate::progress::Progress;
use crate::snapshot::{Action, BlockState, Event};

/// What came of it.
#[derive(Debug)]
pub(super) struct Tried {
    /// The first request that was refused; the history ends there.
    pub(super) out_of_memory: Option<OutOfMemory>,
    pub(super) stats: DeviceStats,
    /// Calls of the driver about memory.
    pub(super) memory_calls: u64,
    pub(super) timeline: Timeline,
    /// How the plan did, where there is one, and what the requests were.
    pub(super) plan: Option<(PlanStats, Recording)>,
    /// The allocator's own history, if it is wanted.
    pub(super) recorded: Option<Snapshot>,
}

/// Runs the requests of a history on a stage, until one is refused.
///
/// # Errors
/// What the allocator refuses other than for want of memory.
pub(super) fn what_if(history: &History<'_>, stage: &Stage<'_>, progress: &Progress) -> Result<Tried, Error> {
    let mut player = Player::new(stage)?;
    let mut timeline = Timeline::new(history.trace.len());
    let is_planned = player.plan_stats()?.is_some();
    if is_planned {
        player.begin_recording()?;
    }
    let mut out_of_memory = begin(history, &mut player)?;
    if out_of_memory.is_none() {
        player.record(stage);
        out_of_memory = play(history, &mut player, &mut timeline, progress)?;
    }
    let stats = player.stats()?;
    let plan = match player.plan_stats()? {
        Some(plan) => Some((plan, player.end_recording()?)),
        None => None,
    };
    let memory_calls = player.memory_calls();
    Ok(Tried { out_of_memory, stats, memory_calls, timeline, plan, recorded: player.recorded()? })
}

/// What the first `events` events of a history ask for, and what was live before them.
///
/// # Errors
/// What the allocator refuses; there is memory enough.
pub(super) fn requests(
    history: &History<'_>,
    stage: &Stage<'_>,
    events: usize,
    progress: &Progress,
) -> Result<Recording, Error> {
    let mut player = Player::new(stage)?;
    player.begin_recording()?;
    let mut timeline = Timeline::new(events);
    let part = History { trace: &history.trace[..events], ..*history };
    begin(&part, &mut player)?;
    play(&part, &mut player, &mut timeline, progress)?;
    player.stats()?;
    player.end_recording()
}

fn play(
    history: &History<'_>,
    player: &mut Player,
    timeline: &mut Timeline,
    progress: &Progress,
) -> Result<Option<OutOfMemory>, Error> {
    for (index, event) in history.trace.iter().enumerate() {
        player.at(event);
        if let Some(message) = step(history, player, index, event)? {
            return Ok(Some(OutOfMemory { event: Some(index), requested_bytes: event.size, message }));
        }
        timeline.note(index, player.bytes()?);
        progress.step();
    }
    Ok(None)
}

/// Allocates what was live when the recording began.
fn begin(history: &History<'_>, player: &mut Player) -> Result<Option<OutOfMemory>, Error> {
    for segment in &history.initial.segments {
        let lane = Lane { pool: segment.pool_id, stream: segment.stream };
        for block in segment.blocks.iter().filter(|block| block.is_active()) {
            let requested_bytes = block.requested_size;
            let allocated = player.allocate(block.address, requested_bytes, lane, &[])?;
            if let Allocated::OutOfMemory(message) = allocated {
                return Ok(Some(OutOfMemory { event: None, requested_bytes, message }));
            }
            if block.state == BlockState::PendingFree {
                player.free(block.address, false)?;
            }
        }
    }
    Ok(None)
}

/// Carries out one event. PyTorch's text if it is a request that is refused.
fn step(
    history: &History<'_>,
    player: &mut Player,
    index: usize,
    event: &Event,
) -> Result<Option<String>, Error> {
    match event.action {
        Action::Alloc => return request(history, player, event.address, event),
        Action::Oom => {
            // No block has this address.
            let refused = request(history, player, u64::MAX, event)?;
            player.free(u64::MAX, true)?;
            return Ok(refused);
        }
        Action::FreeRequested => _ = player.free(event.address, history.completes_at_once(index))?,
        Action::FreeCompleted => _ = player.complete(event.address)?,
        // What is given back just before more is asked for, or in vain, was the allocator's own doing.
        Action::SegmentFree | Action::SegmentUnmap => {
            let own = [
                Action::SegmentFree,
                Action::SegmentUnmap,
                Action::SegmentAlloc,
                Action::SegmentMap,
                Action::Oom,
            ];
            if !own.into_iter().any(|action| history.next_is(index, action)) {
                player.empty_cache()?;
            }
        }
        Action::SegmentAlloc | Action::SegmentMap => {}
        Action::Snapshot | Action::Annotate => {}
    }
    Ok(None)
}

fn request(
    history: &History<'_>,
    player: &mut Player,
    recorded: u64,
    event: &Event,
) -> Result<Option<String>, Error> {
    Ok(match player.allocate(recorded, event.size, history.lanes.of(event), &[])? {
        Allocated::At(_) => None,
        Allocated::OutOfMemory(message) => Some(message),
    })
}
