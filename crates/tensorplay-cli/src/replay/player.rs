//! [`Player`]: a recorded device, simulated, with our allocator on it. It carries a history out, event by event.
//!
//! Before an allocation the simulated driver is told the addresses of the segments that the recording obtained
//! for it. What the allocator then asks of the driver, and where it puts the block, is its own decision.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use c10_core::{DataPtr, DeviceType, Stream};
use c10_cuda::alloc::{BlockInfo, BlockState, SegmentInfo};
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver, StreamHandle};
use c10_cuda::{CachingAllocator, Config, DeviceStats, Error, ErrorKind, Runtime};

use crate::snapshot::{self, Event, InitialSegment, InitialState};

/// A segment that came from the driver or went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentChange {
    /// Whether it came.
    pub(super) obtained: bool,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// What came of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allocated {
    /// The block's address.
    At(u64),
    /// PyTorch's text.
    OutOfMemory(String),
}

/// A device of a recording, simulated.
pub(super) struct Player {
    driver: Arc<SimDriver>,
    runtime: Runtime,
    allocator: CachingAllocator,
    /// By the address that they had in the recording.
    live: HashMap<u64, DataPtr>,
    /// Blocks that were given back while other streams used them, by recorded address: a stream of ours that
    /// stands for those, and completes when the recording says that they had passed.
    waiting: HashMap<u64, StreamHandle>,
    /// By the recording's number.
    streams: HashMap<u64, Stream>,
}

impl Player {
    /// An empty device.
    pub(super) fn new(config: Config, device_memory: u64) -> Result<Self, Error> {
        let driver = SimDriver::new(SimConfig::with_bytes(device_memory).log_calls(usize::MAX));
        let runtime = Runtime::new(driver.clone());
        let allocator = CachingAllocator::with_runtime(runtime.clone(), config)?;
        let streams = HashMap::from([(0, Stream::default_of(DeviceType::Cuda, 0))]);
        Ok(Self { driver, runtime, allocator, live: HashMap::new(), waiting: HashMap::new(), streams })
    }

    /// Puts the device into the state in which the recording began, at its addresses.
    pub(super) fn restore(&mut self, initial: &InitialState) -> Result<(), Error> {
        let addresses = initial.segments.iter().map(|segment| DevicePtr(segment.address)).collect();
        self.driver.script_malloc_addresses(0, addresses);
        let mut segments = Vec::with_capacity(initial.segments.len());
        for segment in &initial.segments {
            let stream = self.stream(segment.stream)?;
            segments.push(segment_info(segment, self.runtime.handle(stream)?));
        }
        for ptr in self.allocator.restore(0, &segments)? {
            self.live.insert(address_of(&ptr), ptr);
        }
        for block in initial.live().filter(|block| block.state == snapshot::BlockState::PendingFree) {
            self.free(block.address, false)?;
        }
        self.driver.take_calls();
        Ok(())
    }

    /// Allocates what was live when the recording began, as a program would from an empty device.
    pub(super) fn allocate_initial(&mut self, initial: &InitialState) -> Result<Allocated, Error> {
        for segment in &initial.segments {
            let live = segment.blocks.iter().filter(|block| block.state != snapshot::BlockState::Inactive);
            for block in live {
                if let refused @ Allocated::OutOfMemory(_) =
                    self.allocate(block.address, block.requested_size, segment.stream, &[])?
                {
                    return Ok(refused);
                }
                if block.state == snapshot::BlockState::PendingFree {
                    self.free(block.address, false)?;
                }
            }
        }
        Ok(Allocated::At(0))
    }

    /// Carries out an allocation that the recording placed at `recorded`, where it first obtained segments at
    /// the addresses `segments`.
    pub(super) fn allocate(
        &mut self,
        recorded: u64,
        bytes: u64,
        stream: u64,
        segments: &[u64],
    ) -> Result<Allocated, Error> {
        let stream = self.stream(stream)?;
        self.driver.script_malloc_addresses(0, segments.iter().map(|address| DevicePtr(*address)).collect());
        let allocated = self.allocator.allocate_on(bytes, stream);
        self.driver.script_malloc_addresses(0, Vec::new());
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

    /// Gives back the block that the recording had at an address. Unless it `completes` at once, another stream
    /// uses it until [`complete`](Self::complete).
    pub(super) fn free(&mut self, recorded: u64, completes: bool) -> Result<(), Error> {
        let Some(ptr) = self.live.remove(&recorded) else { return Ok(()) };
        if !completes && !ptr.is_null() {
            let handle = self.driver.stream_create(0, 0)?;
            self.allocator.record_stream(&ptr, self.runtime.external_stream(handle)?)?;
            self.waiting.insert(recorded, handle);
        }
        drop(ptr);
        Ok(())
    }

    /// Lets the streams pass that a freed block waits for.
    pub(super) fn complete(&mut self, recorded: u64) -> Result<(), Error> {
        if let Some(handle) = self.waiting.remove(&recorded) {
            self.driver.complete_stream(handle);
            self.driver.stream_destroy(handle)?;
        }
        Ok(())
    }

    /// Gives segments back as the recording did: all that are wholly free where it gave back just those, in our
    /// order; else the same ones. Says whether it was all.
    pub(super) fn release(&mut self, recorded: &[SegmentChange]) -> Result<bool, Error> {
        let segments = self.allocator.snapshot(false).segments;
        let idle = segments.iter().filter(|segment| segment.active_size == 0);
        let idle: BTreeSet<u64> = idle.map(|segment| segment.address.0).collect();
        if recorded.iter().map(|change| change.address).collect::<BTreeSet<_>>() == idle {
            self.allocator.empty_cache()?;
            return Ok(true);
        }
        for change in recorded {
            self.allocator.release_segment(DevicePtr(change.address), 0)?;
        }
        Ok(false)
    }

    /// What the driver was asked for since the last time.
    pub(super) fn segment_changes(&mut self) -> Vec<SegmentChange> {
        let calls = self.driver.take_calls().into_iter();
        let calls = calls.filter(|call| call.status.is_none() && matches!(call.name, "malloc" | "free"));
        calls
            .map(|call| SegmentChange {
                obtained: call.name == "malloc",
                address: call.ptr.0,
                bytes: call.bytes,
            })
            .collect()
    }

    /// The statistics now.
    pub(super) fn stats(&self) -> Result<DeviceStats, Error> {
        self.allocator.device_stats(0)
    }

    fn stream(&mut self, recorded: u64) -> Result<Stream, Error> {
        if let Some(stream) = self.streams.get(&recorded) {
            return Ok(*stream);
        }
        let stream = self.runtime.external_stream(self.driver.stream_create(0, 0)?)?;
        self.streams.insert(recorded, stream);
        Ok(stream)
    }
}

fn address_of(ptr: &DataPtr) -> u64 {
    ptr.as_ptr().addr() as u64
}

fn segment_info(segment: &InitialSegment, stream: StreamHandle) -> SegmentInfo {
    let blocks = segment.blocks.iter().map(|block| {
        let state = match block.state {
            snapshot::BlockState::Inactive => BlockState::Inactive,
            // One that waits is given back when all stand.
            _ => BlockState::ActiveAllocated,
        };
        BlockInfo::new(block.size, block.requested_size, state)
    });
    SegmentInfo {
        stream,
        address: DevicePtr(segment.address),
        registration_counter: 0,
        total_size: segment.total_size,
        requested_size: 0,
        allocated_size: 0,
        active_size: 0,
        is_large: !segment.is_small,
        blocks: blocks.collect(),
    }
}

impl SegmentChange {
    /// What a segment event of the recording says.
    pub(super) fn recorded(event: &Event, obtained: bool) -> Self {
        Self { obtained, address: event.address, bytes: event.size }
    }
}
