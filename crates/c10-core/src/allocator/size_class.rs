//! Size classes of the caching host allocator: which sizes share their free blocks.
//!
//! Up to 512 bytes every multiple of 64; above that eight steps per doubling, so that a block is less than an
//! eighth larger than the request.

/// Below this, classes are `STEP` apart.
const LINEAR: usize = 512;
const STEP: usize = 64;
const STEPS_PER_DOUBLING: usize = 8;
const LINEAR_CLASSES: usize = LINEAR / STEP;

/// The number of classes: those that end at or below `isize::MAX`, which no allocation exceeds.
pub(super) const CLASSES: usize = LINEAR_CLASSES + STEPS_PER_DOUBLING * (isize::BITS as usize - 1 - 9);

const _: () = assert!(LINEAR == 1 << 9 && LINEAR_CLASSES == STEPS_PER_DOUBLING);

/// A class and the size of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeClass {
    pub(super) index: usize,
    pub(super) capacity: usize,
}

impl SizeClass {
    /// The class for a request of `bytes` bytes, more than none; `None` if no allocation can be so large.
    #[inline]
    pub(super) fn of(bytes: usize) -> Option<Self> {
        debug_assert!(bytes > 0);
        if bytes <= LINEAR {
            let index = (bytes - 1) / STEP;
            return Some(Self { index, capacity: (index + 1) * STEP });
        }
        if bytes > isize::MAX as usize {
            return None;
        }
        // The last byte's place: which doubling it is in, and which step of that.
        let last = bytes - 1;
        let doubling = last.ilog2() as usize;
        let step = (last >> (doubling - 3)) & (STEPS_PER_DOUBLING - 1);
        let index = LINEAR_CLASSES + (doubling - 9) * STEPS_PER_DOUBLING + step;
        let capacity = (STEPS_PER_DOUBLING + step + 1).checked_shl(doubling as u32 - 3)?;
        Some(Self { index, capacity })
    }
}

#[cfg(test)]
mod tests;
