//! The grid: which configurations are tried.

use c10_cuda::{Config, Placement};

use crate::replay::configuration;

/// Whose a configuration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Whose {
    /// One that PyTorch takes.
    Pytorch,
    /// One that this allocator alone has.
    Ours,
}

impl Whose {
    fn of(config: &Config) -> Self {
        if config.placement == Placement::Exact { Self::Pytorch } else { Self::Ours }
    }
}

/// The configurations, by their text form. Those with a placement are this allocator's own.
const GRID: &[&str] = &[
    "",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "max_split_size_mb:64",
    "max_split_size_mb:128",
    "max_split_size_mb:256",
    "max_split_size_mb:512",
    "large_segment_size_mb:64",
    "large_segment_size_mb:256",
    "large_segment_size_mb:1024",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:16",
    "max_split_size_mb:128,roundup_power2_divisions:16",
    "garbage_collection_threshold:0.8,per_process_memory_fraction:0.95",
    "max_split_size_mb:128,garbage_collection_threshold:0.8,per_process_memory_fraction:0.95",
    "expandable_segments:True,roundup_power2_divisions:16",
    "placement:stitched",
];

/// What stands for a plan of the very history that is tried. It is no configuration that can be asked for: the plan is
/// in a file of its own.
const PLANNED: &str = "placement:planned";

/// A configuration to try.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) whose: Whose,
    /// As in `PYTORCH_CUDA_ALLOC_CONF`.
    pub(super) text: String,
    pub(super) config: Config,
    /// Whether a plan is made of the history and served.
    pub(super) is_planned: bool,
}

/// What is tried: the grid, a plan, what was asked for, and the recording's own. Each once; what acts only where memory
/// is limited only there.
///
/// # Errors
/// A configuration of `asked` that is none.
pub(super) fn candidates(
    asked: &[String],
    recorded: Option<&str>,
    is_limited: bool,
) -> Result<Vec<Candidate>, String> {
    let mut all: Vec<Candidate> = Vec::new();
    let add = |all: &mut Vec<Candidate>, text: &str, config: Config| {
        if !all.iter().any(|before| before.config == config && !before.is_planned) {
            all.push(Candidate {
                whose: Whose::of(&config),
                text: text.to_owned(),
                config,
                is_planned: false,
            });
        }
    };
    for text in GRID {
        if is_limited || !text.contains("garbage_collection_threshold") {
            add(&mut all, text, configuration(text)?);
        }
    }
    let (whose, text) = (Whose::Ours, PLANNED.to_owned());
    all.push(Candidate { whose, text, config: Config::default(), is_planned: true });
    for text in asked {
        add(&mut all, text, configuration(text)?);
    }
    // One that is not read here is not PyTorch's either, or of a version that is gone.
    if let Some((text, config)) = recorded.and_then(|text| Some((text, configuration(text).ok()?))) {
        add(&mut all, text, config);
    }
    Ok(all)
}
