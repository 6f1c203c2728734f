//! [`Generator`]: a source of random numbers that can be seeded, saved and shared.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use c10_core::{Device, Result};

use super::mt19937::Mt19937;

/// The seed of a generator that was given none (`c10::default_rng_seed_val`).
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;

/// A random number generator of the CPU (`torch.Generator`).
///
/// A clone is the same generator: what one draws the other does not draw again. [`clone_state`](Self::clone_state)
/// makes one that goes its own way. Any number of threads may use it; each call, and each operator, draws
/// all its numbers in a row.
///
/// ```
/// use aten::random::Generator;
///
/// let generator = Generator::new();
/// generator.manual_seed(7);
/// let before = generator.state();
/// let first = generator.draw(|draws| draws.random());
/// generator.set_state(&before)?;
/// assert_eq!(generator.draw(|draws| draws.random()), first);
/// # Ok::<(), c10_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Generator(Arc<Mutex<CpuState>>);

/// What a generator keeps.
#[derive(Clone)]
pub(super) struct CpuState {
    pub(super) seed: u64,
    pub(super) engine: Mt19937,
    /// Normal numbers are made in pairs; the second waits here. Only that of `f64` is made here: the other
    /// is kept for states that come from elsewhere.
    pub(super) next_normal_f64: Option<f64>,
    pub(super) next_normal_f32: Option<f32>,
}

/// Sole access to a generator, to [draw](Generator::draw) from it.
pub struct Draws<'a>(MutexGuard<'a, CpuState>);

impl Generator {
    /// A generator with the [default seed](DEFAULT_SEED).
    pub fn new() -> Self {
        Self::with_seed(DEFAULT_SEED)
    }

    /// A generator with this seed.
    pub fn with_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(CpuState::new(seed))))
    }

    /// The generator that operators draw from when they are given none (`torch.default_generator`): one a
    /// process, seeded from entropy when it is first asked for.
    pub fn default_cpu() -> Self {
        static DEFAULT: OnceLock<Generator> = OnceLock::new();
        DEFAULT.get_or_init(|| Self::with_seed(entropy())).clone()
    }

    /// Begins the sequence of this seed. A negative seed of PyTorch is the same in two's complement.
    pub fn manual_seed(&self, seed: u64) {
        *self.state_mut() = CpuState::new(seed);
    }

    /// Begins a sequence that nobody knows beforehand, and says its seed, which has 53 bits.
    pub fn seed(&self) -> u64 {
        let seed = entropy();
        self.manual_seed(seed);
        seed
    }

    /// The seed that the present sequence began with.
    pub fn initial_seed(&self) -> u64 {
        self.state_mut().seed
    }

    /// Where in its sequence it is, as [`STATE_BYTES`](super::STATE_BYTES) bytes: those of
    /// `torch.Generator.get_state`.
    pub fn state(&self) -> Vec<u8> {
        self.state_mut().to_bytes()
    }

    /// Goes on from a [state](Self::state), PyTorch's or our own.
    ///
    /// # Errors
    /// [`InvalidArgument`](c10_core::ErrorKind::InvalidArgument) when the bytes are no such state; the
    /// generator then stays as it was.
    pub fn set_state(&self, state: &[u8]) -> Result<()> {
        let state = CpuState::from_bytes(state)?;
        *self.state_mut() = state;
        Ok(())
    }

    /// Another generator at the same place of the same sequence (`torch.Generator.clone_state`).
    #[must_use]
    pub fn clone_state(&self) -> Self {
        Self(Arc::new(Mutex::new(self.state_mut().clone())))
    }

    /// The device whose tensors it fills.
    pub fn device(&self) -> Device {
        Device::CPU
    }

    /// Draws in a row, once nobody else does.
    ///
    /// Within `draw` the generator must not be used in any other way, since the call would wait for itself, nor
    /// may an operator be called: operators draw while they have access to a tensor, not the other way round.
    pub fn draw<R>(&self, draw: impl FnOnce(&mut Draws<'_>) -> R) -> R {
        draw(&mut Draws(self.state_mut()))
    }

    /// Whether both are the same generator.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A panic elsewhere cannot leave the state half-written: it is replaced whole or drawn from.
    fn state_mut(&self) -> MutexGuard<'_, CpuState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Generator");
        // Whoever draws may print: it must not wait for itself.
        if let Ok(state) = self.0.try_lock() {
            shown.field("initial_seed", &state.seed);
        }
        shown.field("device", &self.device()).finish_non_exhaustive()
    }
}

impl CpuState {
    fn new(seed: u64) -> Self {
        Self { seed, engine: Mt19937::new(seed), next_normal_f64: None, next_normal_f32: None }
    }
}

impl Draws<'_> {
    /// The next 32 bits.
    #[inline]
    pub fn random(&mut self) -> u32 {
        self.0.engine.random()
    }

    /// The next 64 bits: the upper half is drawn first.
    #[inline]
    pub fn random64(&mut self) -> u64 {
        let upper = u64::from(self.random());
        upper << 32 | u64::from(self.random())
    }

    /// The normal number that waits, which is then gone, or what `pair` makes, whose second number waits.
    #[inline]
    pub(super) fn one_of_pair(&mut self, pair: impl FnOnce(&mut Self) -> (f64, f64)) -> f64 {
        if let Some(normal) = self.0.next_normal_f64.take() {
            return normal;
        }
        let (first, second) = pair(self);
        self.0.next_normal_f64 = Some(second);
        first
    }
}

impl fmt::Debug for Draws<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draws").field("initial_seed", &self.0.seed).finish_non_exhaustive()
    }
}

/// 53 bits from the operating system, by way of the keys that it gives to hash tables.
fn entropy() -> u64 {
    RandomState::new().hash_one(0_u64) >> 11
}
