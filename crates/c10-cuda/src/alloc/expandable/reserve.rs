//! How many addresses an expandable segment takes: the device's memory and an eighth, so that pages given up in the
//! middle can be had again at the end, or what the settings say for its stream (`expandable_segments_reserve`).

use crate::config::{Config, Reserve};

/// The addresses for a segment, and why there are not more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReserveLimit {
    /// Bytes, before they are rounded up to whole pages.
    pub(crate) bytes: u64,
    /// Whether a setting says so.
    pub(crate) is_set: bool,
    /// The class of streams for which it does.
    pub(crate) class: Option<String>,
}

impl ReserveLimit {
    /// The limit on a device of `total` bytes for a stream of a class.
    pub(crate) fn new(config: &Config, class: Option<&str>, total: u64) -> Self {
        let full = total.saturating_add(total / 8);
        let by_class = class.and_then(|class| {
            let classes = &config.expandable_segments_reserve_by_class;
            classes.iter().rev().find(|(name, _)| name == class)
        });
        let set = by_class.map(|(_, reserve)| *reserve).or(config.expandable_segments_reserve);
        Self {
            bytes: set.map_or(full, |reserve| full.min(in_bytes(reserve, total))),
            is_set: set.is_some(),
            class: by_class.map(|(name, _)| name.clone()),
        }
    }
}

fn in_bytes(reserve: Reserve, total: u64) -> u64 {
    match reserve {
        // Saturates.
        Reserve::Fraction(part) => (part * total as f64) as u64,
        Reserve::Bytes(bytes) => bytes,
    }
}
