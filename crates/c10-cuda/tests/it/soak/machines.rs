//! Which machines and settings there are: one line each.

use std::fmt;

use c10_cuda::Config;
use c10_cuda::driver::sim::{Completion, SimConfig};

use crate::rig::MIB;

/// The settings that programs run under.
const SETTINGS: &[&str] = &[
    "",
    "max_split_size_mb:20",
    "max_split_size_mb:40,max_non_split_rounding_mb:30",
    "garbage_collection_threshold:0.4",
    "max_split_size_mb:25,garbage_collection_threshold:0.7,release_lock_on_cudamalloc:True",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:2,64:4,256:8,>:1],large_segment_size_mb:32",
    "throw_on_cudamalloc_oom:True",
    "expandable_segments:True",
    "placement:stitched",
    "expandable_segments:True,max_split_size_mb:30,garbage_collection_threshold:0.5",
];

/// What a seed stands for.
pub(crate) struct Machine {
    settings: &'static str,
    devices: usize,
    bytes: u64,
    completion: Completion,
    /// Whether a race detector looks on. Where none does, the allocator takes shorter ways.
    watched: bool,
}

impl Machine {
    /// How many seeds in a row make one round of all settings.
    pub(crate) const fn kinds() -> u64 {
        SETTINGS.len() as u64
    }

    pub(crate) fn of_seed(seed: u64) -> Self {
        let round = seed / Self::kinds();
        Self {
            settings: SETTINGS[(seed % Self::kinds()) as usize],
            devices: 1 + (seed % 3).min(1) as usize,
            watched: round % 3 != 1,
            bytes: (96 + 64 * (round % 5)) * MIB,
            completion: if seed.is_multiple_of(5) { Completion::Manual } else { Completion::Seeded(seed) },
        }
    }

    pub(crate) const fn devices(&self) -> usize {
        self.devices
    }

    pub(crate) fn sim(&self) -> SimConfig {
        let race_detector = self.watched;
        let config = SimConfig::with_devices(self.devices, self.bytes).completion(self.completion);
        SimConfig { race_detector, ..config }
    }

    pub(crate) fn config(&self) -> Config {
        Config::parse(self.settings).expect("the settings are the allocator's")
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, devices, bytes, completion, watched } = self;
        let settings = if settings.is_empty() { "defaults" } else { settings };
        write!(
            f,
            "{devices} × {} MiB, {completion:?}, {settings}{}",
            bytes / MIB,
            if *watched { "" } else { ", unwatched" }
        )
    }
}
