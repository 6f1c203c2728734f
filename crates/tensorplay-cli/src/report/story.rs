//! [`Story`]: a device's history as spans: which block and which segment was where, from when until when.
//!
//! A *moment* is a number of events that have happened: 0 is the state in which the recording began. A span holds
//! at the moments from its first to before its last. Everything is at its recorded place.
//!
//! Events carry what the program asked for. How large its block is follows: the request, rounded, and in the large
//! pool the rest of the free range that it was cut from where that was not worth splitting. The free range ends
//! where the next block begins that is not free, because neighbouring free blocks always merge.

use std::collections::BTreeMap;

use crate::snapshot::{
    Action, AllocatorSettings, BlockState, Event, InitialState, PoolId, Snapshot, StackId,
};

/// The largest block of a small pool, and the largest rest that is not split off in a large one
/// (`kSmallSize`), in bytes.
const SMALL_SIZE: u64 = 1 << 20;

/// Blocks are multiples of this (`kMinBlockSize`).
const MIN_BLOCK_SIZE: u64 = 512;

/// A block that was held from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    pub(crate) from: usize,
    /// When the program gave it back; other streams may have used it until `to`.
    pub(crate) given_back: usize,
    pub(crate) to: usize,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) stream: u64,
    /// Where the program was when it asked for it.
    pub(crate) stack: Option<StackId>,
}

/// A segment, or a mapped range of one that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSpan {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) stream: u64,
    pub(crate) pool: PoolId,
    pub(crate) is_small: bool,
    /// Whether it is mapped memory, which adjoining ranges continue.
    pub(crate) is_expandable: bool,
}

/// A request that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) event: usize,
    pub(crate) size: u64,
    /// What the driver had free.
    pub(crate) device_free: u64,
}

/// A device's history as spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// In the order in which they began.
    pub(crate) blocks: Vec<BlockSpan>,
    pub(crate) segments: Vec<SegmentSpan>,
    pub(crate) refusals: Vec<Refusal>,
    /// How many events there are.
    pub(crate) events: usize,
    /// When each event was, in microseconds since the first that says so; empty where none does.
    pub(crate) times: Vec<u64>,
}

/// Bytes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// What the program had asked for and not given back.
    pub(crate) live: u64,
    /// Its blocks.
    pub(crate) allocated: u64,
    /// What was held from the driver.
    pub(crate) reserved: u64,
}

impl Story {
    /// The story of the device that `initial` is about.
    pub(crate) fn new(snapshot: &Snapshot, initial: &InitialState) -> Self {
        let mut teller = Teller::new(snapshot, initial);
        for (index, event) in snapshot.trace(initial.device).iter().enumerate() {
            teller.tell(index, event);
        }
        teller.end(snapshot, initial.device)
    }

    /// The bytes at every moment.
    pub(crate) fn levels(&self) -> Vec<Level> {
        let mut changes = vec![[0i128; 3]; self.events + 2];
        let mut span = |level: usize, from: usize, to: usize, bytes: u64| {
            changes[from][level] += i128::from(bytes);
            changes[to][level] -= i128::from(bytes);
        };
        for block in &self.blocks {
            span(0, block.from, block.given_back, block.requested);
            span(1, block.from, block.given_back, block.size);
        }
        for segment in &self.segments {
            span(2, segment.from, segment.to, segment.size);
        }
        let mut now = [0i128; 3];
        let levels = changes[..=self.events].iter().map(|change| {
            now.iter_mut().zip(change).for_each(|(now, change)| *now += change);
            // Sums of what lies apart in one address space.
            let [live, allocated, reserved] = now.map(|bytes| bytes as u64);
            Level { live, allocated, reserved }
        });
        levels.collect()
    }
}

/// The first moment at which what `of` picks is largest.
pub(crate) fn peak(levels: &[Level], of: impl Fn(&Level) -> u64) -> usize {
    let mut peak = 0;
    for (moment, level) in levels.iter().enumerate() {
        if of(level) > of(&levels[peak]) {
            peak = moment;
        }
    }
    peak
}

fn last_of(times: &[u64]) -> u64 {
    times.last().copied().unwrap_or(0)
}

/// A story in the making.
struct Teller<'a> {
    story: Story,
    settings: AllocatorSettings,
    snapshot: &'a Snapshot,
    /// Blocks that are not free, by address: their end, and their span.
    held: BTreeMap<u64, (u64, usize)>,
    /// What is held from the driver, by address: its end, and its span.
    ranges: BTreeMap<u64, (u64, usize)>,
}

impl<'a> Teller<'a> {
    fn new(snapshot: &'a Snapshot, initial: &InitialState) -> Self {
        let trace = snapshot.trace(initial.device);
        let first = trace.iter().find_map(|event| event.time_us);
        let mut last = 0;
        let times = trace.iter().map(|event| {
            // Clocks may step back.
            last = event.time_us.zip(first).map_or(last, |(now, first)| now.saturating_sub(first)).max(last);
            last
        });
        let times: Vec<_> = times.collect();
        // A clock that stands still tells no time.
        let times = if last_of(&times) > 0 { times } else { Vec::new() };
        let settings = snapshot.allocator_settings.clone().unwrap_or_default();
        let story = Story { events: trace.len(), times, ..Story::default() };
        let (held, ranges) = (BTreeMap::new(), BTreeMap::new());
        let mut teller = Self { story, settings, snapshot, held, ranges };
        for segment in &initial.segments {
            teller.obtain(SegmentSpan {
                from: 0,
                to: 0,
                address: segment.address,
                size: segment.total_size,
                stream: segment.stream,
                pool: segment.pool_id,
                is_small: segment.is_small,
                is_expandable: segment.is_expandable,
            });
            for block in segment.blocks.iter().filter(|block| block.is_active()) {
                let span = teller.hold(BlockSpan {
                    from: 0,
                    given_back: 0,
                    to: 0,
                    address: block.address,
                    size: block.size,
                    requested: block.requested_size,
                    stream: segment.stream,
                    stack: None,
                });
                if block.state != BlockState::PendingFree {
                    teller.story.blocks[span].given_back = usize::MAX;
                }
            }
        }
        teller
    }

    fn tell(&mut self, index: usize, event: &Event) {
        let moment = index + 1;
        match event.action {
            Action::Alloc => {
                let size = self.size_of(event);
                let span = self.hold(BlockSpan {
                    from: moment,
                    given_back: 0,
                    to: 0,
                    address: event.address,
                    size,
                    requested: event.size,
                    stream: event.stream,
                    stack: event.stack,
                });
                self.story.blocks[span].given_back = usize::MAX;
            }
            Action::FreeRequested => {
                if let Some(&(_, span)) = self.held.get(&event.address) {
                    self.story.blocks[span].given_back = moment;
                }
            }
            Action::FreeCompleted => {
                if let Some((_, span)) = self.held.remove(&event.address) {
                    let block = &mut self.story.blocks[span];
                    block.to = moment;
                    block.given_back = block.given_back.min(moment);
                }
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                let is_expandable = event.action == Action::SegmentMap;
                self.obtain(SegmentSpan {
                    from: moment,
                    to: 0,
                    address: event.address,
                    size: event.size,
                    stream: event.stream,
                    pool: event.pool_id.unwrap_or_else(|| self.pool_at_end(event)),
                    is_small: self.is_small(event),
                    is_expandable,
                });
            }
            Action::SegmentFree | Action::SegmentUnmap => self.give_up(moment, event),
            Action::Oom => {
                let (size, device_free) = (event.size, event.address);
                self.story.refusals.push(Refusal { event: index, size, device_free });
            }
            Action::Snapshot | Action::Annotate => {}
        }
    }

    fn hold(&mut self, span: BlockSpan) -> usize {
        let index = self.story.blocks.len();
        self.held.insert(span.address, (span.address + span.size, index));
        self.story.blocks.push(span);
        index
    }

    fn obtain(&mut self, span: SegmentSpan) {
        self.ranges.insert(span.address, (span.address + span.size, self.story.segments.len()));
        self.story.segments.push(span);
    }

    /// Ends what lies in an event's range; what reaches beyond it goes on as spans of its own.
    fn give_up(&mut self, moment: usize, event: &Event) {
        let (start, end) = (event.address, event.address + event.size);
        let before = self.ranges.range(..start).next_back().filter(|(_, (to, _))| *to > start);
        let first = before.map_or(start, |(address, _)| *address);
        let within: Vec<_> =
            self.ranges.range(first..end).map(|(&address, &range)| (address, range)).collect();
        for (address, (to, index)) in within {
            self.ranges.remove(&address);
            self.story.segments[index].to = moment;
            let old = self.story.segments[index];
            for (address, to) in [(address, start), (end, to)] {
                if address < to {
                    self.obtain(SegmentSpan { from: moment, to: 0, address, size: to - address, ..old });
                }
            }
        }
    }

    /// The size of the block that an allocation got.
    fn size_of(&self, event: &Event) -> u64 {
        let at = event.address;
        let rounded = self.settings.round_size(event.size).unwrap_or(event.size);
        let Some((range, is_small, is_expandable)) = self.range_of(at) else { return rounded };
        let next = self.held.range(at..).next().map_or(range, |(&address, _)| address.min(range));
        let room = next - at;
        if room <= rounded {
            // Another rounding than the one that is assumed.
            return if room >= event.size { room } else { rounded.min(u64::MAX - at) };
        }
        let splits = if is_small || is_expandable {
            room - rounded >= MIN_BLOCK_SIZE
        } else {
            room - rounded > SMALL_SIZE && !self.settings.takes_blocks_whole(rounded)
        };
        if splits { rounded } else { room }
    }

    /// Where what holds an address ends, with the mapped ranges that continue it; whether it is of a small pool,
    /// and whether it is mapped.
    fn range_of(&self, address: u64) -> Option<(u64, bool, bool)> {
        let (_, &(mut end, index)) = self.ranges.range(..=address).next_back()?;
        if end <= address {
            return None;
        }
        let span = &self.story.segments[index];
        while span.is_expandable
            && let Some(&(next, index)) = self.ranges.get(&end)
            && self.story.segments[index].is_expandable
        {
            end = next;
        }
        Some((end, span.is_small, span.is_expandable))
    }

    /// Segments of small pools are of 2 MiB, and so are the pieces by which small expandable ones grow.
    fn is_small(&self, event: &Event) -> bool {
        event.size <= 2 * SMALL_SIZE
    }

    /// The pool of the segment that is there at the end, where an event does not say.
    fn pool_at_end(&self, event: &Event) -> PoolId {
        let end =
            self.snapshot.segments.iter().find(|s| s.address <= event.address && event.address < s.end());
        end.map_or((0, 0), |segment| segment.pool_id)
    }

    /// Ends what is still held. What the file says of blocks at the end is truer than what was worked out.
    fn end(mut self, snapshot: &Snapshot, device: usize) -> Story {
        let end = self.story.events + 1;
        for segment in snapshot.segments_of(device) {
            for block in &segment.blocks {
                let Some(&(_, span)) = self.held.get(&block.address) else { continue };
                let span = &mut self.story.blocks[span];
                if block.state != BlockState::Inactive {
                    span.size = block.size;
                    span.stack = span.stack.or(block.stack);
                }
            }
        }
        for (_, index) in self.held.values() {
            let block = &mut self.story.blocks[*index];
            block.to = end;
            block.given_back = block.given_back.min(end);
        }
        for (_, index) in self.ranges.values() {
            self.story.segments[*index].to = end;
        }
        self.story
    }
}
