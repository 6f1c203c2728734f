//! The current device, and the current stream of each device, of a thread.
//!
//! Each runtime has its own on each thread. The entry used last stands apart, so that a program with one
//! runtime pays one comparison.

use std::cell::{Cell, RefCell};

use c10_core::{DeviceIndex, Stream};

use crate::driver::StreamHandle;
use crate::sync::Arc;

/// What is current for one runtime on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) device: DeviceIndex,
    /// The current stream of that device.
    pub(crate) stream: StreamHandle,
}

struct Entry {
    runtime: u64,
    /// Dead once the runtime is: its entry can go.
    alive: std::sync::Weak<()>,
    device: DeviceIndex,
    /// By device.
    streams: Vec<(Stream, StreamHandle)>,
}

thread_local! {
    /// The runtime used last, 0 for none, and what is current for it.
    static LAST: Cell<(u64, Current)> = const {
        Cell::new((0, Current { device: 0, stream: StreamHandle { device: 0, raw: 0 } }))
    };
    static ENTRIES: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

/// What is current for a runtime on this thread.
#[inline]
pub(crate) fn current(runtime: u64, alive: &Arc<()>, devices: DeviceIndex) -> Current {
    let (last, current) = LAST.get();
    if last == runtime { current } else { update(runtime, alive, devices, |_| {}) }
}

/// The current stream of a device on this thread, by the runtime's number; the default stream where this thread never
/// asked.
pub(crate) fn existing_stream(runtime: u64, device: DeviceIndex) -> StreamHandle {
    let (last, current) = LAST.get();
    if last == runtime && current.device == device {
        return current.stream;
    }
    let found = ENTRIES.try_with(|entries| {
        let entries = entries.try_borrow().ok()?;
        let entry = entries.iter().find(|entry| entry.runtime == runtime)?;
        entry.streams.get(usize::from(device)).map(|(_, handle)| *handle)
    });
    found.ok().flatten().unwrap_or(StreamHandle::default_of(device))
}

/// The current stream of one device.
pub(crate) fn stream(runtime: u64, alive: &Arc<()>, devices: DeviceIndex, device: DeviceIndex) -> Stream {
    let mut stream = None;
    update(runtime, alive, devices, |entry| stream = Some(entry.streams[usize::from(device)].0));
    stream.expect("`update` has run its closure")
}

/// Makes a device current.
pub(crate) fn set_device(runtime: u64, alive: &Arc<()>, devices: DeviceIndex, device: DeviceIndex) {
    update(runtime, alive, devices, |entry| entry.device = device);
}

/// Makes a stream the current one of its device.
pub(crate) fn set_stream(
    runtime: u64,
    alive: &Arc<()>,
    devices: DeviceIndex,
    stream: Stream,
    handle: StreamHandle,
) {
    update(runtime, alive, devices, |entry| entry.streams[usize::from(handle.device)] = (stream, handle));
}

fn update(runtime: u64, alive: &Arc<()>, devices: DeviceIndex, change: impl FnOnce(&mut Entry)) -> Current {
    let mut change = Some(change);
    let mut apply = |entry: &mut Entry| {
        change.take().expect("one entry is changed")(entry);
        let current = Current { device: entry.device, stream: entry.streams[usize::from(entry.device)].1 };
        LAST.set((runtime, current));
        current
    };
    let changed = ENTRIES.try_with(|entries| {
        let mut entries = entries.borrow_mut();
        let at = entries.iter().position(|e| e.runtime == runtime).unwrap_or_else(|| {
            entries.retain(|e| e.alive.strong_count() > 0);
            entries.push(Entry::new(runtime, alive, devices));
            entries.len() - 1
        });
        apply(&mut entries[at])
    });
    // The thread is ending, and its entries have gone before whoever asks: what is left is the default.
    changed.unwrap_or_else(|_| apply(&mut Entry::new(runtime, alive, devices)))
}

impl Entry {
    fn new(runtime: u64, alive: &Arc<()>, devices: DeviceIndex) -> Self {
        let default = |d| (Stream::default_of(c10_core::DeviceType::Cuda, d), StreamHandle::default_of(d));
        // A runtime without devices still has an answer, device 0, which every call then refuses.
        let streams = (0..devices.max(1)).map(default).collect();
        Self { runtime, alive: Arc::downgrade(alive), device: 0, streams }
    }
}
