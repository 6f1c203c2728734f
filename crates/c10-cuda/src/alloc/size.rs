//! Sizes: what a request is rounded to, which pool serves it, how large a segment it needs.

use crate::config::{Config, RoundupPower2Divisions};

/// 2^20 bytes.
pub(crate) const MIB: u64 = 1 << 20;
/// Every block is a multiple of this (`kMinBlockSize`).
pub(crate) const MIN_BLOCK_SIZE: u64 = 512;
/// The largest block of the small pool (`kSmallSize`).
pub(crate) const SMALL_SIZE: u64 = MIB;
/// The size of a segment of the small pool (`kSmallBuffer`).
pub(crate) const SMALL_BUFFER: u64 = 2 * MIB;
/// The default size of a segment for middling requests (`kLargeBuffer`, now `large_segment_size_mb`).
pub(crate) const LARGE_SEGMENT_SIZE: u64 = 20 * MIB;
/// From this size on a request gets a segment of its own (`kMinLargeAlloc`).
pub(crate) const MIN_LARGE_ALLOC: u64 = 10 * MIB;
/// Such a segment is a multiple of this (`kRoundLarge`).
pub(crate) const ROUND_LARGE: u64 = 2 * MIB;
/// A request of this size or more is refused outright: more than 1 EB.
pub(crate) const REQUEST_CAP: u64 = 1 << 60;

/// The size of the block that serves a request of `bytes`, below [`REQUEST_CAP`] (`round_size`).
#[inline]
pub(crate) fn round_size(bytes: u64, divisions: &RoundupPower2Divisions) -> u64 {
    if bytes < MIN_BLOCK_SIZE {
        return MIN_BLOCK_SIZE;
    }
    let parts = divisions.of(bytes);
    // No request reaches a bound that saturates.
    if parts > 1 && bytes > MIN_BLOCK_SIZE.saturating_mul(parts) {
        roundup_power2_next_division(bytes, parts)
    } else {
        bytes.next_multiple_of(MIN_BLOCK_SIZE)
    }
}

/// `bytes` rounded up to a `parts`th of the step between its powers of two
/// (`roundup_power2_next_division`).
fn roundup_power2_next_division(bytes: u64, parts: u64) -> u64 {
    if bytes.is_power_of_two() {
        return bytes;
    }
    let floor = 1_u64 << bytes.ilog2();
    match floor >> parts.ilog2() {
        0 => floor << 1,
        step => bytes.next_multiple_of(step),
    }
}

/// The size of the segment asked of the driver for a block of `size` bytes (`get_allocation_size`).
#[inline]
pub(crate) fn segment_size(size: u64, config: &Config) -> u64 {
    if size <= SMALL_SIZE {
        SMALL_BUFFER
    } else if size < MIN_LARGE_ALLOC {
        config.large_segment_size
    } else {
        size.next_multiple_of(ROUND_LARGE)
    }
}
