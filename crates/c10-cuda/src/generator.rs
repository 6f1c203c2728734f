//! [`CudaGenerator`]: the state of a device's random numbers (`at::CUDAGeneratorImpl`).
//!
//! The numbers are Philox's: a seed, and an offset that says how many each thread of a kernel has drawn. A kernel takes
//! what it draws by [`philox_state`](CudaGenerator::philox_state), in multiples of 4, which is what Philox gives at a
//! time. In a capture it gets addresses instead of numbers: see [`graph`](crate::graph).

use std::fmt;

use c10_core::DeviceIndex;

use crate::alloc::CachingAllocator;
use crate::driver::{CaptureState, DevicePtr};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::SeedMemory;
use crate::runtime::Runtime;
use crate::sync::{Arc, Mutex, lock};

/// The seed that a generator begins with (`default_rng_seed_val`).
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;

/// The random state of a device. Clones are one generator.
///
/// ```
/// use c10_cuda::driver::sim::{SimConfig, SimDriver};
/// use c10_cuda::{CudaGenerator, PhiloxState, Runtime};
///
/// let runtime = Runtime::new(SimDriver::new(SimConfig::with_bytes(1 << 30)));
/// let generator = CudaGenerator::new(&runtime, 0)?;
/// generator.set_seed(7)?;
/// // Each thread of the kernel draws 6 numbers.
/// assert_eq!(generator.philox_state(6)?, PhiloxState::Numbers { seed: 7, offset: 0 });
/// assert_eq!(generator.offset()?, 8);
/// # Ok::<(), c10_cuda::Error>(())
/// ```
#[derive(Clone)]
pub struct CudaGenerator {
    runtime: Runtime,
    device: DeviceIndex,
    state: SharedState,
}

/// What a kernel needs to draw (`at::PhiloxCudaState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhiloxState {
    /// Of work that runs: the numbers.
    Numbers {
        /// The seed.
        seed: u64,
        /// How many each thread has drawn before.
        offset: u64,
    },
    /// Of captured work: where they are when the graph is replayed.
    Captured {
        /// The address of the seed, 8 bytes.
        seed: DevicePtr,
        /// The address of the offset that the replay begins with, 8 bytes.
        offset: DevicePtr,
        /// How much of the replay's draws came before.
        offset_intragraph: u64,
    },
}

/// A generator's state, as graphs and the runtime share it.
#[derive(Clone, Debug)]
pub(crate) struct SharedState(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    seed: u64,
    /// A multiple of 4 (`philox_offset_per_thread`).
    offset: u64,
    /// The captures that it is registered with and that are under way, all of its own runtime.
    captures: Vec<Registration>,
}

#[derive(Debug)]
struct Registration {
    capture: u64,
    device: DeviceIndex,
    allocator: CachingAllocator,
    /// Seed and offset, once anything has been drawn.
    memory: Option<SeedMemory>,
    /// What was drawn so far.
    drawn: u64,
}

impl Default for SharedState {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { seed: DEFAULT_SEED, offset: 0, captures: Vec::new() })))
    }
}

impl Runtime {
    /// The generator of a device that is used where none is given (`getDefaultCUDAGenerator`). Every capture of the
    /// device is registered with it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn default_generator(&self, device: DeviceIndex) -> Result<CudaGenerator> {
        self.check(device)?;
        let state = self.generators()[usize::from(device)].clone();
        Ok(CudaGenerator { runtime: self.clone(), device, state })
    }
}

impl CudaGenerator {
    /// A generator of a device, with the default seed and offset 0 (`torch.Generator(device)`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn new(runtime: &Runtime, device: DeviceIndex) -> Result<Self> {
        runtime.check(device)?;
        Ok(Self { runtime: runtime.clone(), device, state: SharedState::default() })
    }

    /// Its device.
    pub fn device(&self) -> DeviceIndex {
        self.device
    }

    /// Its seed (`initial_seed`).
    pub fn seed(&self) -> u64 {
        lock(&self.state.0).seed
    }

    /// Begins anew from a seed (`manual_seed`).
    ///
    /// # Errors
    /// [`ErrorKind::Capture`] where this thread's current stream captures and the seed is another one.
    pub fn set_seed(&self, seed: u64) -> Result<()> {
        if self.capture()?.is_some() {
            if self.seed() == seed {
                return Ok(());
            }
            return Err(in_capture(
                "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same \
                 as the original seed.",
            ));
        }
        let mut state = lock(&self.state.0);
        (state.seed, state.offset) = (seed, 0);
        Ok(())
    }

    /// How many numbers each thread has drawn (`get_offset`).
    ///
    /// # Errors
    /// [`ErrorKind::Capture`] where this thread's current stream captures.
    pub fn offset(&self) -> Result<u64> {
        self.check_no_capture("Cannot call CUDAGeneratorImpl::get_offset")?;
        Ok(lock(&self.state.0).offset)
    }

    /// Goes on from an offset.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for one that is no multiple of 4, and as [`offset`](Self::offset).
    pub fn set_offset(&self, offset: u64) -> Result<()> {
        self.check_no_capture("Cannot call CUDAGeneratorImpl::set_offset")?;
        if !offset.is_multiple_of(4) {
            return Err(invalid(format!("offset must be a multiple of 4, and {offset} is not")));
        }
        lock(&self.state.0).offset = offset;
        Ok(())
    }

    /// Seed and offset as PyTorch stores them: two little-endian numbers of 8 bytes (`get_state`).
    ///
    /// # Errors
    /// As [`offset`](Self::offset).
    pub fn state_bytes(&self) -> Result<[u8; 16]> {
        self.check_no_capture("Cannot call CUDAGeneratorImpl::get_state")?;
        let state = lock(&self.state.0);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&state.seed.to_le_bytes());
        bytes[8..].copy_from_slice(&state.offset.to_le_bytes());
        Ok(bytes)
    }

    /// Goes on from what [`state_bytes`](Self::state_bytes) gave. 8 bytes are a seed (`set_state`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for other bytes, and as [`set_offset`](Self::set_offset).
    pub fn set_state_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.check_no_capture("Cannot call CUDAGeneratorImpl::set_state")?;
        let (numbers, rest) = bytes.as_chunks::<8>();
        let (seed, offset) = match (numbers, rest) {
            ([seed], []) => (u64::from_le_bytes(*seed), 0),
            ([seed, offset], []) => (u64::from_le_bytes(*seed), u64::from_le_bytes(*offset)),
            _ => return Err(invalid(format!("RNG state is wrong size: {} bytes, not 16 or 8", bytes.len()))),
        };
        if !offset.is_multiple_of(4) {
            return Err(invalid(format!("offset must be a multiple of 4, and {offset} is not")));
        }
        let mut state = lock(&self.state.0);
        (state.seed, state.offset) = (seed, offset);
        Ok(())
    }

    /// Takes `increment` numbers for each thread, rounded up to a multiple of 4, for work that is issued on this
    /// thread's current stream (`philox_cuda_state`).
    ///
    /// # Errors
    /// [`ErrorKind::Capture`] in a capture that it is not registered with; [`ErrorKind::InvalidArgument`] when the
    /// offset would pass 2^64; what the driver reports of the 16 bytes that the first draw of a capture needs.
    /// Nothing is taken then.
    pub fn philox_state(&self, increment: u64) -> Result<PhiloxState> {
        let increment = increment.checked_next_multiple_of(4).ok_or_else(overflow)?;
        match self.capture()? {
            Some(capture) => self.state.draw_in(capture, increment),
            None => {
                let [seed, offset] = self.state.advance(increment)?;
                Ok(PhiloxState::Numbers { seed, offset })
            }
        }
    }

    /// Whether it is of a runtime.
    pub(crate) fn is_of(&self, runtime: &Runtime) -> bool {
        self.runtime.id() == runtime.id()
    }

    pub(crate) fn state(&self) -> SharedState {
        self.state.clone()
    }

    /// The capture that this thread's current stream of the device takes part in.
    fn capture(&self) -> Result<Option<u64>> {
        if !self.runtime.captures().are_under_way() {
            return Ok(None);
        }
        let stream = self.runtime.handle(self.runtime.current_stream(self.device)?)?;
        Ok(match self.runtime.driver().capture_state(stream)? {
            CaptureState::None => None,
            CaptureState::Active { id } | CaptureState::Invalidated { id } => Some(id),
        })
    }

    fn check_no_capture(&self, what: &str) -> Result<()> {
        match self.capture()? {
            None => Ok(()),
            Some(_) => Err(in_capture(format!(
                "{what} during CUDA graph capture: what is captured runs later, and more than once"
            ))),
        }
    }
}

impl SharedState {
    /// Whether two are one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Takes an increment, and gives seed and offset from before.
    pub(crate) fn advance(&self, increment: u64) -> Result<[u64; 2]> {
        let mut state = lock(&self.0);
        let before = [state.seed, state.offset];
        state.offset = state.offset.checked_add(increment).ok_or_else(overflow)?;
        Ok(before)
    }

    /// Gives back what was taken from seed and offset `before` and not drawn, unless anybody has drawn, or begun anew,
    /// since.
    pub(crate) fn go_back(&self, before: [u64; 2], increment: u64) {
        let mut state = lock(&self.0);
        let [seed, offset] = before;
        if state.seed == seed && offset.checked_add(increment) == Some(state.offset) {
            state.offset = offset;
        }
    }

    pub(crate) fn begin_capture(&self, allocator: &CachingAllocator, device: DeviceIndex, capture: u64) {
        let registration =
            Registration { capture, device, allocator: allocator.clone(), memory: None, drawn: 0 };
        lock(&self.0).captures.push(registration);
    }

    /// Ends a capture's registration. Its memory and what was drawn, if anything was.
    pub(crate) fn end_capture(&self, capture: u64) -> Option<(SeedMemory, u64)> {
        let mut state = lock(&self.0);
        let at = state.captures.iter().position(|registration| registration.capture == capture)?;
        let registration = state.captures.swap_remove(at);
        drop(state);
        Some((registration.memory?, registration.drawn))
    }

    /// Takes an increment for captured work.
    fn draw_in(&self, capture: u64, increment: u64) -> Result<PhiloxState> {
        self.ensure_memory(capture)?;
        let mut state = lock(&self.0);
        let registration = state.registration(capture)?;
        let memory = registration.memory.as_ref().expect("it was just made sure of");
        let (seed, offset) = (memory.seed(), memory.offset());
        let offset_intragraph = registration.drawn;
        registration.drawn = offset_intragraph.checked_add(increment).ok_or_else(overflow)?;
        Ok(PhiloxState::Captured { seed, offset, offset_intragraph })
    }

    /// Gives a capture its 16 bytes. The allocator is asked without the lock.
    fn ensure_memory(&self, capture: u64) -> Result<()> {
        let (allocator, device) = {
            let mut state = lock(&self.0);
            let registration = state.registration(capture)?;
            if registration.memory.is_some() {
                return Ok(());
            }
            (registration.allocator.clone(), registration.device)
        };
        let memory = allocator.seed_memory(device)?;
        let mut state = lock(&self.0);
        let surplus = match state.registration(capture) {
            Ok(registration) if registration.memory.is_none() => registration.memory.replace(memory),
            _ => Some(memory),
        };
        drop(state);
        drop(surplus);
        Ok(())
    }
}

impl State {
    fn registration(&mut self, capture: u64) -> Result<&mut Registration> {
        self.captures.iter_mut().find(|registration| registration.capture == capture).ok_or_else(|| {
            in_capture(
                "Attempt to increase offset for a CUDA generator not in capture mode: register it with the graph, in \
                 `CaptureOptions::generators`.",
            )
        })
    }
}

#[cold]
fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}

#[cold]
fn in_capture(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Capture, text)
}

#[cold]
fn overflow() -> Error {
    invalid("Increment causes overflow in the offset value.".into())
}

impl fmt::Debug for CudaGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state.0);
        f.debug_struct("CudaGenerator")
            .field("device", &self.device)
            .field("seed", &state.seed)
            .field("offset", &state.offset)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
