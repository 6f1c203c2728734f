//! [`Player`]: a recorded device, simulated, with our allocator on it. It carries a history out, call by call.
//!
//! Before an allocation the simulated driver can be told the addresses of the segments that the recording
//! obtained for it. What the allocator then asks of the driver, and where it puts the block, is its own decision.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use c10_core::{DataPtr, DeviceIndex, DeviceType, Stream};
use c10_cuda::alloc::{
    BlockInfo, BlockState, MempoolId, SegmentInfo, Snapshot, TraceAction, TraceEntry, TraceTracker,
};
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver, Status, StreamHandle};
use c10_cuda::plan::{PlanStats, Recording};
use c10_cuda::{CachingAllocator, Config, DeviceStats, Error, ErrorKind, Runtime};

use super::address_map::AddressMap;
use super::history::History;
use super::lane::Lane;
use super::recorder::Recorder;
use super::segments::SegmentChange;
use crate::snapshot::{self, Event, InitialSegment, Stacks};

/// What came of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allocated {
    /// The block's address.
    At(u64),
    /// PyTorch's text.
    OutOfMemory(String),
}

/// A device to play on.
#[derive(Clone, Debug)]
pub(super) struct Stage<'a> {
    pub(super) config: Config,
    /// The device's number.
    pub(super) device: DeviceIndex,
    /// Its memory, in bytes.
    pub(super) memory: u64,
    /// In order. Streams are made in this order, because the allocator goes through them in theirs.
    pub(super) lanes: &'a [Lane],
    /// Whether [`Player::segment_changes`] is wanted.
    pub(super) keeps_changes: bool,
    /// Whether [`Player::recorded`] is wanted: then the stacks of the recording.
    pub(super) records: Option<&'a Arc<Stacks>>,
}

/// A device of a recording, simulated. It holds what is live now, and nothing of what was before.
pub(super) struct Player {
    device: DeviceIndex,
    driver: Arc<SimDriver>,
    runtime: Runtime,
    allocator: CachingAllocator,
    /// By the address that they had in the recording.
    live: AddressMap<DataPtr>,
    /// Blocks that were given back while other streams used them, by recorded address.
    waiting: AddressMap<Waiting>,
    /// In the lanes' order.
    streams: Vec<(Lane, Stream)>,
    recorder: Option<Recorder>,
    /// Since they were last taken, where they are wanted.
    changes: Changes,
}

/// What a tracker of the allocator's has seen.
type Changes = Arc<Mutex<Vec<SegmentChange>>>;

/// A block that was given back while other streams used it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Where it is.
    address: u64,
    /// Stands for those streams: it completes when the recording says that they had passed.
    stream: StreamHandle,
}

impl Player {
    /// An empty device.
    pub(super) fn new(stage: &Stage<'_>) -> Result<Self, Error> {
        let device = stage.device;
        // The devices before it are there, so that it has its own number in texts.
        let mut devices = vec![0; usize::from(device)];
        devices.push(stage.memory);
        // When streams had passed is the recording's to say, and not for a free to bring about.
        let reservable_bytes = u64::MAX;
        let driver = SimDriver::new(SimConfig {
            devices,
            free_waits: false,
            reservable_bytes,
            ..SimConfig::default()
        });
        let runtime = Runtime::new(driver.clone());
        let allocator = CachingAllocator::with_runtime(runtime.clone(), stage.config.clone())?;
        let changes = Arc::default();
        if stage.keeps_changes {
            allocator.attach_segment_tracker(tracker(&changes));
        }
        let mut streams = Vec::with_capacity(stage.lanes.len());
        for lane in stage.lanes {
            let stream = match *lane {
                Lane::FIRST => Stream::default_of(DeviceType::Cuda, device),
                _ => runtime.external_stream(driver.stream_create(device, 0)?)?,
            };
            streams.push((*lane, stream));
        }
        Ok(Self {
            device,
            driver,
            runtime,
            allocator,
            live: AddressMap::default(),
            waiting: AddressMap::default(),
            streams,
            recorder: None,
            changes,
        })
    }

    /// Puts the device into the state in which the recording began, at its addresses.
    pub(super) fn restore(&mut self, history: &History<'_>) -> Result<(), Error> {
        let (initial, bases) = (history.initial, history.growable.bases());
        let fixed = initial.segments.iter().filter(|segment| !segment.is_expandable);
        let fixed: Vec<_> = fixed.map(|segment| segment.address).collect();
        self.driver.script_malloc_addresses(self.device, addresses(&fixed));
        self.driver.script_reserve_addresses(self.device, addresses(bases));
        let mut segments = Vec::with_capacity(initial.segments.len());
        for segment in &initial.segments {
            let stream = self.stream(Lane { pool: segment.pool_id, stream: segment.stream });
            segments.push(segment_info(segment, self.runtime.handle(stream)?));
        }
        for ptr in self.allocator.restore(self.device, &segments)? {
            self.live.insert(address_of(&ptr), ptr);
        }
        for block in initial.live().filter(|block| block.state == snapshot::BlockState::PendingFree) {
            self.free(block.address, false)?;
        }
        self.segment_changes();
        Ok(())
    }

    /// Begins to record, if the stage says so.
    pub(super) fn record(&mut self, stage: &Stage<'_>) {
        self.recorder = stage.records.map(|stacks| Recorder::start(&self.allocator, stacks));
    }

    /// Says which event is carried out next.
    pub(super) fn at(&self, event: &Event) {
        if let Some(recorder) = &self.recorder {
            recorder.at(event);
        }
    }

    /// What was recorded, on the streams of the recording.
    pub(super) fn recorded(&mut self) -> Result<Option<Snapshot>, Error> {
        let Some(recorder) = self.recorder.take() else { return Ok(None) };
        let mut streams = HashMap::new();
        for (lane, stream) in &self.streams {
            streams.insert(self.runtime.handle(*stream)?.raw, lane.stream);
        }
        Ok(Some(recorder.finish(&self.allocator, &streams)))
    }

    /// Carries out an allocation that the recording placed at `recorded`. The segments that it obtains are put
    /// at the addresses `segments`, as far as the replay holds nothing else there.
    pub(super) fn allocate(
        &mut self,
        recorded: u64,
        bytes: u64,
        lane: Lane,
        segments: &[SegmentChange],
    ) -> Result<Allocated, Error> {
        let stream = self.stream(lane);
        if !segments.is_empty() {
            self.script(segments);
        }
        let mut allocated = self.allocator.allocate_on(bytes, stream);
        if !segments.is_empty() {
            self.script(&[]);
            if allocated.as_ref().is_err_and(is_misplaced) {
                allocated = self.allocator.allocate_on(bytes, stream);
            }
        }
        match allocated {
            Ok(ptr) => {
                let address = address_of(&ptr);
                self.live.insert(recorded, ptr);
                Ok(Allocated::At(address))
            }
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                Ok(Allocated::OutOfMemory(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// Tells the driver the addresses of what the next request obtains, as far as it obtains that.
    fn script(&self, obtained: &[SegmentChange]) {
        let of_kind = |is_pages: bool| -> Vec<_> {
            let changes = obtained.iter().filter(|change| change.is_pages == is_pages);
            changes.map(|change| DevicePtr(change.address)).collect()
        };
        self.driver.script_malloc_addresses(self.device, of_kind(false));
        // A segment that is new begins with the first pages that are mapped.
        let mut pages = of_kind(true);
        pages.truncate(1);
        self.driver.script_reserve_addresses(self.device, pages);
    }

    /// Gives back the block that the recording had at an address. Where it `completes` at once, that is all, and
    /// the block's own address results; else another stream uses it until [`complete`](Self::complete).
    pub(super) fn free(&mut self, recorded: u64, completes: bool) -> Result<Option<u64>, Error> {
        // A request that was refused here has no block.
        let Some(ptr) = self.live.remove(&recorded) else { return Ok(None) };
        let address = address_of(&ptr);
        if completes {
            return Ok(Some(address));
        }
        let stream = self.driver.stream_create(self.device, 0)?;
        self.allocator.record_stream(&ptr, self.runtime.external_stream(stream)?)?;
        self.waiting.insert(recorded, Waiting { address, stream });
        Ok(None)
    }

    /// Lets the streams pass that a freed block waits for, and gives the block's own address.
    pub(super) fn complete(&mut self, recorded: u64) -> Result<Option<u64>, Error> {
        let Some(Waiting { address, stream }) = self.waiting.remove(&recorded) else { return Ok(None) };
        self.driver.complete_stream(stream);
        self.driver.stream_destroy(stream)?;
        // Nobody asks what the streams did.
        self.driver.take_work();
        Ok(Some(address))
    }

    /// Gives back every segment that is wholly free, as `torch.cuda.empty_cache` does.
    pub(super) fn empty_cache(&mut self) -> Result<(), Error> {
        self.allocator.empty_cache()
    }

    /// Gives back one segment, if it is wholly free.
    pub(super) fn release_segment(&mut self, address: u64) -> Result<(), Error> {
        self.allocator.release_segment(DevicePtr(address), self.device).map(drop)
    }

    /// The segments that came and went since the last time.
    pub(super) fn segment_changes(&mut self) -> Vec<SegmentChange> {
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether some block waits for other streams.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Where the block is that the recording had at an address and that waits.
    pub(super) fn waiting_at(&self, recorded: u64) -> Option<u64> {
        self.waiting.get(&recorded).map(|waiting| waiting.address)
    }

    /// Bytes that the program holds, and bytes of all segments.
    pub(super) fn bytes(&self) -> Result<(u64, u64), Error> {
        self.allocator.memory_in_use(self.device)
    }

    /// How often the driver was asked for memory, to map some, or to take it back.
    pub(super) fn memory_calls(&self) -> u64 {
        const CALLS: [&str; 9] =
            ["malloc", "free", "reserve", "create", "map", "set_access", "unmap", "release", "free_range"];
        CALLS.iter().map(|call| self.driver.call_count(call)).sum()
    }

    /// The statistics now.
    pub(super) fn stats(&self) -> Result<DeviceStats, Error> {
        // No segment is there; blocks whose streams have passed are freed.
        self.allocator.release_segment(DevicePtr(0), self.device)?;
        self.allocator.device_stats(self.device)
    }

    /// Records what is asked for from here on.
    pub(super) fn begin_recording(&self) -> Result<(), Error> {
        self.allocator.begin_recording(self.device)
    }

    /// What was asked for since.
    pub(super) fn end_recording(&self) -> Result<Recording, Error> {
        self.allocator.end_recording(self.device)
    }

    /// How the plan does, where there is one.
    pub(super) fn plan_stats(&self) -> Result<Option<PlanStats>, Error> {
        self.allocator.plan_stats(self.device)
    }

    fn stream(&self, lane: Lane) -> Stream {
        let at = self.streams.binary_search_by_key(&lane, |(lane, _)| *lane);
        self.streams[at.expect("the stage names every lane of the history")].1
    }
}

/// Whether the driver could not put a segment where it was told to, because something else is there.
fn is_misplaced(error: &Error) -> bool {
    error.driver().is_some_and(|driver| {
        matches!(driver.call, "malloc" | "reserve") && driver.status == Status::InvalidValue
    })
}

/// Notes what the allocator obtains and gives back.
fn tracker(changes: &Changes) -> TraceTracker {
    let changes = Arc::clone(changes);
    Arc::new(move |entry: &TraceEntry| {
        let (obtained, is_pages) = match entry.action {
            TraceAction::SegmentAlloc => (true, false),
            TraceAction::SegmentFree => (false, false),
            TraceAction::SegmentMap => (true, true),
            TraceAction::SegmentUnmap => (false, true),
            _ => return,
        };
        let change = SegmentChange { obtained, is_pages, address: entry.address, bytes: entry.size };
        changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    })
}

fn addresses(of: &[u64]) -> Vec<DevicePtr> {
    of.iter().map(|address| DevicePtr(*address)).collect()
}

fn address_of(ptr: &DataPtr) -> u64 {
    ptr.as_ptr().addr() as u64
}

fn segment_info(segment: &InitialSegment, stream: StreamHandle) -> SegmentInfo {
    let blocks = segment.blocks.iter().map(|block| {
        let state = match block.state {
            snapshot::BlockState::Inactive => BlockState::Inactive,
            // One that waits is given back when all stand.
            snapshot::BlockState::Allocated | snapshot::BlockState::PendingFree => {
                BlockState::ActiveAllocated
            }
        };
        BlockInfo::new(block.size, block.requested_size, state)
    });
    SegmentInfo {
        stream,
        pool: MempoolId::DEFAULT,
        address: DevicePtr(segment.address),
        registration_counter: 0,
        total_size: segment.total_size,
        requested_size: 0,
        allocated_size: 0,
        active_size: 0,
        is_large: !segment.is_small,
        is_expandable: segment.is_expandable,
        blocks: blocks.collect(),
        context: None,
    }
}
