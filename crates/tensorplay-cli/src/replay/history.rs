//! [`follow`]: a recorded history through the [`Player`], compared with the recording at each step.
//!
//! What a recording determines: everything, where it starts empty. In a history that starts in a running process
//! the sizes of some blocks are open, and in the order of registration the ages of its segments are: a pool with
//! such a block is *open*. Where its placements agree they are counted as such; from the first that does not the
//! pool is *lost*, since nothing says who is right, and the rest of it is counted as not determined.

use std::collections::HashMap;

use c10_cuda::{Config, DeviceStats, Error, OrderOfEquals};

use super::player::{Allocated, Player, SegmentChange};
use super::progress::Progress;
use super::report::{OutOfMemory, Placements, SegmentAgreement};
use crate::snapshot::{Action, AllocatorSettings, Event, InitialState};

/// The largest block of the small pool, in bytes.
const SMALL_SIZE: u64 = 1 << 20;

/// What following a history found.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) placements: Placements,
    pub(super) segments: SegmentAgreement,
    /// In words, with the event's number.
    pub(super) first_difference: Option<String>,
    pub(super) out_of_memory: Option<OutOfMemory>,
    pub(super) stats: DeviceStats,
}

/// How a history is followed.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) config: Config,
    pub(super) device_memory: u64,
    /// Whether the recording's own decisions are what is wanted: its addresses are handed out, and each decision
    /// is compared. Otherwise only its requests are.
    pub(super) compare: bool,
}

/// One device's history.
#[derive(Clone, Copy, Debug)]
pub(super) struct History<'a> {
    pub(super) trace: &'a [Event],
    pub(super) initial: &'a InitialState,
    /// How the recording rounded sizes.
    pub(super) settings: &'a AllocatorSettings,
}

/// Runs a history.
///
/// # Errors
/// What the allocator refuses other than for want of memory.
pub(super) fn follow(history: History<'_>, terms: &Terms, progress: &Progress) -> Result<Followed, Error> {
    let mut player = Player::new(terms.config.clone(), terms.device_memory)?;
    let mut follower = Follower::new(history, terms);
    if terms.compare {
        player.restore(history.initial)?;
    } else if let Allocated::OutOfMemory(message) = player.allocate_initial(history.initial)? {
        follower.out_of_memory = Some(OutOfMemory { event: 0, message });
    }
    for (index, event) in history.trace.iter().enumerate() {
        if follower.out_of_memory.is_some() {
            break;
        }
        follower.step(&mut player, index, event)?;
        if index.is_multiple_of(1024) {
            progress.set(index);
        }
    }
    follower.settle_segments(&mut player, history.trace.len(), None);
    Ok(Followed {
        placements: follower.placements,
        segments: follower.segments,
        first_difference: follower.first_difference,
        out_of_memory: follower.out_of_memory,
        stats: player.stats()?,
    })
}

impl Followed {
    /// How much agreed: whether all did that is determined, then placements, then segments.
    pub(super) fn agreement(&self) -> (bool, u64, u64) {
        (self.first_difference.is_none(), self.placements.as_recorded, self.segments.agreed)
    }
}

/// A pool of a stream: the stream, and whether it is the small one.
type Pool = (u64, bool);

/// What a recording says of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    Open,
    Lost,
}

struct Follower<'a> {
    history: History<'a>,
    compare: bool,
    placements: Placements,
    segments: SegmentAgreement,
    first_difference: Option<String>,
    out_of_memory: Option<OutOfMemory>,
    /// Segment events of the recording whose like the replay has not been seen to do.
    expected: Vec<SegmentChange>,
    /// Pools that are not wholly known.
    knowledge: HashMap<Pool, Knowledge>,
}

impl<'a> Follower<'a> {
    fn new(history: History<'a>, terms: &Terms) -> Self {
        let mut knowledge = HashMap::new();
        for segment in &history.initial.segments {
            let ages = terms.config.order_of_equals == OrderOfEquals::Registration;
            if ages || segment.is_expandable || segment.blocks.iter().any(|block| !block.size_is_known) {
                knowledge.insert((segment.stream, segment.is_small), Knowledge::Open);
            }
        }
        Self {
            history,
            compare: terms.compare,
            placements: Placements::default(),
            segments: SegmentAgreement::default(),
            first_difference: None,
            out_of_memory: None,
            expected: Vec::new(),
            knowledge,
        }
    }

    fn step(&mut self, player: &mut Player, index: usize, event: &Event) -> Result<(), Error> {
        let next = self.history.trace[index + 1..].first();
        match event.action {
            Action::Alloc => self.allocate(player, index, event)?,
            Action::FreeRequested => {
                let completes = next.is_some_and(|next| {
                    next.action == Action::FreeCompleted && next.address == event.address
                });
                player.free(event.address, completes)?;
            }
            Action::FreeCompleted => player.complete(event.address)?,
            Action::SegmentAlloc => self.expected.push(SegmentChange::recorded(event, true)),
            Action::SegmentFree => {
                self.expected.push(SegmentChange::recorded(event, false));
                if next.is_none_or(|next| next.action != Action::SegmentFree) {
                    self.release(player, index, event)?;
                }
            }
            Action::SegmentMap | Action::SegmentUnmap => self.map(event),
            Action::Snapshot | Action::Oom | Action::Annotate => {}
        }
        Ok(())
    }

    fn allocate(&mut self, player: &mut Player, index: usize, event: &Event) -> Result<(), Error> {
        let segments: Vec<_> = match self.compare {
            true => self.expected.iter().map(|change| change.address).collect(),
            false => Vec::new(),
        };
        let allocated = player.allocate(event.address, event.size, event.stream, &segments)?;
        let address = match allocated {
            Allocated::At(address) => address,
            Allocated::OutOfMemory(message) => {
                self.out_of_memory = Some(OutOfMemory { event: index, message });
                return Ok(());
            }
        };
        let pool = self.pool_of(event);
        self.settle_segments(player, index, Some(pool));
        if !self.compare {
            return Ok(());
        }
        let agrees = address == event.address;
        if !agrees && !self.is_lost(pool) {
            let (size, recorded) = (event.size, event.address);
            self.differs(index, Some(pool), || {
                format!("{size} bytes were placed at {address:#x}, and at {recorded:#x} when recorded")
            });
        }
        if self.is_lost(pool) {
            self.placements.not_determined += 1;
        } else {
            self.placements.compared += 1;
            self.placements.as_recorded += u64::from(agrees);
        }
        Ok(())
    }

    /// Carries out a run of segment frees, which ends at an event. A recording does not say what made the program
    /// give them back, so that they are part of what it asks for, and not a decision of the replay's.
    fn release(&mut self, player: &mut Player, index: usize, event: &Event) -> Result<(), Error> {
        if self.compare {
            let frees = self.expected.iter().filter(|change| !change.obtained).copied().collect::<Vec<_>>();
            player.release(&frees)?;
        }
        self.settle_segments(player, index, Some((event.stream, event.size <= 2 * SMALL_SIZE)));
        Ok(())
    }

    /// Growth of an expandable segment, which has no like here.
    fn map(&mut self, event: &Event) {
        if self.compare {
            self.segments.not_determined += 1;
            for is_small in [true, false] {
                self.knowledge.insert((event.stream, is_small), Knowledge::Lost);
            }
        }
    }

    /// Compares what the replay did with segments with what the recording did, up to an event.
    fn settle_segments(&mut self, player: &mut Player, index: usize, pool: Option<Pool>) {
        let done = player.segment_changes();
        let expected = std::mem::take(&mut self.expected);
        if !self.compare || (expected.is_empty() && done.is_empty()) {
            return;
        }
        let agreed = expected.iter().zip(&done).take_while(|(expected, done)| expected == done).count();
        let difference = match (expected.get(agreed), done.get(agreed)) {
            (None, None) => None,
            (Some(expected), None) => Some(format!("the recording {expected}, and the replay did not")),
            (None, Some(done)) => Some(format!("the replay {done}, and the recording did not")),
            (Some(expected), Some(done)) => Some(format!("the recording {expected}, and the replay {done}")),
        };
        if let Some(difference) = difference
            && !pool.is_some_and(|pool| self.is_lost(pool))
        {
            self.differs(index, pool, || difference);
        }
        if pool.is_some_and(|pool| self.is_lost(pool)) {
            self.segments.not_determined += expected.len() as u64;
        } else {
            self.segments.compared += expected.len() as u64;
            self.segments.agreed += agreed as u64;
        }
    }

    /// Notes a difference, or that an open pool is lost.
    fn differs(&mut self, index: usize, pool: Option<Pool>, what: impl FnOnce() -> String) {
        if let Some(knowledge) = pool.and_then(|pool| self.knowledge.get_mut(&pool)) {
            *knowledge = Knowledge::Lost;
        } else if self.first_difference.is_none() {
            self.first_difference = Some(format!("event {index}: {}", what()));
        }
    }

    fn is_lost(&self, pool: Pool) -> bool {
        self.knowledge.get(&pool) == Some(&Knowledge::Lost)
    }

    fn pool_of(&self, event: &Event) -> Pool {
        let rounded = self.history.settings.round_size(event.size);
        (event.stream, rounded.is_some_and(|size| size <= SMALL_SIZE))
    }
}

impl std::fmt::Display for SegmentChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.obtained { "obtained" } else { "gave back" };
        write!(f, "{verb} a segment of {} bytes at {:#x}", self.bytes, self.address)
    }
}
