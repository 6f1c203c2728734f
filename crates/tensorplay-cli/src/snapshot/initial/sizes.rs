//! How large a block was whose end no event shows.

use super::super::AllocatorSettings;
use super::backward::{Live, Range};

/// The largest rest of a block of the large pool that is not split off (`kSmallSize`), in bytes.
const KEPT_REST: u64 = 1 << 20;

/// The size of a live block, and whether the file settles it. If not, it is the smallest possible.
///
/// Blocks tile a segment. In the small pool and in expandable segments every rest is split off, so a block is
/// its request, rounded. In the large pool a rest of up to 1 MiB stays with the block, and no block is that
/// small: so a gap of up to 1 MiB before the next thing held is such a rest, and a larger one is a free block,
/// with or without a rest before it.
pub(super) fn infer(address: u64, live: &Live, range: &Range, settings: &AllocatorSettings) -> (u64, bool) {
    if let Some(size) = live.size {
        return (size, true);
    }
    let room = live.bound.min(range.end) - address;
    let rounded = settings.round_size(live.requested_size).unwrap_or(room);
    if rounded >= room {
        return (room, true);
    }
    if range.is_small || range.is_expandable {
        return (rounded, true);
    }
    if room - rounded <= KEPT_REST || settings.takes_blocks_whole(rounded) {
        (room, true)
    } else {
        (rounded, false)
    }
}
