//! A [`Config`] as text: the settings that differ from PyTorch's defaults.

use std::fmt;

use super::{Backend, Config, Placement, Reserve, RoundupPower2Divisions};
use crate::alloc::size::MIB;

impl Config {
    /// The settings that differ from the defaults, as `key` and `value` of `PYTORCH_CUDA_ALLOC_CONF`.
    pub fn changed_settings(&self) -> Vec<(&'static str, String)> {
        let (config, default) = (self, Config::default());
        let mut all = Vec::new();
        let mut say = |is_changed: bool, key: &'static str, value: String| {
            if is_changed {
                all.push((key, value));
            }
        };
        let flag = |value: bool| if value { "True" } else { "False" }.to_owned();
        let backend = match config.backend {
            Backend::Native => "native",
            Backend::CudaMallocAsync => "cudaMallocAsync",
        };
        say(config.backend != default.backend, "backend", backend.to_owned());
        let placement = match config.placement {
            // A plan is no text.
            Placement::Exact | Placement::Planned(_) => "exact",
            Placement::Stitched => "stitched",
        };
        say(placement != "exact", "placement", placement.to_owned());
        say(
            config.large_segment_size != default.large_segment_size,
            "large_segment_size_mb",
            megabytes(config.large_segment_size),
        );
        let max_split = config.max_split_size.map_or_else(String::new, megabytes);
        say(config.max_split_size.is_some(), "max_split_size_mb", max_split);
        // The size of a segment sets it, unless it is set itself.
        let rounding = config.max_non_split_rounding_size;
        say(rounding != config.large_segment_size, "max_non_split_rounding_mb", megabytes(rounding));
        let threshold = config.garbage_collection_threshold;
        say(threshold != 0.0, "garbage_collection_threshold", threshold.to_string());
        let divisions = config.roundup_power2_divisions;
        say(divisions != RoundupPower2Divisions::OFF, "roundup_power2_divisions", divisions_text(divisions));
        say(config.expandable_segments, "expandable_segments", flag(true));
        let reserve = config.expandable_segments_reserve;
        say(reserve.is_some(), "expandable_segments_reserve", reserve.map_or_else(String::new, reserve_text));
        let classes = &config.expandable_segments_reserve_by_class;
        let entries: Vec<_> =
            classes.iter().map(|(class, reserve)| format!("{class}:{}", reserve_text(*reserve))).collect();
        say(!classes.is_empty(), "expandable_segments_reserve_by_class", format!("[{}]", entries.join(",")));
        say(config.release_lock_on_malloc, "release_lock_on_cudamalloc", flag(true));
        let fraction = config.per_process_memory_fraction;
        say(fraction != 1.0, "per_process_memory_fraction", fraction.to_string());
        say(config.throw_on_malloc_oom, "throw_on_cudamalloc_oom", flag(true));
        let reuse = config.graph_capture_record_stream_reuse;
        say(reuse, "graph_capture_record_stream_reuse", flag(true));
        all.extend(pinned(config));
        all
    }
}

impl fmt::Display for Config {
    /// The same as one text, `key:value,key:value`, which [`parse`](Self::parse) takes; empty for the defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.changed_settings().into_iter().map(|(key, value)| format!("{key}:{value}"));
        f.pad(&settings.collect::<Vec<_>>().join(","))
    }
}

fn pinned(config: &Config) -> Vec<(&'static str, String)> {
    let (pinned, default) = (&config.pinned, Config::default().pinned);
    let mut all = Vec::new();
    if pinned.use_host_register != default.use_host_register {
        all.push(("pinned_use_cuda_host_register", "True".to_owned()));
    }
    if pinned.num_register_threads != default.num_register_threads {
        all.push(("pinned_num_register_threads", pinned.num_register_threads.to_string()));
    }
    if pinned.use_background_threads != default.use_background_threads {
        all.push(("pinned_use_background_threads", "True".to_owned()));
    }
    if pinned.reserve_segment_size != default.reserve_segment_size {
        all.push(("pinned_reserve_segment_size_mb", megabytes(pinned.reserve_segment_size)));
    }
    all.extend(pinned.max_round_threshold.map(|size| ("pinned_max_round_threshold_mb", megabytes(size))));
    all.extend(pinned.max_cached_size.map(|size| ("pinned_max_cached_size_mb", megabytes(size))));
    if pinned.free_catch_all != default.free_catch_all {
        all.push(("pinned_free_catch_all", "True".to_owned()));
    }
    all
}

/// Whole megabytes as the text form has them; what is none, which only a file can say, with its decimals.
fn megabytes(bytes: u64) -> String {
    if bytes.is_multiple_of(MIB) {
        (bytes / MIB).to_string()
    } else {
        (bytes as f64 / MIB as f64).to_string()
    }
}

fn divisions_text(divisions: RoundupPower2Divisions) -> String {
    let table = divisions.as_array();
    if table.iter().all(|parts| *parts == table[0]) {
        return table[0].to_string();
    }
    // An entry where the number changes would not do: gaps between entries are off.
    let entries: Vec<_> =
        table.iter().enumerate().map(|(power, parts)| format!("{}:{parts}", 1_u64 << power)).collect();
    format!("[{}]", entries.join(","))
}

fn reserve_text(reserve: Reserve) -> String {
    match reserve {
        Reserve::Fraction(part) => part.to_string(),
        Reserve::Bytes(bytes) => format!("{}G", bytes as f64 / (1_u64 << 30) as f64),
    }
}
