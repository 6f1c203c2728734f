//! [`Serving`]: a plan at work. Requests come in, places go out; nothing here knows of memory.
//!
//! Rules:
//! - **P1.** What is handed out and not given back does not overlap.
//! - **P2.** A stream's requests are placed in its lane alone, which no other stream ever has.
//! - **P3.** A request that is the next of the plan gets its place, if that is clear. See Note [Whose place it was]:
//!   while nothing deviates this takes constant time.
//! - **P4.** One of the plan whose place is not clear goes wherever its lane has room, and so do all while the program is
//!   not where the plan is. A small one that the plan just does not have is not served, so that it stands in nobody's way. From the
//!   first of these until a lap begins with none of them left, what is held is also kept by address.
//!
//! A request that is not the next one may be one that the plan does not have, or the plan may have some that the program
//! leaves out, or the program has gone somewhere else altogether. The first is left alone. The second is assumed when
//! two requests in a row are found a little further on, the third when [`GRAM`] in a row are found anywhere.

use super::grams::{GRAM, Token, hash};
use super::occupancy::Occupancy;
use super::plan::{Entry, Plan};
use crate::alloc::size::SMALL_SIZE;
use crate::sync::Arc;

/// How far ahead requests that were left out are looked for.
const AHEAD: u32 = 64;

/// A place that is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Names it when it is given back.
    pub(crate) ticket: u32,
    /// From the arena's bottom.
    pub(crate) offset: u64,
}

/// How a plan has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanStats {
    /// Requests that got the place that the plan has for them.
    pub planned: u64,
    /// Requests that got another place in the arena.
    pub elsewhere: u64,
    /// Requests that the arena had no place for.
    pub outside: u64,
    /// How often the place in the plan was lost and found again.
    pub resynchronised: u64,
    /// How often the plan has begun again.
    pub laps: u64,
}

/// Nobody's entry.
const NO_ENTRY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Held {
    offset: u64,
    /// 0 where the ticket is not out.
    size: u64,
    entry: u32,
}

/// A plan at work.
#[derive(Debug)]
pub(crate) struct Serving {
    plan: Arc<Plan>,
    /// The streams of lanes, as far as they have appeared.
    streams: Vec<u64>,
    /// The request that comes next.
    next: u32,
    /// From 1.
    lap: u64,
    /// The lap in which each request was last served where the plan says; 0 is never.
    served: Vec<u64>,
    /// Whether it is held there.
    is_held: Vec<bool>,
    held: Vec<Held>,
    idle: Vec<u32>,
    /// How many places are held that are not the plan's.
    elsewhere: u64,
    /// What is held by address; only while something deviates.
    occupancy: Option<Occupancy>,
    /// The last requests, and how many of them in a row were not the next one.
    recent: [Token; GRAM],
    lost: usize,
    stats: PlanStats,
}

impl Serving {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        let count = plan.len();
        Self {
            plan,
            streams: Vec::new(),
            next: 0,
            lap: 1,
            served: vec![0; count],
            is_held: vec![false; count],
            held: Vec::new(),
            idle: Vec::new(),
            elsewhere: 0,
            occupancy: None,
            recent: [(0, 0); GRAM],
            lost: 0,
            stats: PlanStats::default(),
        }
    }

    /// A place for a block of `size` bytes that `stream` asks for, if the arena has one.
    pub(crate) fn take(&mut self, size: u64, stream: u64) -> Option<Place> {
        let Some(lane) = self.lane_of(stream) else {
            self.stats.outside += 1;
            return None;
        };
        if let Some(at) = self.find((size, lane.into())) {
            self.advance(at);
            if self.is_clear(at) {
                return Some(self.serve(at));
            }
        }
        if (1..GRAM).contains(&self.lost) && size <= SMALL_SIZE {
            // The plan goes on behind it, and is not to be disturbed for what costs little elsewhere.
            self.stats.outside += 1;
            return None;
        }
        let within = self.plan.parts.range(lane);
        match self.by_address().tightest_gap(&within, size) {
            Some(offset) => {
                self.elsewhere += 1;
                self.stats.elsewhere += 1;
                Some(self.hand_out(offset, size, NO_ENTRY))
            }
            None => {
                self.stats.outside += 1;
                None
            }
        }
    }

    /// Takes a place back.
    pub(crate) fn give_back(&mut self, ticket: u32) {
        let held = &mut self.held[ticket as usize];
        debug_assert!(held.size > 0, "the ticket {ticket} is out");
        let range = held.offset..held.offset + held.size;
        held.size = 0;
        match held.entry {
            NO_ENTRY => self.elsewhere -= 1,
            entry => self.is_held[entry as usize] = false,
        }
        self.idle.push(ticket);
        if let Some(occupancy) = &mut self.occupancy {
            occupancy.remove(&range);
        }
    }

    /// Begins again at the start: the program says that an iteration begins. A plan whose lap is not all of it
    /// finds its place by itself.
    pub(crate) fn begin_lap(&mut self) {
        let is_at_start = self.next == 0 && self.lap == 1;
        if self.lap_start() == 0 && !is_at_start {
            self.start_lap(0);
        }
    }

    /// How it has done.
    pub(crate) fn stats(&self) -> PlanStats {
        self.stats
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether anything of the arena is held.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.len() == self.held.len()
    }

    /// The stream of each lane, 0 where none has come, and the lane's end from the arena's bottom.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (u64, u64)> {
        let streams = self.streams.iter().copied().chain(std::iter::repeat(0));
        (0..self.plan.lanes() as u32)
            .zip(streams)
            .map(|(lane, stream)| (stream, self.plan.parts.range(lane).end))
    }

    /// Hands out the place of an entry.
    fn serve(&mut self, at: u32) -> Place {
        self.stats.planned += 1;
        let Entry { offset, size, .. } = self.plan.parts.entries[at as usize];
        if self.lap > 1 && at < self.lap_start() {
            // What comes before the lap is not what a later lap reckons with.
            self.elsewhere += 1;
            self.by_address();
            return self.hand_out(offset, size, NO_ENTRY);
        }
        self.served[at as usize] = self.lap;
        self.is_held[at as usize] = true;
        self.hand_out(offset, size, at)
    }

    /// The entry that a lap begins with.
    fn lap_start(&self) -> u32 {
        self.plan.parts.repeats_from.unwrap_or(0)
    }

    fn lane_of(&mut self, stream: u64) -> Option<u32> {
        if let Some(lane) = self.streams.iter().position(|known| *known == stream) {
            return Some(lane as u32);
        }
        if self.streams.len() == self.plan.lanes() {
            return None;
        }
        self.streams.push(stream);
        Some(self.streams.len() as u32 - 1)
    }

    /// The entry that a request is, as far as can be told.
    fn find(&mut self, token: Token) -> Option<u32> {
        let before = self.recent[GRAM - 1];
        self.recent.rotate_left(1);
        self.recent[GRAM - 1] = token;
        if self.next as usize == self.plan.len()
            && let Some(from) = self.plan.parts.repeats_from
        {
            self.start_lap(from);
        }
        if self.is(self.next, token) {
            self.lost = 0;
            return Some(self.next);
        }
        self.lost += 1;
        let found = if self.lost >= 2 { self.ahead(before, token).or_else(|| self.anywhere()) } else { None };
        if found.is_some() {
            self.lost = 0;
            self.stats.resynchronised += 1;
        }
        found
    }

    fn is(&self, at: u32, token: Token) -> bool {
        let entry = self.plan.parts.entries.get(at as usize);
        entry.is_some_and(|&Entry { size, lane, .. }| (size, lane.into()) == token)
    }

    /// The next place, not far ahead, where two requests come in a row.
    fn ahead(&self, before: Token, token: Token) -> Option<u32> {
        let end = self.next.saturating_add(AHEAD).min(self.plan.len() as u32);
        (self.next + 1..end).find(|at| self.is(*at, token) && self.is(*at - 1, before))
    }

    /// The nearest place where the last few requests come in a row.
    fn anywhere(&self) -> Option<u32> {
        if self.lost < GRAM {
            return None;
        }
        let end = self.plan.guide.grams.nearest(hash(self.recent.iter().copied()), self.next)?;
        // Hashes may agree by chance.
        let run = (end - GRAM as u32..end).zip(self.recent);
        run.into_iter().all(|(at, token)| self.is(at, token)).then_some(end - 1)
    }

    /// Goes on behind an entry.
    fn advance(&mut self, at: u32) {
        if at < self.next {
            self.start_lap(at);
        }
        self.next = at + 1;
    }

    fn start_lap(&mut self, at: u32) {
        self.next = at;
        self.lap += 1;
        self.stats.laps += 1;
        if self.elsewhere == 0 {
            self.occupancy = None;
        }
    }

    /// Whether the place of an entry is clear.
    fn is_clear(&mut self, at: u32) -> bool {
        if self.elsewhere == 0 && self.occupancy.is_none() && self.is_clear_by_plan(at) {
            return true;
        }
        let Entry { offset, size, .. } = self.plan.parts.entries[at as usize];
        self.by_address().is_clear(&(offset..offset + size))
    }

    /// See Note [Whose place it was].
    fn is_clear_by_plan(&self, at: u32) -> bool {
        let guide = &self.plan.guide;
        let was_served =
            |other: u32, lap: u64| self.served[other as usize] == lap && !self.is_held[other as usize];
        if self.lap == 1 {
            return guide.first.of(at).iter().all(|other| was_served(*other, 1));
        }
        let lap_of = |other: u32| if other < at { self.lap } else { self.lap - 1 };
        at >= self.lap_start() && guide.again.of(at).iter().all(|other| was_served(*other, lap_of(*other)))
    }

    /// What is held, by address.
    fn by_address(&mut self) -> &Occupancy {
        let Self { occupancy, held, .. } = self;
        occupancy.get_or_insert_with(|| {
            let mut occupancy = Occupancy::default();
            for held in held.iter().filter(|held| held.size > 0) {
                occupancy.insert(&(held.offset..held.offset + held.size));
            }
            occupancy
        })
    }

    fn hand_out(&mut self, offset: u64, size: u64, entry: u32) -> Place {
        if let Some(occupancy) = &mut self.occupancy {
            occupancy.insert(&(offset..offset + size));
        }
        let held = Held { offset, size, entry };
        let ticket = match self.idle.pop() {
            Some(ticket) => {
                self.held[ticket as usize] = held;
                ticket
            }
            None => {
                self.held.push(held);
                self.held.len() as u32 - 1
            }
        };
        Place { ticket, offset }
    }
}
