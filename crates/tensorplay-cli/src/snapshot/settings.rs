//! [`AllocatorSettings`]: how the recorded allocator was configured.

/// The parts of a snapshot's `allocator_settings` that decide where blocks go.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct AllocatorSettings {
    /// The configuration string as the program gave it (`PYTORCH_CUDA_ALLOC_CONF`).
    pub(crate) conf: String,
    /// In bytes; `None` is unlimited.
    pub(crate) max_split_size: Option<u64>,
    /// A fraction of the memory limit, 0 for never.
    pub(crate) garbage_collection_threshold: f64,
    /// Whether new segments were expandable.
    pub(crate) expandable_segments: bool,
    /// Steps between two powers of two to which sizes are rounded, 0 for none; the index is that of
    /// [`Self::round_size`].
    pub(crate) roundup_power2_divisions: [u64; 16],
}

impl AllocatorSettings {
    /// The size of the block that serves a request, before the rest of a free block that is too small to split
    /// off is added (`round_size`). `None` when it is beyond 64 bits.
    pub(crate) fn round_size(&self, requested: u64) -> Option<u64> {
        const MIN_BLOCK: u64 = 512;
        if requested < MIN_BLOCK {
            return Some(MIN_BLOCK);
        }
        let divisions = self.roundup_power2_divisions[Self::division_index(requested)];
        if divisions > 1 && requested > MIN_BLOCK.checked_mul(divisions)? {
            let floor = 1u64 << requested.ilog2();
            return match floor >> divisions.ilog2() {
                _ if requested == floor => Some(requested),
                0 => floor.checked_mul(2),
                step => requested.checked_next_multiple_of(step),
            };
        }
        requested.checked_next_multiple_of(MIN_BLOCK)
    }

    /// The index into the divisions: whole powers of two above 1 MiB.
    pub(crate) fn division_index(size: u64) -> usize {
        size.checked_ilog2().unwrap_or(0).saturating_sub(20).min(15) as usize
    }

    /// Whether a request takes a free block whole, however large the block is (`should_split`).
    pub(crate) fn takes_blocks_whole(&self, rounded: u64) -> bool {
        self.max_split_size.is_some_and(|max| rounded >= max)
    }
}
