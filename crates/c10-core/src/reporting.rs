//! Memory observers: who wants to know of every allocation and every free (`MemoryReportingInfoBase`,
//! `reportMemoryUsageToProfiler`).
//!
//! The allocator that *owns* memory reports it, once when it is given out and once when it comes back, with
//! the same number of bytes; adaptors in front of it report nothing. With no observer attached (and no
//! `tracing` subscriber that asks for these events) a report costs one relaxed load.
//!
//! Observers are called on the thread that allocates or frees, with no lock of this crate held: an observer
//! may allocate, attach and detach. It is not called for what it does itself inside a call, so that one that
//! allocates does not report itself for ever; the others are. A panic in an observer is caught, since a
//! deleter must not unwind, and detaches it.
//!
//! Differs from PyTorch: observers are process-wide and any number; PyTorch has one slot per thread, and so
//! misses what other threads free.

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::device::Device;
use crate::sync::global::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::global::{Mutex, MutexGuard, PoisonError};

/// Memory was given out or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// The address, which the host may be unable to read.
    pub address: usize,
    /// How many bytes; negative when they came back.
    pub bytes: i64,
    /// The bytes that the reporting allocator has given out, on this device, after the event.
    pub total_allocated: u64,
    /// The bytes that it holds of the system or the driver, given out or cached.
    pub total_reserved: u64,
    /// Where the memory is.
    pub device: Device,
}

/// A request failed for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemoryEvent {
    /// How many bytes were asked for.
    pub requested: u64,
    /// As [`MemoryEvent::total_allocated`].
    pub total_allocated: u64,
    /// As [`MemoryEvent::total_reserved`].
    pub total_reserved: u64,
    /// Where the memory would have been.
    pub device: Device,
}

/// Is told of every allocation and free of the process.
pub trait MemoryObserver: Send + Sync {
    /// Memory was given out or came back.
    fn on_memory(&self, event: &MemoryEvent);

    /// A request failed for want of memory.
    fn on_out_of_memory(&self, event: &OutOfMemoryEvent) {
        let _ = event;
    }
}

/// Attaches an observer until the guard is dropped.
///
/// A report that another thread is making while the guard drops may still reach the observer.
pub fn attach(observer: Arc<dyn MemoryObserver>) -> Attached {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let slot = Arc::new(Slot { id, observer, attached: AtomicBool::new(true) });
    replace_list(|list| list.push(Arc::clone(&slot)));
    Attached { slot }
}

/// Keeps an observer attached (see [`attach`]).
#[must_use = "the observer is detached when this is dropped"]
pub struct Attached {
    slot: Arc<Slot>,
}

impl Attached {
    /// Whether the observer still is attached: it is not any more when a call of it panicked.
    pub fn is_attached(&self) -> bool {
        self.slot.attached.load(Ordering::Acquire)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        detach(&self.slot);
    }
}

/// Whether anybody would hear a report. One relaxed load; a callsite's level check more with the `tracing`
/// feature.
#[inline]
pub fn is_observed() -> bool {
    OBSERVERS.load(Ordering::Relaxed) != 0 || traced::memory()
}

/// Reports that memory was given out or came back. For the allocator that owns the memory; called with no
/// lock held. `event` is called only where somebody listens.
#[inline]
pub fn report(event: impl FnOnce() -> MemoryEvent) {
    if is_observed() {
        report_to_all(&event());
    }
}

/// Reports that a request failed for want of memory. As [`report`].
#[inline]
pub fn report_out_of_memory(event: impl FnOnce() -> OutOfMemoryEvent) {
    if OBSERVERS.load(Ordering::Relaxed) != 0 || traced::out_of_memory() {
        report_out_of_memory_to_all(&event());
    }
}

struct Slot {
    id: u64,
    observer: Arc<dyn MemoryObserver>,
    attached: AtomicBool,
}

type List = Vec<Arc<Slot>>;

/// How many are attached: the length of [`LIST`], readable without its lock.
static OBSERVERS: AtomicUsize = AtomicUsize::new(0);
/// The observers in order of attaching. Replaced whole, so that a reporter can call them with the lock free.
static LIST: Mutex<Option<Arc<List>>> = Mutex::new(None);

/// How deep observers may be nested on one thread: an event inside that many calls reaches nobody.
const MAX_NESTED: usize = 8;

thread_local! {
    /// The ids of the observers that this thread is inside a call of; 0 where there is none. Without a
    /// destructor, so that memory freed while a thread ends is reported like any other.
    static INSIDE: Cell<[u64; MAX_NESTED]> = const { Cell::new([0; MAX_NESTED]) };
}

fn lock_list() -> MutexGuard<'static, Option<Arc<List>>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn replace_list(change: impl FnOnce(&mut List)) {
    let mut current = lock_list();
    let mut list = current.as_deref().cloned().unwrap_or_default();
    change(&mut list);
    OBSERVERS.store(list.len(), Ordering::Relaxed);
    let old = current.replace(Arc::new(list));
    drop(current);
    // The last reference to an observer may be in the old list, and its destructor may do anything.
    drop(old);
}

fn detach(slot: &Arc<Slot>) {
    if slot.attached.swap(false, Ordering::AcqRel) {
        replace_list(|list| list.retain(|other| other.id != slot.id));
    }
}

#[cold]
fn report_to_all(event: &MemoryEvent) {
    let _ = is_panic(|| traced::emit_memory(event));
    call_each(|observer| observer.on_memory(event));
}

#[cold]
fn report_out_of_memory_to_all(event: &OutOfMemoryEvent) {
    let _ = is_panic(|| traced::emit_out_of_memory(event));
    call_each(|observer| observer.on_out_of_memory(event));
}

fn call_each(call: impl Fn(&dyn MemoryObserver)) {
    let list = lock_list().clone();
    for slot in list.iter().flat_map(|list| list.iter()) {
        let outer = INSIDE.get();
        let Some(depth) = outer.iter().position(|&id| id == 0 || id == slot.id) else { continue };
        if outer[depth] == slot.id || !slot.attached.load(Ordering::Acquire) {
            continue;
        }
        let mut inside = outer;
        inside[depth] = slot.id;
        INSIDE.set(inside);
        let panicked = is_panic(|| call(&*slot.observer));
        INSIDE.set(outer);
        if panicked {
            detach(slot);
        }
    }
    // An observer that was detached meanwhile may end here, and its destructor is foreign code too.
    let _ = is_panic(|| drop(list));
}

/// Calls foreign code that must not unwind into a deleter, and says whether it panicked.
fn is_panic(call: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(()) => false,
        Err(payload) => {
            // Its destructor may panic too, with a payload of its own.
            mem::forget(catch_unwind(AssertUnwindSafe(|| drop(payload))));
            true
        }
    }
}

/// The same reports as `tracing` events.
#[cfg(feature = "tracing")]
mod traced {
    use super::{MemoryEvent, OutOfMemoryEvent};
    use tracing::Level;

    const TARGET: &str = "c10::memory";

    #[inline]
    pub(super) fn memory() -> bool {
        tracing::enabled!(target: TARGET, Level::TRACE)
    }

    #[inline]
    pub(super) fn out_of_memory() -> bool {
        tracing::enabled!(target: TARGET, Level::WARN)
    }

    pub(super) fn emit_memory(event: &MemoryEvent) {
        tracing::event!(
            target: TARGET,
            Level::TRACE,
            address = event.address,
            bytes = event.bytes,
            total_allocated = event.total_allocated,
            total_reserved = event.total_reserved,
            device = %event.device,
            "memory"
        );
    }

    pub(super) fn emit_out_of_memory(event: &OutOfMemoryEvent) {
        tracing::event!(
            target: TARGET,
            Level::WARN,
            requested = event.requested,
            total_allocated = event.total_allocated,
            total_reserved = event.total_reserved,
            device = %event.device,
            "out of memory"
        );
    }
}

#[cfg(not(feature = "tracing"))]
mod traced {
    use super::{MemoryEvent, OutOfMemoryEvent};

    #[inline]
    pub(super) const fn memory() -> bool {
        false
    }

    #[inline]
    pub(super) const fn out_of_memory() -> bool {
        false
    }

    pub(super) const fn emit_memory(_: &MemoryEvent) {}

    pub(super) const fn emit_out_of_memory(_: &OutOfMemoryEvent) {}
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("is_attached", &self.is_attached()).finish()
    }
}
