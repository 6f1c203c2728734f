//! What the page holds: one device's [`Story`] as JSON, its long lists as [`Columns`].

use std::collections::BTreeMap;

use serde::Serialize;

use super::columns::Columns;
use super::owners::{Category, Owners, line, own_frames};
use super::story::Story;
use crate::snapshot::{PoolId, StackId, Stacks};

/// Frames of a stack that are kept, from the innermost.
const FRAMES: usize = 160;

/// A page's data.
#[derive(Debug, Serialize)]
pub(super) struct PageData {
    pub(super) file: String,
    pub(super) devices: Vec<DeviceData>,
}

/// The part of one device.
#[derive(Debug, Serialize)]
pub(super) struct DeviceData {
    pub(super) device: usize,
    /// A line on what ran.
    pub(super) about: String,
    pub(super) notes: Vec<String>,
    events: usize,
    categories: Vec<(&'static str, &'static str)>,
    /// Place, operator and category; the first is that of blocks without a stack.
    owners: Vec<(String, String, usize)>,
    /// By the number of the stack.
    owner_of: Vec<usize>,
    /// Lists of numbers of frames.
    stacks: Vec<Vec<usize>>,
    frames: Vec<String>,
    streams: Vec<String>,
    pools: Vec<String>,
    /// Event, bytes asked for, bytes free on the device.
    refusals: Vec<(usize, u64, u64)>,
    /// Addresses and sizes count in these.
    unit: u64,
    block_count: usize,
    /// from, length, length of the wait for other streams, address, size, what is not asked for, stream, stack
    blocks: String,
    segment_count: usize,
    /// from, length, address, size, stream, flags, pool
    segments: String,
    /// Steps in microseconds.
    times: Option<String>,
}

/// Numbers values in the order in which they come.
struct Numbering<T>(BTreeMap<T, usize>, Vec<T>);

impl<T> Default for Numbering<T> {
    fn default() -> Self {
        Self(BTreeMap::new(), Vec::new())
    }
}

impl<T: Ord + Copy> Numbering<T> {
    fn of(&mut self, value: T) -> usize {
        let next = self.1.len();
        let Self(numbers, values) = self;
        *numbers.entry(value).or_insert_with(|| {
            values.push(value);
            next
        })
    }
}

impl DeviceData {
    pub(super) fn new(device: usize, story: &Story, stacks: &Stacks, owners: &Owners) -> Self {
        let unit = if story.blocks.iter().all(|block| is_aligned(block.address, block.size))
            && story.segments.iter().all(|segment| is_aligned(segment.address, segment.size))
        {
            512
        } else {
            1
        };
        let mut streams = Numbering::default();
        let mut pools = Numbering::default();
        // The first of them needs no mention.
        pools.of((0, 0));
        let mut used = Numbering::default();
        let blocks = blocks(story, unit, &mut streams, &mut used);
        let segments = segments(story, unit, &mut streams, &mut pools);
        let (stacks, frames) = stack_lists(&used.1, stacks);
        let owner = |owner: &super::owners::Owner| {
            let category = Category::ALL.iter().position(|category| *category == owner.category);
            (owner.place.clone(), owner.operator.clone(), category.unwrap_or(0))
        };
        let times = (!story.times.is_empty()).then(|| times(&story.times).to_base64());
        Self {
            device,
            about: String::new(),
            notes: Vec::new(),
            events: story.events,
            categories: Category::ALL.map(Category::words).to_vec(),
            owners: owners.all.iter().map(owner).collect(),
            owner_of: used.1.iter().map(|stack| owners.of(Some(*stack))).collect(),
            stacks,
            frames,
            streams: streams.1.iter().map(|stream| stream_name(*stream)).collect(),
            pools: pools.1.iter().map(|(first, second): &PoolId| format!("({first}, {second})")).collect(),
            refusals: story.refusals.iter().map(|r| (r.event, r.size, r.device_free)).collect(),
            unit,
            block_count: story.blocks.len(),
            blocks: blocks.to_base64(),
            segment_count: story.segments.len(),
            segments: segments.to_base64(),
            times,
        }
    }
}

fn is_aligned(address: u64, size: u64) -> bool {
    address.is_multiple_of(512) && size.is_multiple_of(512)
}

/// Streams are the driver's pointers; JavaScript's numbers do not hold them all.
fn stream_name(stream: u64) -> String {
    if stream < 1 << 16 { stream.to_string() } else { format!("{stream:#x}") }
}

fn blocks(
    story: &Story,
    unit: u64,
    streams: &mut Numbering<u64>,
    stacks: &mut Numbering<StackId>,
) -> Columns {
    let mut columns = Columns::default();
    let (mut from, mut address) = (0, 0);
    for block in &story.blocks {
        columns.number((block.from - from) as u64);
        columns.number((block.to - block.from) as u64);
        columns.number((block.to - block.given_back) as u64);
        columns.difference(block.address / unit, address);
        columns.number(block.size / unit);
        columns.difference(block.size, block.requested);
        columns.number(streams.of(block.stream) as u64);
        columns.number(block.stack.map_or(0, |stack| stacks.of(stack) as u64 + 1));
        (from, address) = (block.from, block.address / unit);
    }
    columns
}

fn segments(
    story: &Story,
    unit: u64,
    streams: &mut Numbering<u64>,
    pools: &mut Numbering<PoolId>,
) -> Columns {
    let mut columns = Columns::default();
    let (mut from, mut address) = (0, 0);
    for segment in &story.segments {
        columns.number((segment.from - from) as u64);
        columns.number((segment.to - segment.from) as u64);
        columns.difference(segment.address / unit, address);
        columns.number(segment.size / unit);
        columns.number(streams.of(segment.stream) as u64);
        columns.number(u64::from(segment.is_small) | u64::from(segment.is_expandable) << 1);
        columns.number(pools.of(segment.pool) as u64);
        (from, address) = (segment.from, segment.address / unit);
    }
    columns
}

fn times(times: &[u64]) -> Columns {
    let mut columns = Columns::default();
    let mut last = 0;
    for &time in times {
        columns.number(time - last);
        last = time;
    }
    columns
}

/// The stacks that blocks have, as lists of numbers of frames, and the frames.
fn stack_lists(used: &[StackId], stacks: &Stacks) -> (Vec<Vec<usize>>, Vec<String>) {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut frames = Vec::new();
    let lists = used.iter().map(|&stack| {
        let lines = own_frames(stacks.frames(stack)).take(FRAMES).map(line);
        lines
            .map(|line| {
                *numbers.entry(line.clone()).or_insert_with(|| {
                    frames.push(line);
                    frames.len() - 1
                })
            })
            .collect()
    });
    let lists = lists.collect();
    (lists, frames)
}
