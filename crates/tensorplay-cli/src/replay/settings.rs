//! The configuration that a recording was made with.

use c10_cuda::{Config, RoundupPower2Divisions};

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
    let uses_maps = |action| matches!(action, Action::SegmentMap | Action::SegmentUnmap);
    let maps = snapshot.device_traces.iter().flatten().any(|event| uses_maps(event.action));
    if maps || snapshot.segments.iter().any(|segment| segment.is_expandable) {
        recorded.notes.push(
            "The recording has expandable segments. They are replayed as segments of fixed extent, so that only \
             what needs no growth can be compared."
                .into(),
        );
    }
    // What was recorded is PyTorch's own.
    recorded.config.search_after_synchronize = false;
    recorded
}

fn from_settings(settings: &AllocatorSettings) -> RecordedConfig {
    let mut notes = Vec::new();
    let mut config = Config::parse(&settings.conf).unwrap_or_else(|error| {
        notes.push(format!("The recorded configuration text '{}' is not read: {error}", settings.conf));
        Config::default()
    });
    // The numbers that were in force say more than the text that set them.
    config.max_split_size = settings.max_split_size;
    config.garbage_collection_threshold = settings.garbage_collection_threshold;
    if let Some(divisions) = RoundupPower2Divisions::new(settings.roundup_power2_divisions) {
        config.roundup_power2_divisions = divisions;
    }
    config.expandable_segments = false;
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
        let middling = pair[1].size > MIB && pair[1].size < 10 * MIB;
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
