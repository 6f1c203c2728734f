#![expect(unsafe_code, reason = "pairs boxed queue nodes with the deleter that puts them on the queue")]
//! [`DeferredFreeAllocator`]: an adaptor that frees memory later, in bulk.
//!
//! A deleter puts its memory on a lock-free queue, which is one compare-and-exchange, and returns. The queue
//! goes back to the inner allocator in bulk: by [`flush`](DeferredFreeAllocator::flush), or as the bound
//! ([`MaxPending`]) has it. Nothing is lost if nobody flushes: the end of the adaptor frees what is queued, and
//! memory that outlives it is freed at once.
//!
//! // Note [Deferral up to the peak]
//! A program whose memory falls and rises again pays for a fall when it frees, and where the system takes the
//! pages back, for the rise too: they are faulted in anew. Yet what waits while memory is low costs no peak, if
//! it is gone before memory has risen again. So [`MaxPending::UpToPeak`] bounds live and waiting bytes together,
//! by the most that were live at once, and keeps the bound where they grow: a request that would pass it first
//! frees a batch of what waits. A burst of frees is then paid by the requests that follow, and the inner
//! allocator is asked for memory right after it got some back.
//!
//! The counts: `held` grows when memory was given and shrinks when it is back, `pending` counts what is queued
//! or about to be freed, and live bytes are the difference. Requests that run at one time do not see each
//! other: held bytes may pass the bound by what other threads are asking for at that moment, and by the one
//! block that each of them may be freeing.

use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::sync::Arc;

use super::Allocator;
use super::hand_over::{HandOver, Node, Taken};
use crate::data_ptr::{DataPtr, DeleterEntry};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// How many bytes a [`DeferredFreeAllocator`] may have waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxPending {
    /// So many that live and waiting bytes together never exceed the most that were live at once: the peak is
    /// that of freeing at once. A request that would pass it frees, the newest first, what it takes and one
    /// part in this many of that peak besides (0: nothing besides). What waits is held until then, or until a
    /// flush.
    UpToPeak(u32),
    /// One part in this many of the most bytes that were held at once, live or waiting; 0 is none. The free
    /// that would pass it frees all that waits.
    PeakPart(u32),
    /// So many bytes. As [`PeakPart`](Self::PeakPart) otherwise.
    Bytes(usize),
}

/// How a [`DeferredFreeAllocator`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferredFreeConfig {
    /// How many bytes may wait; unless said otherwise as many as do not raise the peak, freed in quarters of it.
    pub max_pending: MaxPending,
    /// Whether memory other than the host's may wait too. Its order with work on streams is then for the
    /// caller to keep.
    pub allow_devices: bool,
}

impl Default for DeferredFreeConfig {
    fn default() -> Self {
        Self { max_pending: MaxPending::UpToPeak(4), allow_devices: false }
    }
}

/// Wraps an allocator of host memory and frees what it gave out later, in bulk.
///
/// Memory may outlive the adaptor.
pub struct DeferredFreeAllocator {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Arc<dyn Allocator>,
    max_pending: MaxPending,
    queue: HandOver<Block>,
    /// What was taken off the queue to free some of it. Locked to take one out, and not to free it.
    backlog: Mutex<Taken<Block>>,
    /// The bytes of the queued blocks, and of those about to be queued.
    pending: AtomicUsize,
    /// The bytes that the inner allocator gave and has not got back.
    held: AtomicUsize,
    held_peak: AtomicUsize,
    live_peak: AtomicUsize,
}

/// A piece of the inner allocator's memory. In a box it is the context of the pointer given out, and later
/// the node in the queue.
struct Block {
    inner: DataPtr,
    bytes: usize,
    /// Where it goes; taken out before it is queued, so that the queue does not own itself.
    home: Option<Arc<Shared>>,
}

static DEFER: DeleterEntry = DeleterEntry::new("deferred_free_allocator", defer).with_inner(inner_of);

impl DeferredFreeAllocator {
    /// Frees `inner`'s memory later.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) when the memory is not the host's and
    /// [`allow_devices`](DeferredFreeConfig::allow_devices) is off.
    pub fn try_new(inner: Arc<dyn Allocator>, config: DeferredFreeConfig) -> Result<Self> {
        let device = inner.device();
        if !device.is_cpu() && !config.allow_devices {
            return Err(Error::invalid_argument(format!(
                "freeing memory of {device} later needs `allow_devices`: its order with work on streams is not kept"
            )));
        }
        let shared = Shared {
            inner,
            max_pending: config.max_pending,
            queue: HandOver::new(),
            backlog: Mutex::new(Taken::default()),
            pending: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            held_peak: AtomicUsize::new(0),
            live_peak: AtomicUsize::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Frees what is waiting, and returns how many bytes that was.
    pub fn flush(&self) -> usize {
        self.shared.flush()
    }

    /// The bytes that are waiting now.
    pub fn pending_bytes(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed)
    }

    /// The most bytes that may wait now, if no more are allocated.
    pub fn max_pending_bytes(&self) -> usize {
        self.shared.bound()
    }

    /// The bytes that are held of the inner allocator now, live or waiting.
    pub fn held_bytes(&self) -> usize {
        self.shared.held.load(Ordering::Relaxed)
    }

    /// The most bytes that were held at once.
    pub fn held_bytes_peak(&self) -> usize {
        self.shared.held_peak.load(Ordering::Relaxed)
    }

    /// The allocator behind this one.
    pub fn inner(&self) -> &Arc<dyn Allocator> {
        &self.shared.inner
    }
}

// SAFETY: the memory is the inner allocator's, whose pointer is owned whole until after `defer` has run.
unsafe impl Allocator for DeferredFreeAllocator {
    fn device(&self) -> Device {
        self.shared.inner.device()
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        let shared = &self.shared;
        if bytes == 0 {
            return shared.inner.allocate(0);
        }
        shared.make_room(bytes);
        let inner = match shared.inner.allocate(bytes) {
            Ok(inner) => inner,
            // What waits here may be what the inner allocator lacks.
            Err(error) if shared.flush() == 0 => return Err(error),
            Err(_) => shared.inner.allocate(bytes)?,
        };
        shared.hold(bytes);
        let (data, device) = (inner.as_ptr(), inner.device());
        let block = Block { inner, bytes, home: Some(Arc::clone(shared)) };
        let context = Box::into_raw(Box::new(Node::new(block)));
        // SAFETY: the node owns the inner pointer, and with it the memory, until `defer` takes it, on whatever
        // thread; `inner_of` points into the node, which never moves.
        Ok(unsafe { DataPtr::new(data, context.cast(), &DEFER, device) })
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty is the same.
        unsafe { self.shared.inner.copy_data(dst, src, bytes) }
    }
}

impl Drop for DeferredFreeAllocator {
    fn drop(&mut self) {
        let waiting = self.shared.queue.close();
        let backlog = mem::take(&mut *lock(&self.shared.backlog));
        waiting.chain(backlog).for_each(|node| self.shared.free(node));
    }
}

unsafe fn defer(context: *mut c_void) {
    // SAFETY: `allocate` made the context from a box of this type, and a deleter runs once.
    let mut node = unsafe { Box::from_raw(context.cast::<Node<Block>>()) };
    let home = node.value.home.take().expect("it is taken here alone");
    home.defer(node);
}

unsafe fn inner_of(context: *mut c_void) -> *const DataPtr {
    let node = context.cast::<Node<Block>>();
    // SAFETY: the caller's context is a live box of this type.
    unsafe { &raw const (*node).value.inner }
}

impl Shared {
    fn defer(&self, node: Box<Node<Block>>) {
        let bytes = node.value.bytes;
        // Reserved before it is queued: the queue never holds more than was reserved within the bound.
        let pending = self.pending.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.max_pending_at_free().is_some_and(|bound| pending > bound) {
            self.free(node);
            self.flush();
        } else if let Err(node) = self.queue.push(node) {
            self.free(node);
        }
    }

    /// Frees what waits now, block by block off the common backlog: a request of another thread that needs
    /// room can then take its part, and does not find that all of it is taken and none of it free.
    fn flush(&self) -> usize {
        self.free_some(self.pending.load(Ordering::Relaxed))
    }

    /// Frees what stands in the way of `bytes` bytes more. See Note [Deferral up to the peak].
    #[inline]
    fn make_room(&self, bytes: usize) {
        let MaxPending::UpToPeak(part) = self.max_pending else { return };
        let pending = self.pending.load(Ordering::Acquire);
        if pending == 0 {
            return;
        }
        let held = self.held.load(Ordering::Relaxed);
        let live = held.saturating_sub(pending).saturating_add(bytes);
        let peak = live.max(self.live_peak.load(Ordering::Relaxed));
        let wanted = held.saturating_add(bytes);
        if wanted > peak {
            let batch = peak.checked_div(part as usize).unwrap_or(0);
            self.free_some((wanted - peak).saturating_add(batch));
        }
    }

    /// Frees what waits until that has been `bytes` bytes, whatever comes to wait meanwhile.
    fn free_some(&self, bytes: usize) -> usize {
        let mut freed = 0;
        while freed < bytes {
            let Some(node) = self.next_waiting() else { break };
            freed += node.value.bytes;
            self.free(node);
        }
        freed
    }

    fn next_waiting(&self) -> Option<Box<Node<Block>>> {
        let mut backlog = lock(&self.backlog);
        backlog.next().or_else(|| {
            *backlog = self.queue.take_all();
            backlog.next()
        })
    }

    fn free(&self, node: Box<Node<Block>>) {
        let bytes = node.value.bytes;
        drop(node);
        // Counted once it is given back.
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.pending.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn hold(&self, bytes: usize) {
        // First: what is freed from here on is then counted too little, and not too much.
        let pending = self.pending.load(Ordering::Acquire);
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        raise(&self.held_peak, held);
        raise(&self.live_peak, held.saturating_sub(pending));
    }

    /// The most bytes that may wait, where a free that passes it flushes.
    #[inline]
    fn max_pending_at_free(&self) -> Option<usize> {
        match self.max_pending {
            MaxPending::UpToPeak(_) => None,
            MaxPending::Bytes(bytes) => Some(bytes),
            MaxPending::PeakPart(0) => Some(0),
            MaxPending::PeakPart(part) => Some(self.held_peak.load(Ordering::Relaxed) / part as usize),
        }
    }

    fn bound(&self) -> usize {
        self.max_pending_at_free().unwrap_or_else(|| {
            let live = self.held.load(Ordering::Relaxed).saturating_sub(self.pending.load(Ordering::Relaxed));
            self.live_peak.load(Ordering::Relaxed).saturating_sub(live)
        })
    }
}

/// Makes `peak` at least `value`.
fn raise(peak: &AtomicUsize, value: usize) {
    if value > peak.load(Ordering::Relaxed) {
        peak.fetch_max(value, Ordering::Relaxed);
    }
}

impl fmt::Debug for DeferredFreeAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredFreeAllocator")
            .field("inner", &self.shared.inner)
            .field("max_pending", &self.shared.max_pending)
            .field("pending_bytes", &self.pending_bytes())
            .field("held_bytes", &self.held_bytes())
            .finish()
    }
}
