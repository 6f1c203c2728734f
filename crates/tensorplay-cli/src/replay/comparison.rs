//! [`compare`]: a recorded history through the [`Player`], each decision compared with the recording's.
//!
//! What the program asked for is carried out as recorded: requests, frees, when other streams had passed, and
//! which segments were given back, since a recording does not say why they were. Where blocks go, and which
//! segments are obtained, the allocator decides.

use std::collections::{HashMap, VecDeque};

use c10_cuda::alloc::Snapshot;
use c10_cuda::{DeviceStats, Error};

use super::chart::Timeline;
use super::history::History;
use super::player::{Allocated, Player, Stage};
use super::pools::{Pool, Pools};
use super::report::{Difference, Placements, SegmentAgreement};
use super::segments::{SegmentChange, Segments};
use crate::progress::Progress;
use crate::snapshot::{Action, Event};

/// What comparing a history found.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) placements: Placements,
    pub(super) segments: SegmentAgreement,
    pub(super) first_difference: Option<Difference>,
    pub(super) stats: DeviceStats,
    pub(super) timeline: Timeline,
    /// The allocator's own history, if it is wanted.
    pub(super) recorded: Option<Snapshot>,
}

impl Compared {
    /// How much agreed: whether all did that is determined, then placements, then segments.
    pub(super) fn agreement(&self) -> (bool, u64, u64) {
        (self.first_difference.is_none(), self.placements.as_recorded, self.segments.as_recorded)
    }
}

/// Runs a history on a stage and compares.
///
/// # Errors
/// What the allocator refuses other than for want of memory.
pub(super) fn compare(
    history: &History<'_>,
    stage: &Stage<'_>,
    progress: &Progress,
) -> Result<Compared, Error> {
    let mut comparison = Comparison::new(history, stage)?;
    let mut timeline = Timeline::new(history.trace.len());
    let mut bytes = comparison.player.bytes()?;
    for (index, event) in history.trace.iter().enumerate() {
        comparison.player.at(event);
        comparison.step(index, event)?;
        // What has passed completes with a later event.
        if event.action != Action::FreeCompleted {
            bytes = comparison.player.bytes()?;
        }
        timeline.note(index, bytes);
        progress.step();
    }
    comparison.settle_obtained(history.trace.len(), None);
    comparison.complete_all_passed()?;
    Ok(Compared {
        placements: comparison.placements,
        segments: comparison.agreement,
        first_difference: comparison.first_difference,
        stats: comparison.player.stats()?,
        timeline,
        recorded: comparison.player.recorded()?,
    })
}

/// A segment that the recording gave back, in the run of such events that is not settled yet.
struct GivenBack {
    index: usize,
    pool: Pool,
    change: SegmentChange,
}

struct Comparison<'a> {
    history: &'a History<'a>,
    player: Player,
    /// What the replay holds.
    held: Segments,
    pools: Pools<'a>,
    placements: Placements,
    agreement: SegmentAgreement,
    first_difference: Option<Difference>,
    /// What the recording obtained for the allocation to come.
    obtained: Vec<SegmentChange>,
    given_back: Vec<GivenBack>,
    /// Frees that had waited for streams and completed, whose like here is still to complete; by recorded
    /// address. See [`Self::complete_within`].
    passed: Vec<u64>,
}

impl<'a> Comparison<'a> {
    /// The state in which the recording began.
    fn new(history: &'a History<'a>, stage: &Stage<'_>) -> Result<Self, Error> {
        let mut player = Player::new(stage)?;
        player.restore(history)?;
        player.record(stage);
        let mut held = Segments::default();
        history.initial.segments.iter().for_each(|segment| held.restore(segment));
        let order = stage.config.order_of_equals;
        Ok(Self {
            history,
            player,
            held,
            pools: Pools::new(history.initial, history.lanes, history.growable, history.settings, order),
            placements: Placements::default(),
            agreement: SegmentAgreement::default(),
            first_difference: None,
            obtained: Vec::new(),
            given_back: Vec::new(),
            passed: Vec::new(),
        })
    }

    fn step(&mut self, index: usize, event: &Event) -> Result<(), Error> {
        match event.action {
            Action::Alloc => self.allocate(index, event)?,
            Action::FreeRequested => {
                if let Some(freed) = self.player.free(event.address, self.history.completes_at_once(index))? {
                    self.held.remove_block(freed);
                }
            }
            Action::FreeCompleted => {
                self.passed.extend(self.player.waiting_at(event.address).map(|_| event.address))
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                self.obtained.push(SegmentChange::recorded(event, true));
            }
            Action::SegmentFree | Action::SegmentUnmap => {
                let (pool, change) = (self.pools.of_segment(event), SegmentChange::recorded(event, false));
                self.given_back.push(GivenBack { index, pool, change });
                let goes_on = [Action::SegmentFree, Action::SegmentUnmap];
                if !goes_on.into_iter().any(|action| self.history.next_is(index, action)) {
                    self.give_back()?;
                }
            }
            Action::Oom => self.complete_all_passed()?,
            Action::Snapshot | Action::Annotate => {}
        }
        Ok(())
    }

    fn allocate(&mut self, index: usize, event: &Event) -> Result<(), Error> {
        let had_block = self.obtained.is_empty();
        if had_block {
            self.complete_all_passed()?;
        }
        let pool = self.pools.of_request(event);
        let allocated = self.player.allocate(event.address, event.size, pool.lane, &self.obtained)?;
        self.settle_obtained(index, Some(pool));
        if let Allocated::At(address) = allocated {
            self.held.add_block(address);
        }
        let agrees = allocated == Allocated::At(event.address);
        if !agrees && !self.pools.is_lost(pool) {
            let placed = match allocated {
                Allocated::At(address) => format!("were placed at {address:#x}"),
                Allocated::OutOfMemory(text) => format!("were refused ({text})"),
            };
            let (size, recorded) = (event.size, event.address);
            self.differs(index, Some(pool), || {
                format!("{size} bytes {placed}, and at {recorded:#x} when recorded")
            });
        }
        if self.pools.is_lost(pool) {
            self.placements.not_determined += 1;
        } else {
            self.placements.compared += 1;
            self.placements.as_recorded += u64::from(agrees);
        }
        self.complete_all_passed()
    }

    /// Compares the segments that the replay obtained with those of the recording, up to an event.
    fn settle_obtained(&mut self, index: usize, pool: Option<Pool>) {
        let done = self.take_changes();
        let recorded = std::mem::take(&mut self.obtained);
        let agreed = recorded.iter().zip(&done).take_while(|(recorded, done)| recorded == done).count();
        let is_lost = |pools: &Pools<'_>| pool.is_some_and(|pool| pools.is_lost(pool));
        if agreed < recorded.len().max(done.len()) && !is_lost(&self.pools) {
            self.differs(index, pool, || difference(recorded.get(agreed), done.get(agreed)));
        }
        let count = recorded.len() as u64;
        if is_lost(&self.pools) {
            self.agreement.not_determined += count;
        } else {
            self.agreement.compared += count;
            self.agreement.as_recorded += agreed as u64;
        }
    }

    /// Gives back what the recording did in the run of events that has ended: all that is wholly free where it
    /// was just that, in our order; else the same segments one by one.
    ///
    /// Pages go back only with all that is free.
    fn give_back(&mut self) -> Result<(), Error> {
        let run = std::mem::take(&mut self.given_back);
        self.complete_within(&run)?;
        if run.iter().any(|given| given.change.is_pages) {
            self.complete_all_passed()?;
            self.player.empty_cache()?;
            let done = self.take_changes();
            self.compare_given_back(&run, &done);
            return Ok(());
        }
        // Emptying the cache waits for all streams, so that nothing waits then.
        let is_all = !self.player.has_waiting();
        if is_all && self.held.are_the_idle(run.iter().map(|given| given.change.address)) {
            self.player.empty_cache()?;
        } else {
            for given in &run {
                self.player.release_segment(given.change.address)?;
            }
        }
        let done = self.take_changes();
        self.compare_given_back(&run, &done);
        Ok(())
    }

    /// Compares a run pool by pool, so that one that is lost does not speak for the others.
    fn compare_given_back(&mut self, run: &[GivenBack], done: &[SegmentChange]) {
        let pool_at: HashMap<u64, Pool> =
            run.iter().map(|given| (given.change.address, given.pool)).collect();
        let mut done_by_pool: HashMap<Pool, VecDeque<SegmentChange>> = HashMap::new();
        for change in done {
            if let Some(pool) = pool_at.get(&change.address) {
                done_by_pool.entry(*pool).or_default().push_back(*change);
            }
        }
        let mut all_agree = true;
        let last = run.last().map_or(0, |given| given.index);
        for change in done.iter().filter(|change| !pool_at.contains_key(&change.address)) {
            self.differs(last, None, || difference(None, Some(change)));
        }
        for given in run {
            let done = done_by_pool.get_mut(&given.pool).and_then(VecDeque::pop_front);
            let agrees = done == Some(given.change);
            all_agree &= agrees;
            if !agrees && !self.pools.is_lost(given.pool) {
                self.differs(given.index, Some(given.pool), || {
                    difference(Some(&given.change), done.as_ref())
                });
            }
            if self.pools.is_lost(given.pool) {
                self.agreement.not_determined += 1;
            } else {
                self.agreement.compared += 1;
                self.agreement.as_recorded += u64::from(agrees);
            }
        }
        let out_of_turn = run.iter().zip(done).find(|(given, done)| given.change != **done);
        if let Some((given, done)) = out_of_turn.filter(|_| all_agree) {
            self.differs(given.index, None, || difference(Some(&given.change), Some(done)));
        }
    }

    /// Completes the frees whose blocks lie in the segments of a run, as those were wholly free.
    ///
    /// Note [When frees complete]
    /// PyTorch completes frees before it looks for a block, and also after it has found none and before it gives
    /// segments back; then it does not look again. An event does not say which it was. Where the recording went
    /// on to obtain a segment, no block fitted in either case: so those frees complete after the allocation,
    /// except where a segment could not go back without them.
    fn complete_within(&mut self, run: &[GivenBack]) -> Result<(), Error> {
        let mut left = Vec::new();
        for recorded in std::mem::take(&mut self.passed) {
            let at = self.player.waiting_at(recorded);
            let is_within = |given: &GivenBack| {
                at.is_some_and(|at| at.wrapping_sub(given.change.address) < given.change.bytes)
            };
            if run.iter().any(is_within) { self.complete(recorded)? } else { left.push(recorded) }
        }
        self.passed = left;
        Ok(())
    }

    fn complete_all_passed(&mut self) -> Result<(), Error> {
        for recorded in std::mem::take(&mut self.passed) {
            self.complete(recorded)?;
        }
        Ok(())
    }

    fn complete(&mut self, recorded: u64) -> Result<(), Error> {
        if let Some(freed) = self.player.complete(recorded)? {
            self.held.remove_block(freed);
        }
        Ok(())
    }

    /// What the replay obtained and gave back since the last time.
    fn take_changes(&mut self) -> Vec<SegmentChange> {
        let done = self.player.segment_changes();
        done.iter().for_each(|change| self.held.apply(change));
        self.agreement.replayed += done.len() as u64;
        done
    }

    /// Notes a difference, or that an open pool is lost.
    fn differs(&mut self, index: usize, pool: Option<Pool>, what: impl FnOnce() -> String) {
        let was_open = pool.is_some_and(|pool| self.pools.lose_if_open(pool));
        if !was_open && self.first_difference.is_none() {
            self.first_difference = Some(Difference { event: index, what: what() });
        }
    }
}

fn difference(recorded: Option<&SegmentChange>, done: Option<&SegmentChange>) -> String {
    match (recorded, done) {
        (Some(recorded), Some(done)) => format!("the recording {recorded}, and the replay {done}"),
        (Some(recorded), None) => format!("the recording {recorded}, and the replay did not"),
        (None, Some(done)) => format!("the replay {done}, and the recording did not"),
        (None, None) => unreachable!("called where something differs"),
    }
}
