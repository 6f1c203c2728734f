//! [`Handle`]: what the program holds of a context, a stream, and all else that the driver makes.

use std::sync::atomic::{AtomicU64, Ordering};

/// A `CUcontext`, `CUstream`, `CUevent`, … as the program holds it: a pointer that nobody can follow. No number is
/// given out twice in the life of a process, so that a handle of something that is gone is known as such.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle(pub(crate) u64);

/// Set in every handle: no address of any process has it.
const MARK: u64 = 1 << 62;

impl Handle {
    pub(crate) const NULL: Self = Self(0);

    pub(crate) const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The next one.
    pub(crate) fn next() -> Self {
        static GIVEN_OUT: AtomicU64 = AtomicU64::new(1);
        Self(MARK | GIVEN_OUT.fetch_add(1, Ordering::Relaxed) << 4)
    }
}
