//! What the program hangs into the allocator: callbacks that free memory, observers of out of memory.

use std::cell::Cell;
use std::fmt;
use std::thread::LocalKey;

use crate::error::OutOfMemory;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, lock};

/// Frees what it can spare, and says whether that was anything (`FreeMemoryCallback`).
pub type FreeMemoryCallback = Arc<dyn Fn() -> bool + Send + Sync>;
/// Is told of an out of memory before the error is returned (`OutOfMemoryObserver`).
pub type OutOfMemoryObserver = Arc<dyn Fn(&OutOfMemory) + Send + Sync>;

thread_local! {
    /// Whether this thread is in a callback that frees memory; one that asks for memory would call itself for
    /// ever.
    static FREES_MEMORY: Cell<bool> = const { Cell::new(false) };
    /// Whether it is in an observer, which likewise may run out of memory itself.
    static OBSERVES: Cell<bool> = const { Cell::new(false) };
}

/// The callbacks of an allocator. They are called with no lock held, and may use the allocator. One that holds a
/// handle of it keeps it for ever.
#[derive(Default)]
pub(crate) struct Callbacks {
    free_memory: Mutex<Vec<FreeMemoryCallback>>,
    count: AtomicUsize,
    out_of_memory: Mutex<Vec<OutOfMemoryObserver>>,
}

impl Callbacks {
    pub(crate) fn add_free_memory(&self, callback: FreeMemoryCallback) {
        let mut list = lock(&self.free_memory);
        list.push(callback);
        self.count.store(list.len(), Ordering::Release);
    }

    pub(crate) fn add_out_of_memory(&self, observer: OutOfMemoryObserver) {
        lock(&self.out_of_memory).push(observer);
    }

    /// Whether no callback frees memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Calls all that free memory, and says whether any did.
    pub(crate) fn free_memory(&self) -> bool {
        let Some(_entered) = Entered::new(&FREES_MEMORY) else { return false };
        let list = lock(&self.free_memory).clone();
        list.iter().fold(false, |freed, callback| callback() | freed)
    }

    /// Tells all observers.
    pub(crate) fn out_of_memory(&self, numbers: &OutOfMemory) {
        let Some(_entered) = Entered::new(&OBSERVES) else { return };
        let list = lock(&self.out_of_memory).clone();
        for observer in list {
            observer(numbers);
        }
    }
}

/// Marks this thread until it is dropped, by a panic too.
struct Entered(&'static LocalKey<Cell<bool>>);

impl Entered {
    /// `None` when the thread is marked already.
    fn new(mark: &'static LocalKey<Cell<bool>>) -> Option<Self> {
        (!mark.replace(true)).then(|| Self(mark))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}
