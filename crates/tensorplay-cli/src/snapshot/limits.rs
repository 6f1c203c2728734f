//! [`Limits`]: how large a snapshot may be before reading it is refused.

/// Bounds on what a file can make the reader do. They hold whatever the file says about its own sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of the file after decompression.
    pub(crate) input_bytes: u64,
    /// Bytes of memory for the values of the file, by their exact sizes; growing tables may take twice as much.
    pub(crate) memory_bytes: usize,
    /// Containers within containers. A snapshot has seven.
    pub(crate) depth: u32,
}

impl Default for Limits {
    /// 4 GiB of file, 2 GiB of values, 64 containers deep: many times a snapshot of a million events.
    fn default() -> Self {
        Self { input_bytes: 4 << 30, memory_bytes: 2 << 30, depth: 64 }
    }
}
