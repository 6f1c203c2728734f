//! The configuration that a recording was made with.

use c10_cuda::{Backend, Config, RoundupPower2Divisions};

use crate::snapshot::{Action, AllocatorSettings, Snapshot};

const MIB: u64 = 1 << 20;

/// A recording's configuration as far as the allocator has its like, and what it lacks, in words.
pub(super) struct RecordedConfig {
    pub(super) config: Config,
    pub(super) notes: Vec<String>,
}

/// The configuration of a snapshot: what the file says, else what its history shows.
pub(super) fn recorded_config(snapshot: &Snapshot) -> RecordedConfig {
    let mut recorded = match &snapshot.allocator_settings {
        Some(settings) => from_settings(settings),
        None => inferred(snapshot),
    };
    // A history that the setting was switched in is replayed with what it shows.
    let maps = snapshot.device_traces.iter().flatten().any(|event| event.action.is_of_maps());
    recorded.config.expandable_segments = maps || snapshot.segments.iter().any(|s| s.is_expandable);
    // What was recorded is PyTorch's own.
    recorded.config.search_after_synchronize = false;
    recorded
}

/// The same where each decision is compared. What refuses requests and what collects garbage is left out: the
/// recording says what was served and what went back, and not how much memory there was.
pub(super) fn for_comparison(recorded: &Config) -> Config {
    Config {
        per_process_memory_fraction: 1.0,
        throw_on_malloc_oom: false,
        garbage_collection_threshold: 0.0,
        ..recorded.clone()
    }
}

fn from_settings(settings: &AllocatorSettings) -> RecordedConfig {
    let mut notes = Vec::new();
    let mut config = Config::parse(&settings.conf).unwrap_or_else(|error| {
        let conf = settings.conf.escape_debug();
        notes.push(format!("The recorded configuration text '{conf}' is not read: {error}"));
        Config::default()
    });
    // The numbers that were in force say more than the text that set them.
    config.max_split_size = settings.max_split_size;
    config.garbage_collection_threshold = settings.garbage_collection_threshold;
    config.expandable_segments = settings.expandable_segments;
    if let Some(divisions) = RoundupPower2Divisions::new(settings.roundup_power2_divisions) {
        config.roundup_power2_divisions = divisions;
    }
    if config.backend != Backend::Native {
        notes.push("The recorded configuration names another backend; the native one is replayed.".into());
        config.backend = Backend::Native;
    }
    config.graph_capture_record_stream_reuse = false;
    RecordedConfig { config, notes }
}

/// PyTorch's defaults, with the size of large segments that the history shows.
fn inferred(snapshot: &Snapshot) -> RecordedConfig {
    let mut config = Config::default();
    let mut notes = vec!["The file does not say how the allocator was configured.".to_owned()];
    let traces = snapshot.device_traces.iter();
    let shown = traces.flat_map(|trace| trace.windows(2)).find_map(|pair| {
        let causes = pair[0].action == Action::SegmentAlloc && pair[1].action == Action::Alloc;
        // However it is rounded, such a request stays below 10 MiB.
        let middling = pair[1].size > MIB && pair[1].size < 8 * MIB;
        (causes && middling && pair[0].size > 10 * MIB && pair[0].size.is_multiple_of(MIB))
            .then_some(pair[0].size)
    });
    if let Some(size) = shown.filter(|size| *size != config.large_segment_size) {
        config.large_segment_size = size;
        config.max_non_split_rounding_size = size;
        notes.push(format!("Its segments for middling requests are of {} MiB.", size / MIB));
    }
    RecordedConfig { config, notes }
}
