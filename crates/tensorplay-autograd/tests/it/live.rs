//! Counts the storages that a test leaves behind: an observer remembers what threads that are tracked allocate, until
//! whatever thread frees it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use c10_core::reporting::{Attached, MemoryEvent, MemoryObserver, attach};

thread_local! {
    static TRACKER: Cell<u64> = const { Cell::new(0) };
}

/// Whose the allocation at an address is, and how many bytes it has.
static LIVE: Mutex<Option<HashMap<usize, (u64, i64)>>> = Mutex::new(None);

struct Observer;

impl MemoryObserver for Observer {
    fn on_memory(&self, event: &MemoryEvent) {
        let tracker = TRACKER.get();
        let mut live = live();
        let live = live.get_or_insert_default();
        if event.bytes < 0 {
            live.remove(&event.address);
        } else if tracker != 0 {
            live.insert(event.address, (tracker, event.bytes));
        }
    }
}

fn live() -> MutexGuard<'static, Option<HashMap<usize, (u64, i64)>>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread tracks, for threads that it starts.
#[derive(Clone, Copy)]
pub(crate) struct Tracked(u64);

impl Tracked {
    /// This thread's.
    pub(crate) fn here() -> Self {
        Self(TRACKER.get())
    }

    /// Tracks on this thread too.
    pub(crate) fn join(self) {
        TRACKER.set(self.0);
    }

    /// How many allocations are live, and their bytes.
    pub(crate) fn count(self) -> (usize, i64) {
        let live = live();
        let own = live.iter().flatten().filter(|(_, (tracker, _))| *tracker == self.0);
        own.fold((0, 0), |(count, bytes), (_, (_, more))| (count + 1, bytes + more))
    }
}

/// Runs `f`, after which no storage that it made is left.
pub(crate) fn none_left<R>(f: impl FnOnce() -> R) -> R {
    static ATTACHED: OnceLock<Attached> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ATTACHED.get_or_init(|| attach(Arc::new(Observer)));
    let tracked = Tracked(NEXT.fetch_add(1, Ordering::Relaxed));
    tracked.join();
    let result = f();
    TRACKER.set(0);
    assert_eq!(tracked.count(), (0, 0), "storages and bytes that are left");
    result
}
