//! Sizes: what a request is rounded to, and the class of a size.

use crate::config::PinnedConfig;

/// How many classes there are: one for each power of two.
pub(super) const CLASSES: usize = 64;

/// The size of the block for a request; `None` when that is no number that memory could have.
pub(super) fn round(bytes: u64, config: &PinnedConfig) -> Option<u64> {
    let limit = config.max_round_threshold.unwrap_or(u64::MAX).min(max_cached(config));
    let size = if bytes <= limit { bytes.checked_next_power_of_two()? } else { bytes };
    i64::try_from(size).ok().map(|size| size as u64)
}

/// The class of a size: the exponent of the next power of two.
pub(super) fn class(size: u64) -> usize {
    size.next_power_of_two().trailing_zeros() as usize
}

/// Blocks of more bytes are not cached.
pub(super) fn max_cached(config: &PinnedConfig) -> u64 {
    config.max_cached_size.unwrap_or(u64::MAX)
}
