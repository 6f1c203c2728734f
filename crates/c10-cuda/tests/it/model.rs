//! A naive model of the caching allocator and of the driver below it: PyTorch's rules over plain lists, searched
//! from end to end. It shares no code with the allocator but the types of settings and statistics.

use std::collections::BTreeMap;

use c10_core::stat::StatArray;
use c10_cuda::{Config, DeviceStats, OrderOfEquals};

use crate::rig::{BASE, MIB};

#[derive(Clone, Debug, PartialEq)]
enum State {
    Free {
        since: u64,
    },
    Held {
        uses: Vec<u64>,
    },
    /// The events that it still waits for.
    Waiting {
        events: usize,
    },
}

#[derive(Clone, Debug)]
struct Block {
    at: u64,
    size: u64,
    requested: u64,
    state: State,
}

#[derive(Clone, Debug)]
struct Segment {
    at: u64,
    size: u64,
    stream: u64,
    small: bool,
    registration: u64,
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Work {
    issued: u64,
    done: u64,
}

/// A request, rounded.
#[derive(Clone, Copy)]
struct Request {
    requested: u64,
    size: u64,
    segment: u64,
    stream: u64,
}

/// Why a request got nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Refusal {
    OutOfMemory,
    Rejected,
}

#[derive(Debug)]
pub(crate) struct Model {
    config: Config,
    total: u64,
    limit: Option<u64>,
    segments: Vec<Segment>,
    next_registration: u64,
    /// Searches of the small and of the large pool.
    searches: [u64; 2],
    work: BTreeMap<u64, Work>,
    /// For each stream the places of events with the addresses of the blocks that wait for them.
    events: BTreeMap<u64, Vec<(u64, u64)>>,
    pub(crate) stats: DeviceStats,
    /// As [`Rig::memory_calls`](crate::rig::Rig::memory_calls).
    pub(crate) calls: Vec<String>,
}

impl Model {
    pub(crate) fn new(config: Config, total: u64) -> Self {
        let max_split_size = config.max_split_size.map_or(-1, |size| size as i64);
        Self {
            config,
            total,
            limit: None,
            segments: Vec::new(),
            next_registration: 0,
            searches: [0; 2],
            work: BTreeMap::new(),
            events: BTreeMap::new(),
            stats: DeviceStats { max_split_size, ..DeviceStats::default() },
            calls: Vec::new(),
        }
    }

    pub(crate) fn allocate(&mut self, requested: u64, stream: u64) -> Result<u64, Refusal> {
        self.poll();
        let request = self.round(requested, stream);
        let found = match self.search(&request) {
            Some(found) => found,
            None => self.descend(&request)?,
        };
        Ok(self.hand_out(found, &request))
    }

    pub(crate) fn free(&mut self, at: u64) {
        let (s, b) = self.find(at);
        let small = self.segments[s].small;
        let block = self.segments[s].blocks[b].clone();
        let State::Held { uses } = block.state else { panic!("{block:?} is freed twice") };
        self.stats.allocation.decrease(small, 1);
        self.stats.allocated_bytes.decrease(small, block.size as i64);
        if block.size >= self.max_split() {
            self.stats.oversize_allocations.decrease(1);
        }
        for &stream in &uses {
            let work = self.work.entry(stream).or_default();
            work.issued += 1;
            self.events.entry(stream).or_default().push((work.issued, at));
        }
        self.segments[s].blocks[b].state = State::Waiting { events: uses.len() };
        if uses.is_empty() {
            self.complete_free(at);
        }
    }

    pub(crate) fn record_stream(&mut self, at: u64, stream: u64) {
        let (s, b) = self.find(at);
        let own = self.segments[s].stream;
        let State::Held { uses } = &mut self.segments[s].blocks[b].state else { panic!("it is held") };
        if stream != own && !uses.contains(&stream) {
            uses.push(stream);
        }
    }

    pub(crate) fn complete(&mut self, stream: u64) {
        let work = self.work.entry(stream).or_default();
        work.done = work.issued;
    }

    pub(crate) fn empty_cache(&mut self) {
        self.wait();
        self.release_free();
    }

    pub(crate) fn set_fraction(&mut self, fraction: f64) {
        self.limit = (fraction < 1.0).then(|| (fraction * self.total as f64).round() as u64);
    }

    fn max_split(&self) -> u64 {
        self.config.max_split_size.unwrap_or(u64::MAX)
    }

    fn reserved(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    fn find(&self, at: u64) -> (usize, usize) {
        let s = self.segments.iter().position(|s| (s.at..s.at + s.size).contains(&at)).unwrap();
        let b = self.segments[s].blocks.iter().position(|b| b.at == at).unwrap();
        (s, b)
    }

    fn round(&self, requested: u64, stream: u64) -> Request {
        let parts = self.config.roundup_power2_divisions.of(requested);
        let mut size = requested.max(1).div_ceil(512) * 512;
        if parts > 1 && requested > 512 * parts {
            // The first step at or above it, counted from the power of two below it.
            let mut power = 1;
            while power * 2 <= requested {
                power *= 2;
            }
            size = power;
            while size < requested {
                size += power / parts;
            }
        }
        let segment = match size {
            0..=MIB => 2 * MIB,
            _ if size < 10 * MIB => self.config.large_segment_size,
            _ => size.div_ceil(2 * MIB) * 2 * MIB,
        };
        Request { requested, size, segment, stream }
    }

    /// Whether blocks of equal size are told apart by age of segment.
    fn age_of(&self, segment: &Segment) -> u64 {
        match self.config.order_of_equals {
            OrderOfEquals::Registration => segment.registration,
            OrderOfEquals::Address => 0,
        }
    }

    /// The free blocks of a pool in PyTorch's order, as places in the lists.
    fn free_blocks(&self, small: bool) -> Vec<(usize, usize)> {
        let mut free = Vec::new();
        for (s, segment) in self.segments.iter().enumerate() {
            for (b, block) in segment.blocks.iter().enumerate() {
                if segment.small == small && matches!(block.state, State::Free { .. }) {
                    free.push((s, b));
                }
            }
        }
        free.sort_by_key(|&(s, b)| {
            let (segment, block) = (&self.segments[s], &self.segments[s].blocks[b]);
            (segment.stream, block.size, self.age_of(segment), block.at)
        });
        free
    }

    fn collects(&self) -> bool {
        self.limit.is_some() && self.config.garbage_collection_threshold > 0.0
    }

    fn search(&mut self, request: &Request) -> Option<(usize, usize)> {
        let small = request.size <= MIB;
        if self.collects() {
            self.searches[usize::from(!small)] += 1;
        }
        let (s, b) = self.free_blocks(small).into_iter().find(|&(s, b)| {
            self.segments[s].stream == request.stream && self.segments[s].blocks[b].size >= request.size
        })?;
        let (size, limit) = (self.segments[s].blocks[b].size, self.max_split());
        let wasteful = if request.size < limit {
            size >= limit
        } else {
            size >= request.size + self.config.max_non_split_rounding_size
        };
        (!wasteful).then_some((s, b))
    }

    /// What is tried, in order, when there is no free block.
    fn descend(&mut self, request: &Request) -> Result<(usize, usize), Refusal> {
        if self.collects() {
            self.collect_garbage();
        }
        if let Some(found) = self.ask_driver(request)? {
            return Ok(found);
        }
        if self.release_oversize(request)
            && let Some(found) = self.ask_driver(request)?
        {
            return Ok(found);
        }
        self.wait();
        if self.config.search_after_synchronize
            && let Some(found) = self.search(request)
        {
            return Ok(found);
        }
        self.release_free();
        self.stats.num_alloc_retries += 1;
        if let Some(found) = self.ask_driver(request)? {
            return Ok(found);
        }
        self.stats.num_ooms += 1;
        Err(Refusal::OutOfMemory)
    }

    fn ask_driver(&mut self, request: &Request) -> Result<Option<(usize, usize)>, Refusal> {
        let after = self.reserved() + request.segment;
        if self.limit.is_some_and(|limit| after > limit) {
            return Ok(None);
        }
        let whole = self.config.per_process_memory_fraction * self.total as f64;
        if self.config.throw_on_malloc_oom && after as f64 > whole {
            self.stats.num_oom_rejections += 1;
            return Err(Refusal::Rejected);
        }
        let Some(at) = self.lowest_gap(request.segment) else {
            self.calls.push(format!("!{}", request.segment));
            return Ok(None);
        };
        self.calls.push(format!("+{}", request.segment));
        let small = request.size <= MIB;
        self.stats.segment.increase(small, 1);
        self.stats.reserved_bytes.increase(small, request.segment as i64);
        self.stats.num_device_alloc += 1;
        if request.segment >= self.max_split() {
            self.stats.oversize_segments.increase(1);
        }
        // Not free for anybody else: the caller takes it at once.
        let state = State::Free { since: 0 };
        self.segments.push(Segment {
            at,
            size: request.segment,
            stream: request.stream,
            small,
            registration: self.next_registration,
            blocks: vec![Block { at, size: request.segment, requested: 0, state }],
        });
        self.next_registration += 1;
        Ok(Some((self.segments.len() - 1, 0)))
    }

    /// The driver's rule: the lowest address with room, in units of 2 MiB, while the device has memory left.
    fn lowest_gap(&self, bytes: u64) -> Option<u64> {
        let units = |bytes: u64| bytes.div_ceil(2 * MIB) * 2 * MIB;
        let used: u64 = self.segments.iter().map(|segment| units(segment.size)).sum();
        if used + units(bytes) > self.total {
            return None;
        }
        let mut taken: Vec<_> = self.segments.iter().map(|s| (s.at, s.at + units(s.size))).collect();
        taken.sort_unstable();
        let mut at = BASE;
        for (start, end) in taken {
            if start - at >= units(bytes) {
                break;
            }
            at = end;
        }
        Some(at)
    }

    fn hand_out(&mut self, (s, b): (usize, usize), request: &Request) -> u64 {
        let limit = self.max_split();
        let segment = &mut self.segments[s];
        let small = segment.small;
        let was_split = segment.blocks.len() > 1;
        let rest = segment.blocks[b].size - request.size;
        let splits = if small { rest >= 512 } else { request.size < limit && rest > MIB };
        let (count, bytes) = (&mut self.stats.inactive_split, &mut self.stats.inactive_split_bytes);
        if splits {
            let at = segment.blocks[b].at;
            let since = self.searches[usize::from(!small)];
            let state = State::Free { since };
            // What is left keeps what the block was last asked for.
            let requested = segment.blocks[b].requested;
            segment.blocks.insert(b + 1, Block { at: at + request.size, size: rest, requested, state });
            segment.blocks[b].size = request.size;
            if was_split {
                bytes.decrease(small, request.size as i64);
            } else {
                count.increase(small, 1);
                bytes.increase(small, rest as i64);
            }
        } else if was_split {
            count.decrease(small, 1);
            bytes.decrease(small, segment.blocks[b].size as i64);
        }
        let block = &mut segment.blocks[b];
        block.state = State::Held { uses: Vec::new() };
        block.requested = request.requested;
        let (at, size) = (block.at, block.size);
        self.stats.allocation.increase(small, 1);
        self.stats.allocated_bytes.increase(small, size as i64);
        self.stats.active.increase(small, 1);
        self.stats.active_bytes.increase(small, size as i64);
        self.stats.requested_bytes.increase(small, request.requested as i64);
        if size >= limit {
            self.stats.oversize_allocations.increase(1);
        }
        at
    }

    /// Makes a block that waits for nothing any more free, and one with its free neighbours.
    fn complete_free(&mut self, at: u64) {
        let (s, b) = self.find(at);
        let segment = &mut self.segments[s];
        let small = segment.small;
        let Block { size, requested, .. } = segment.blocks[b];
        let is_free = |block: &Block| matches!(block.state, State::Free { .. });
        let (mut count, mut bytes) = (0, 0);
        let (mut first, mut last) = (b, b);
        if b > 0 && is_free(&segment.blocks[b - 1]) {
            first -= 1;
        }
        if b + 1 < segment.blocks.len() && is_free(&segment.blocks[b + 1]) {
            last += 1;
        }
        for (i, block) in segment.blocks[first..=last].iter().enumerate() {
            if first + i != b {
                count -= 1;
                bytes -= block.size as i64;
            }
        }
        let whole = Block {
            at: segment.blocks[first].at,
            size: segment.blocks[first..=last].iter().map(|block| block.size).sum(),
            requested,
            state: State::Free { since: self.searches[usize::from(!small)] },
        };
        if last - first + 1 < segment.blocks.len() {
            count += 1;
            bytes += whole.size as i64;
        }
        segment.blocks.splice(first..=last, [whole]);
        net(&mut self.stats.inactive_split, small, count);
        net(&mut self.stats.inactive_split_bytes, small, bytes);
        self.stats.active.decrease(small, 1);
        self.stats.active_bytes.decrease(small, size as i64);
        self.stats.requested_bytes.decrease(small, requested as i64);
    }

    /// Takes an event off a block.
    fn passed(&mut self, at: u64) {
        let (s, b) = self.find(at);
        let State::Waiting { events } = &mut self.segments[s].blocks[b].state else { panic!("it waits") };
        *events -= 1;
        if *events == 0 {
            self.complete_free(at);
        }
    }

    /// Looks at each stream's events up to the first that has not passed.
    fn poll(&mut self) {
        let streams: Vec<u64> = self.events.keys().copied().collect();
        for stream in streams {
            let done = self.work.get(&stream).map_or(0, |work| work.done);
            while let Some(&(place, at)) = self.events[&stream].first() {
                if place > done {
                    break;
                }
                self.events.get_mut(&stream).unwrap().remove(0);
                self.passed(at);
            }
        }
    }

    /// Waits for all events: the streams have then run up to them.
    fn wait(&mut self) {
        self.stats.num_sync_all_streams += 1;
        for (stream, events) in std::mem::take(&mut self.events) {
            for (place, at) in events {
                let work = self.work.entry(stream).or_default();
                work.done = work.done.max(place);
                self.passed(at);
            }
        }
    }

    fn release_free(&mut self) {
        for small in [false, true] {
            let whole: Vec<u64> = self.whole_segments(small);
            for at in whole {
                self.release(at);
            }
        }
    }

    /// The wholly free segments of a pool, in its order.
    fn whole_segments(&self, small: bool) -> Vec<u64> {
        let free = self.free_blocks(small).into_iter();
        free.filter(|&(s, _)| self.segments[s].blocks.len() == 1).map(|(s, _)| self.segments[s].at).collect()
    }

    fn release(&mut self, at: u64) -> u64 {
        let s = self.segments.iter().position(|segment| segment.at == at).unwrap();
        let Segment { size, small, .. } = self.segments.remove(s);
        self.calls.push(format!("-{}", at - BASE));
        self.stats.num_device_free += 1;
        self.stats.segment.decrease(small, 1);
        self.stats.reserved_bytes.decrease(small, size as i64);
        if size >= self.max_split() {
            self.stats.oversize_segments.decrease(1);
        }
        size
    }

    fn release_oversize(&mut self, request: &Request) -> bool {
        let Some(limit) = self.config.max_split_size else { return false };
        let wanted = request.size.max(limit);
        let free: Vec<_> = self
            .free_blocks(request.size <= MIB)
            .into_iter()
            .filter(|&(s, _)| self.segments[s].stream == request.stream)
            .map(|(s, b)| {
                let segment = &self.segments[s];
                (segment.blocks[b].size, segment.at, segment.blocks.len() == 1)
            })
            .collect();
        if let Some(&(_, at, whole)) = free.iter().find(|(size, ..)| *size >= wanted) {
            if whole {
                self.release(at);
            }
            return whole;
        }
        let mut released = 0;
        for &(size, at, whole) in free.iter().rev() {
            if released < wanted && size >= limit && whole {
                released += self.release(at);
            }
        }
        released >= wanted
    }

    fn collect_garbage(&mut self) {
        let threshold = self.config.garbage_collection_threshold * self.limit.unwrap() as f64;
        let Some(target) = self.reserved().checked_sub(threshold as u64).filter(|target| *target > 0) else {
            return;
        };
        let mut freed = 0;
        let mut candidates: Vec<(u64, u64)> = Vec::new();
        for at in self.whole_segments(false) {
            let segment = self.segments.iter().find(|segment| segment.at == at).unwrap();
            let State::Free { since } = segment.blocks[0].state else { panic!("it is free") };
            candidates.push((at, self.searches[1] - since));
        }
        while freed < target && !candidates.is_empty() {
            let ages = candidates.iter().map(|(_, age)| *age).sum::<u64>();
            let average = ages as f64 / candidates.len() as f64;
            let (old, young): (Vec<_>, Vec<_>) =
                candidates.into_iter().partition(|(_, age)| *age as f64 >= average);
            for (at, _) in old {
                freed += self.release(at);
            }
            candidates = young;
        }
    }
}

/// A change that is one increase or one decrease.
fn net(array: &mut StatArray, small: bool, amount: i64) {
    if amount > 0 {
        array.increase(small, amount);
    } else {
        array.decrease(small, -amount);
    }
}
