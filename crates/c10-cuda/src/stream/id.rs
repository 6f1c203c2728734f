//! What the bits of a [`StreamId`] say, as PyTorch has them (`c10::cuda::CUDAStream`).
//!
//! 0 is the default stream, and 2 the calling thread's own (`cudaStreamPerThread`). A stream of the pool is
//! `index << 5 | (priority class + 1) << 1 | 1`. Any other even number is the driver's own value of an external
//! stream, which somebody else owns.

use c10_core::StreamId;

/// How many streams the pool has of each priority class.
pub const STREAMS_PER_POOL: usize = 32;
/// How many priority classes there are at most.
pub const MAX_PRIORITY_CLASSES: usize = 4;

/// What a [`StreamId`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// The default stream.
    Default,
    /// The default stream of the calling thread: another one on each thread.
    PerThread,
    /// A stream of the pool.
    Pool {
        /// Its priority class; 0 is the lowest.
        class: usize,
        /// Its place among those of the class.
        index: usize,
    },
    /// Somebody else's stream: the driver's value.
    External(u64),
}

impl StreamKind {
    /// What `id` stands for; `None` when it was not made here.
    pub fn of(id: StreamId) -> Option<Self> {
        match id.0 {
            0 => Some(Self::Default),
            2 => Some(Self::PerThread),
            bits if bits & 1 == 0 => Some(Self::External(bits as u64)),
            bits => {
                let (kind, index) = ((bits >> 1) & 0b1111, bits >> 5);
                let class = usize::try_from(kind - 1).ok().filter(|c| *c < MAX_PRIORITY_CLASSES)?;
                let index = usize::try_from(index).ok().filter(|i| *i < STREAMS_PER_POOL)?;
                Some(Self::Pool { class, index })
            }
        }
    }

    /// The id that stands for it.
    pub const fn id(self) -> StreamId {
        match self {
            Self::Default => StreamId(0),
            Self::PerThread => StreamId(2),
            Self::Pool { class, index } => StreamId(((index as i64) << 5) | ((class as i64 + 1) << 1) | 1),
            Self::External(raw) => StreamId(raw as i64),
        }
    }
}
