//! [`Limits`]: how large a snapshot may be before reading it is refused.

/// Bounds on what a file can make the reader do. They hold whatever the file says about its own sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of the file after decompression.
    pub(crate) input_bytes: u64,
    /// Values, and references from lists and dicts to values. Each costs at most about 64 bytes of memory.
    pub(crate) values: usize,
    /// Containers within containers. A snapshot has seven.
    pub(crate) depth: u32,
}

impl Default for Limits {
    /// 4 GiB, some 268 million values, 64 containers deep: many times a snapshot of a million events.
    fn default() -> Self {
        Self { input_bytes: 4 << 30, values: 1 << 28, depth: 64 }
    }
}
