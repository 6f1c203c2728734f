//! [`Config`]: what can be set about the caching allocator, as a plain struct and in PyTorch's text form.
//!
//! ```
//! use c10_cuda::Config;
//!
//! let config = Config::parse("max_split_size_mb:128,garbage_collection_threshold:0.8")?;
//! assert_eq!(config.max_split_size, Some(128 << 20));
//! # Ok::<(), c10_cuda::Error>(())
//! ```

mod env;
mod parse;
mod roundup;
mod text;
mod tokenizer;

pub use roundup::RoundupPower2Divisions;

use crate::alloc::policy::planned::Plan;
use crate::alloc::size::{LARGE_SEGMENT_SIZE, MIB, MIN_BLOCK_SIZE, REQUEST_CAP, ROUND_LARGE};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;

/// Where memory comes from (`backend`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The caching allocator of this crate.
    #[default]
    Native,
    /// The driver's own pools.
    CudaMallocAsync,
}

/// Which of several free blocks of one size is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OrderOfEquals {
    /// The one whose segment came first from the driver, then the lowest address: PyTorch 2.15.
    #[default]
    Registration,
    /// The lowest address: the versions before.
    Address,
}

/// Where in memory requests are placed (`placement`, a key of our own).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Placement {
    /// Where PyTorch places them.
    #[default]
    Exact,
    /// In pages from wherever they are free, put together behind addresses of their own, so that less is reserved.
    Stitched,
    /// Where a [`Plan`] has them, on every device that it is used on; what the plan does not have is placed as
    /// PyTorch would. No text form.
    Planned(Arc<Plan>),
}

/// How much address space an expandable segment reserves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reserve {
    /// A part of the device's memory.
    Fraction(f64),
    /// A number of bytes.
    Bytes(u64),
}

/// The settings of the allocator. Sizes are in bytes. The default is PyTorch's.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `backend`.
    pub backend: Backend,
    /// Blocks of this size or more are never split, and serve only requests of this size or more
    /// (`max_split_size_mb`). `None` is unlimited.
    pub max_split_size: Option<u64>,
    /// A block of at least `max_split_size` serves a request only if it is less than this much larger
    /// (`max_non_split_rounding_mb`).
    pub max_non_split_rounding_size: u64,
    /// The size of a segment for requests between 1 MiB and 10 MiB (`large_segment_size_mb`).
    pub large_segment_size: u64,
    /// The part of the memory limit above which old free blocks go back to the driver before more is asked of
    /// it (`garbage_collection_threshold`); in (0, 1), and 0 is off. Acts only where a limit is set.
    pub garbage_collection_threshold: f64,
    /// `roundup_power2_divisions`.
    pub roundup_power2_divisions: RoundupPower2Divisions,
    /// `expandable_segments`: whether memory comes in ranges of addresses that grow and shrink by pages of
    /// [`large_segment_size`](Self::large_segment_size) (of 2 MiB for small requests), which is a multiple of 2 MiB
    /// then.
    pub expandable_segments: bool,
    /// Whether other threads may use the allocator during a driver's malloc (`release_lock_on_cudamalloc`).
    pub release_lock_on_malloc: bool,
    /// The part of a device's memory that the allocator may take, in [0, 1] (`per_process_memory_fraction`).
    /// It counts the allocator's bytes alone, not those of the context or of libraries.
    pub per_process_memory_fraction: f64,
    /// Whether a request beyond that fraction is rejected before the driver is asked and before anything
    /// cached is freed (`throw_on_cudamalloc_oom`).
    pub throw_on_malloc_oom: bool,
    /// `expandable_segments_reserve`: addresses that an expandable segment reserves.
    pub expandable_segments_reserve: Option<Reserve>,
    /// `expandable_segments_reserve_by_class`: the same by class of streams.
    pub expandable_segments_reserve_by_class: Vec<(String, Reserve)>,
    /// Whether a block that several streams used in a capture serves again as soon as the graph shows that all uses
    /// are over, and not only after the capture (`graph_capture_record_stream_reuse`).
    pub graph_capture_record_stream_reuse: bool,
    /// The settings of the pinned-host allocator.
    pub pinned: PinnedConfig,
    /// Whether each request goes to the driver and nothing is cached (`PYTORCH_NO_CUDA_MEMORY_CACHING`
    /// is `1`).
    pub no_caching: bool,
    /// Which of several free blocks of one size is taken. No text form.
    pub order_of_equals: OrderOfEquals,
    /// Whether free blocks are searched once more after waiting for other streams and before more is freed and
    /// asked of the driver. PyTorch 2.15 does not, and reports out of memory though a block has just become
    /// free (pytorch/pytorch#189504); `false` does as it does. No text form.
    pub search_after_synchronize: bool,
    /// Where requests are placed (`placement`, a key that PyTorch does not have).
    pub placement: Placement,
}

/// The settings of the pinned-host allocator, in PyTorch's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedConfig {
    /// `pinned_use_cuda_host_register`: memory of the system is registered, instead of the driver asked for its.
    pub use_host_register: bool,
    /// `pinned_num_register_threads`: how many threads bring such memory's pages in; a power of two up to 128.
    pub num_register_threads: u64,
    /// `pinned_use_background_threads`: requests do not look for what streams have passed. Nothing here runs by
    /// itself: the thread is the program's, which calls
    /// [`process_events`](crate::PinnedAllocator::process_events) when it likes.
    pub use_background_threads: bool,
    /// `pinned_reserve_segment_size_mb`, in bytes: pinned in one piece at the first request, and cut up; 0 is off.
    pub reserve_segment_size: u64,
    /// `pinned_max_round_threshold_mb`, in bytes; `None` always rounds.
    pub max_round_threshold: Option<u64>,
    /// `pinned_max_cached_size_mb`, in bytes; `None` caches every size.
    pub max_cached_size: Option<u64>,
    /// `pinned_free_catch_all`. Frees never fail here; what they met is there for
    /// [`take_free_error`](crate::PinnedAllocator::take_free_error).
    pub free_catch_all: bool,
}

impl PinnedConfig {
    /// Whether the numbers are ones that the allocator can work with.
    pub(crate) fn check(&self) -> Result<()> {
        let threads = self.num_register_threads;
        if threads.is_power_of_two() && threads <= 128 {
            return Ok(());
        }
        let text = format!("num_register_threads is {threads}, and must be a power of two up to 128");
        Err(Error::new(ErrorKind::Config, text))
    }
}

impl Config {
    /// The default with the settings of a text `key:value[,key:value]…` (`PYTORCH_CUDA_ALLOC_CONF`).
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for an unknown key, a value out of range or a malformed
    /// text, naming it.
    pub fn parse(text: &str) -> Result<Self> {
        let mut config = Self::default();
        config.set(text)?;
        Ok(config)
    }

    /// Applies a text on top of what is set, as `torch.cuda.memory._set_allocator_settings` does: splitting,
    /// rounding, collection and segment size start from their defaults each time, the rest stays as it was.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); nothing is changed then.
    pub fn set(&mut self, text: &str) -> Result<()> {
        *self = parse::apply(self, text)?;
        Ok(())
    }

    /// The settings of the environment: the first of `PYTORCH_CUDA_ALLOC_CONF`, `PYTORCH_HIP_ALLOC_CONF` and
    /// `PYTORCH_ALLOC_CONF` that is set, and `PYTORCH_NO_CUDA_MEMORY_CACHING`, which counts if it is `1`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), naming the variable.
    pub fn from_env() -> Result<Self> {
        env::read(env::of_process)
    }

    /// [`from_env`](Self::from_env) for an environment that the caller makes up: `variable` gives the value of a
    /// variable that is set.
    ///
    /// # Errors
    /// As there.
    pub fn from_vars(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        env::read(variable)
    }

    /// The variable of the environment that [`from_env`](Self::from_env) takes its text from, and the text.
    pub fn text_from_env() -> Option<(&'static str, String)> {
        env::text(env::of_process)
    }

    /// Whether the numbers are ones that the allocator can work with, as the text form would have seen to.
    pub(crate) fn check(&self) -> Result<()> {
        let unit = MIN_BLOCK_SIZE;
        let sizes = [
            ("large_segment_size", Some(self.large_segment_size), 10 * MIB + 1),
            ("max_split_size", self.max_split_size, self.large_segment_size),
            ("max_non_split_rounding_size", Some(self.max_non_split_rounding_size), self.large_segment_size),
        ];
        for (name, size, least) in sizes {
            let Some(size) = size else { continue };
            if size < least || size >= REQUEST_CAP || !size.is_multiple_of(unit) {
                let range = format!("a multiple of {unit} from {least} to 2^60");
                return Err(Error::new(ErrorKind::Config, format!("{name} is {size}, and must be {range}")));
            }
        }
        self.pinned.check()?;
        if self.backend == Backend::CudaMallocAsync && self.placement != Placement::Exact {
            let text = "backend:cudaMallocAsync places blocks itself: no other placement can be chosen";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let classes = self.expandable_segments_reserve_by_class.iter().map(|(_, reserve)| reserve);
        for reserve in self.expandable_segments_reserve.iter().chain(classes) {
            let is_some = match *reserve {
                Reserve::Fraction(fraction) => fraction.is_finite() && fraction > 0.0,
                Reserve::Bytes(bytes) => bytes > 0 && bytes < REQUEST_CAP,
            };
            if !is_some {
                let text =
                    format!("a reserve of expandable segments is {reserve:?}, and must be more than 0");
                return Err(Error::new(ErrorKind::Config, text));
            }
        }
        // Differs from PyTorch: it finds out when the driver refuses the addresses.
        if self.expandable_segments && !self.large_segment_size.is_multiple_of(ROUND_LARGE) {
            let size = self.large_segment_size;
            let text =
                format!("large_segment_size is {size}, and with expandable_segments a multiple of 2 MiB");
            return Err(Error::new(ErrorKind::Config, text));
        }
        if !(0.0..1.0).contains(&self.garbage_collection_threshold) {
            return Err(Error::new(ErrorKind::Config, "garbage_collection_threshold must be in [0, 1)"));
        }
        if !(0.0..=1.0).contains(&self.per_process_memory_fraction) {
            return Err(Error::new(ErrorKind::Config, "per_process_memory_fraction must be in [0, 1]"));
        }
        Ok(())
    }

    /// `max_split_size`, where unlimited is the largest number.
    pub(crate) fn max_split(&self) -> u64 {
        self.max_split_size.unwrap_or(u64::MAX)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            backend: Backend::Native,
            max_split_size: None,
            max_non_split_rounding_size: LARGE_SEGMENT_SIZE,
            large_segment_size: LARGE_SEGMENT_SIZE,
            garbage_collection_threshold: 0.0,
            roundup_power2_divisions: RoundupPower2Divisions::OFF,
            expandable_segments: false,
            expandable_segments_reserve: None,
            expandable_segments_reserve_by_class: Vec::new(),
            release_lock_on_malloc: false,
            per_process_memory_fraction: 1.0,
            throw_on_malloc_oom: false,
            graph_capture_record_stream_reuse: false,
            pinned: PinnedConfig::default(),
            no_caching: false,
            order_of_equals: OrderOfEquals::Registration,
            search_after_synchronize: true,
            placement: Placement::Exact,
        }
    }
}

impl Default for PinnedConfig {
    fn default() -> Self {
        Self {
            use_host_register: false,
            num_register_threads: 1,
            use_background_threads: false,
            reserve_segment_size: 0,
            max_round_threshold: None,
            max_cached_size: None,
            free_catch_all: false,
        }
    }
}

/// `mebibytes` in bytes, if that fits.
fn mib(mebibytes: u64) -> Option<u64> {
    mebibytes.checked_mul(MIB)
}
