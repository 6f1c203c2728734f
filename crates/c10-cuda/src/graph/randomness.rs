#![expect(unsafe_code, reason = "copies seeds and offsets out of pinned memory of its own")]
//! The random state that a graph draws from: which generators, and how much of each a replay takes.
//!
//! A replay must not repeat the numbers of the one before. So captured work reads seed and offset from
//! [memory of the device](SeedMemory) that every replay writes first, in the order of its stream.

use std::ptr;

use c10_core::DeviceIndex;

use super::seeds::SeedMemory;
use crate::alloc::CachingAllocator;
use crate::driver::{CopyEnd, StreamHandle};
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
    memory: Arc<SeedMemory>,
    /// By how much a replay moves the generator's offset.
    increment: u64,
}

impl Draws {
    /// The default generator of a device, and these.
    pub(super) fn new(runtime: &Runtime, device: DeviceIndex, others: Vec<CudaGenerator>) -> Result<Self> {
        let mut states = vec![runtime.default_generator(device)?.state()];
        for generator in others {
            if !generator.is_of(runtime) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "a generator of another runtime cannot be registered with a graph",
                ));
            }
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

    pub(super) fn begin(&self, allocator: &CachingAllocator, device: DeviceIndex, capture: u64) {
        self.0.iter().for_each(|state| state.begin_capture(allocator, device, capture));
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
    /// Moves the generators on by a replay. Seed and offset of each from before.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an offset beyond 2^64. The generators are as they were then.
    pub(super) fn take(&self) -> Result<Vec<[u64; 2]>> {
        let mut taken = Vec::with_capacity(self.0.len());
        for draw in &self.0 {
            match draw.generator.advance(draw.increment) {
                Ok(numbers) => taken.push(numbers),
                Err(error) => {
                    self.give_back(&taken);
                    return Err(error);
                }
            }
        }
        Ok(taken)
    }

    /// Moves the generators back to before a replay that did not come to be, but for those that somebody has drawn
    /// from since: what lies in between is lost then, and nothing is drawn twice.
    pub(super) fn give_back(&self, taken: &[[u64; 2]]) {
        for (draw, before) in self.0.iter().zip(taken) {
            draw.generator.go_back(*before, draw.increment);
        }
    }

    /// Writes what was taken for the next replay, in the order of its stream; `is_issued` is set once any of it may be
    /// on its way.
    ///
    /// # Errors
    /// What the driver and the allocator of pinned memory report.
    pub(super) fn write(
        &self,
        allocator: &CachingAllocator,
        on: StreamHandle,
        taken: &[[u64; 2]],
        is_issued: &mut bool,
    ) -> Result<()> {
        for (draw, numbers) in self.0.iter().zip(taken) {
            write_one(allocator, on, draw, *numbers)?;
            *is_issued = true;
        }
        Ok(())
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
    let to = CopyEnd::Device(draw.memory.seed());
    let driver = allocator.runtime().driver();
    // SAFETY: the device's 16 bytes are the graph's, whose launches the stream has been made to wait for; the host's
    // are not handed out anew before the stream has passed.
    Ok(unsafe { driver.copy(to, CopyEnd::Host(source.as_ptr()), 16, on) }?)
}
