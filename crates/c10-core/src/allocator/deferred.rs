#![expect(unsafe_code, reason = "pairs boxed queue nodes with the deleter that puts them on the queue")]
//! [`DeferredFreeAllocator`]: an adaptor that frees memory later, in bulk.
//!
//! A deleter puts its memory on a lock-free queue, which is one compare-and-exchange, and returns; whoever
//! finds the queue at its bound gives all of it back to the inner allocator. Nothing is lost if nobody does:
//! the end of the adaptor frees what is queued, and memory that outlives it is freed at once.
//!
//! What memory this costs: queued bytes never exceed the bound ([`MaxPending`]). By default that is a sixteenth
//! of the most bytes that were ever held, live or queued; so at any time held ≤ most live + held_max / 16,
//! and the peak is at most 16/15 of what freeing at once needs, below 7 % more.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use super::Allocator;
use super::hand_over::{HandOver, Node};
use crate::data_ptr::{DataPtr, DeleterEntry};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes a [`DeferredFreeAllocator`] may have waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxPending {
    /// One part in this many of the most bytes that were held at once, live or waiting; 0 is none.
    PeakPart(u32),
    /// So many bytes.
    Bytes(usize),
}

/// How a [`DeferredFreeAllocator`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferredFreeConfig {
    /// How many bytes may wait; a sixteenth of the peak unless said otherwise.
    pub max_pending: MaxPending,
    /// Whether memory other than the host's may wait too. Its order with work on streams is then for the
    /// caller to keep.
    pub allow_devices: bool,
}

impl Default for DeferredFreeConfig {
    fn default() -> Self {
        Self { max_pending: MaxPending::PeakPart(16), allow_devices: false }
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
    /// The bytes of the queued blocks, and of those about to be queued.
    pending: AtomicUsize,
    /// The bytes that the inner allocator gave and has not got back.
    held: AtomicUsize,
    held_peak: AtomicUsize,
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
            pending: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            held_peak: AtomicUsize::new(0),
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

    /// The most bytes that may wait now.
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
        self.shared.free_all(waiting);
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
        if pending > self.bound() {
            self.free(node);
            self.flush();
        } else if let Err(node) = self.queue.push(node) {
            self.free(node);
        }
    }

    fn flush(&self) -> usize {
        self.free_all(self.queue.take_all())
    }

    fn free_all(&self, nodes: impl Iterator<Item = Box<Node<Block>>>) -> usize {
        let mut bytes = 0;
        for node in nodes {
            bytes += node.value.bytes;
            drop(node);
        }
        self.let_go(bytes);
        bytes
    }

    fn free(&self, node: Box<Node<Block>>) {
        let bytes = node.value.bytes;
        drop(node);
        self.let_go(bytes);
    }

    /// Counts bytes as given back, once they are.
    fn let_go(&self, bytes: usize) {
        if bytes > 0 {
            self.pending.fetch_sub(bytes, Ordering::Relaxed);
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn hold(&self, bytes: usize) {
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held > self.held_peak.load(Ordering::Relaxed) {
            self.held_peak.fetch_max(held, Ordering::Relaxed);
        }
    }

    fn bound(&self) -> usize {
        match self.max_pending {
            MaxPending::Bytes(bytes) => bytes,
            MaxPending::PeakPart(0) => 0,
            MaxPending::PeakPart(part) => self.held_peak.load(Ordering::Relaxed) / part as usize,
        }
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
