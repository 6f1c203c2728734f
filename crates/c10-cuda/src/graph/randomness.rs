#![expect(unsafe_code, reason = "copies seeds and offsets out of pinned memory of its own")]
//! The random state that a graph draws from: which generators, and how much of each a replay takes.
//!
//! A replay must not repeat the numbers of the one before. So captured work reads seed and offset from memory of the
//! device, 16 bytes for each generator, which every replay writes first, in the order of its stream.

use std::ptr;

use c10_core::{DataPtr, DeviceIndex};

use crate::alloc::CachingAllocator;
use crate::driver::{CopyEnd, DevicePtr, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::generator::{CudaGenerator, SharedState};
use crate::runtime::Runtime;
use crate::sync::Arc;

/// The generators of a capture.
#[derive(Debug)]
pub(super) struct Draws(Vec<SharedState>);

/// What one graph draws, and where from.
#[derive(Debug, Default)]
pub(super) struct GraphDraws(Vec<Draw>);

/// What a replay takes of a generator.
#[derive(Clone, Debug)]
struct Draw {
    generator: SharedState,
    /// Seed and offset, as the work reads them.
    memory: Arc<DataPtr>,
    /// By how much a replay moves the generator's offset.
    increment: u64,
}

impl Draws {
    /// The default generator of a device, and these.
    pub(super) fn new(runtime: &Runtime, device: DeviceIndex, others: Vec<CudaGenerator>) -> Result<Self> {
        let mut states = vec![runtime.default_generator(device)?.state()];
        for generator in others {
            if generator.device() != device {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "a generator of device {} cannot be registered with a graph of device {device}",
                        generator.device()
                    ),
                ));
            }
            let state = generator.state();
            if !states.iter().any(|known| known.is(&state)) {
                states.push(state);
            }
        }
        Ok(Self(states))
    }

    pub(super) fn begin(&self, allocator: &CachingAllocator, stream: StreamHandle, capture: u64) {
        self.0.iter().for_each(|state| state.begin_capture(allocator, stream, capture));
    }

    /// What the capture has drawn.
    pub(super) fn end(&self, capture: u64) -> GraphDraws {
        let ended = self.0.iter().filter_map(|state| {
            let (memory, increment) = state.end_capture(capture)?;
            Some(Draw { generator: state.clone(), memory: Arc::new(memory), increment })
        });
        GraphDraws(ended.collect())
    }
}

impl GraphDraws {
    /// Writes seeds and offsets for the next replay, in the order of its stream, and moves the generators on.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an offset beyond 2^64; what the driver and the allocator of pinned memory
    /// report. The generators are as they were then.
    pub(super) fn write(&self, allocator: &CachingAllocator, on: StreamHandle) -> Result<()> {
        for (at, draw) in self.0.iter().enumerate() {
            let written = draw.generator.advance(draw.increment).and_then(|numbers| {
                write_one(allocator, on, draw, numbers)
                    .inspect_err(|_| draw.generator.go_back(draw.increment))
            });
            if written.is_err() {
                self.0[..at].iter().for_each(|draw| draw.generator.go_back(draw.increment));
                return written;
            }
        }
        Ok(())
    }

    /// Draws as another graph does from here on, from its memory.
    pub(super) fn follow(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    /// Moves the generators back by a replay that did not come to be.
    pub(super) fn go_back(&self) {
        self.0.iter().for_each(|draw| draw.generator.go_back(draw.increment));
    }
}

fn write_one(allocator: &CachingAllocator, on: StreamHandle, draw: &Draw, numbers: [u64; 2]) -> Result<()> {
    let pinned = allocator.staging()?;
    let source = pinned.allocate(16)?;
    let bytes = numbers.map(u64::to_le_bytes);
    // SAFETY: the block is ours alone, of at least 16 bytes, and no copy of it is under way: it was not handed out
    // before those that used it had passed.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast::<u8>(), source.as_ptr(), 16) };
    // Before the copy, so that no failure leaves one that reads memory of another.
    pinned.record_event_of(&source, on)?;
    let to = CopyEnd::Device(DevicePtr(draw.memory.as_ptr().addr() as u64));
    let driver = allocator.runtime().driver();
    // SAFETY: the device's 16 bytes are the graph's, whose launches the stream has been made to wait for; the host's
    // are not handed out anew before the stream has passed.
    Ok(unsafe { driver.copy(to, CopyEnd::Host(source.as_ptr()), 16, on) }?)
}
