#![expect(unsafe_code, reason = "implements the contracts of allocators and hooks for a device of its own")]
//! A device type with three devices, whose memory is host memory that the host does not reach: it is kept in a
//! map by addresses that no mapping has. As c10's `FakeGuardImpl`, with memory.
//!
//! Work runs when it is enqueued. Current device and streams are per thread, so that tests do not meet.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, Once};

use c10_core::allocator::Allocator;
use c10_core::data_ptr::DeleterEntry;
use c10_core::hooks::{DeviceHooks, Place, hooks, register_hooks};
use c10_core::{
    DataPtr, Device, DeviceIndex, DeviceType, Error, ErrorKind, Event, EventFlags, EventId, Result, Stream,
    StreamId,
};

pub(crate) const TYPE: DeviceType = DeviceType::PrivateUse1;
const DEVICES: DeviceIndex = 3;
const STREAMS: i64 = 4;

struct State {
    blocks: BTreeMap<usize, Vec<u8>>,
    next_address: usize,
    events: BTreeMap<u64, Option<Stream>>,
    next_event: u64,
    recorded: BTreeSet<(usize, Stream)>,
}

static STATE: Mutex<State> = Mutex::new(State {
    blocks: BTreeMap::new(),
    next_address: 1 << 52,
    events: BTreeMap::new(),
    next_event: 1,
    recorded: BTreeSet::new(),
});

thread_local! {
    static CURRENT: RefCell<Current> = const {
        RefCell::new(Current { device: 0, streams: [0; DEVICES as usize], fail_copies: false, panic_copies: false })
    };
}

struct Current {
    device: DeviceIndex,
    streams: [i64; DEVICES as usize],
    fail_copies: bool,
    panic_copies: bool,
}

static FREE: DeleterEntry = DeleterEntry::new("fake_device", free);

unsafe fn free(context: *mut c_void) {
    let mut state = STATE.lock().unwrap();
    assert!(state.blocks.remove(&context.addr()).is_some(), "freed once");
    state.recorded.retain(|&(address, _)| address != context.addr());
}

/// The fake device's allocator and hooks.
#[derive(Debug)]
pub(crate) struct Fake;

/// Registers the hooks, once.
pub(crate) fn fake() -> &'static dyn DeviceHooks {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register_hooks(Arc::new(Fake)).unwrap();
    });
    hooks(TYPE).unwrap()
}

/// Whether this thread's copies fail.
pub(crate) fn fail_copies(fail: bool) {
    CURRENT.with_borrow_mut(|current| current.fail_copies = fail);
}

/// Whether this thread's copies panic.
pub(crate) fn panic_copies(panic: bool) {
    CURRENT.with_borrow_mut(|current| current.panic_copies = panic);
}

/// Whether a live block begins at `address`.
pub(crate) fn is_live(address: *const u8) -> bool {
    STATE.lock().unwrap().blocks.contains_key(&address.addr())
}

/// Whether `record_stream` was called for the live block at `address`.
pub(crate) fn is_recorded(address: *const u8, stream: Stream) -> bool {
    STATE.lock().unwrap().recorded.contains(&(address.addr(), stream))
}

fn driver_error(text: &str) -> Error {
    Error::new(ErrorKind::Driver, text)
}

fn check_index(index: DeviceIndex) -> Result<()> {
    if index < DEVICES { Ok(()) } else { Err(Error::invalid_argument(format!("no fake device {index}"))) }
}

fn check_stream(stream: Stream) -> Result<()> {
    check_index(stream.device_index())?;
    if stream.device_type() != TYPE || !(0..STREAMS).contains(&stream.id().0) {
        return Err(Error::invalid_argument(format!("no {stream}")));
    }
    Ok(())
}

impl State {
    /// The block that `bytes` bytes at `address` are in, and where.
    fn find(&mut self, address: usize, bytes: usize) -> Result<&mut [u8]> {
        let (&start, block) =
            self.blocks.range_mut(..=address).next_back().ok_or_else(|| driver_error("illegal address"))?;
        block
            .get_mut(address - start..)
            .and_then(|block| block.get_mut(..bytes))
            .ok_or_else(|| driver_error("illegal address"))
    }

    fn event(&mut self, event: Event) -> Result<&mut Option<Stream>> {
        self.events.get_mut(&event.id().0).ok_or_else(|| Error::invalid_argument(format!("no {event}")))
    }
}

// SAFETY: memory is of the current device and stays in the map until it is freed.
unsafe impl Allocator for Fake {
    fn device(&self) -> Device {
        Device::new(TYPE, CURRENT.with_borrow(|current| current.device))
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return Ok(DataPtr::null(self.device()));
        }
        if bytes > 1 << 30 {
            return Err(Error::out_of_memory(bytes as u64, "the fake device is full"));
        }
        let mut state = STATE.lock().unwrap();
        let address = state.next_address;
        state.next_address += bytes.next_multiple_of(512);
        state.blocks.insert(address, vec![0; bytes]);
        let data = std::ptr::without_provenance_mut(address);
        // SAFETY: the map has `bytes` bytes for this address until `free` takes them out.
        Ok(unsafe { DataPtr::new(data, data.cast(), &FREE, self.device()) })
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        let device = self.device();
        let (dst, src) = (Place { address: dst, device }, Place { address: src.cast_mut(), device });
        // SAFETY: the caller's promise is the same.
        unsafe { self.copy(dst, src, bytes, self.current_stream(0)?) }
    }
}

// SAFETY: work is done when the call that enqueues it returns.
unsafe impl DeviceHooks for Fake {
    fn device_type(&self) -> DeviceType {
        TYPE
    }

    fn device_count(&self) -> Result<DeviceIndex> {
        Ok(DEVICES)
    }

    fn current_device(&self) -> Result<DeviceIndex> {
        Ok(CURRENT.with_borrow(|current| current.device))
    }

    fn set_device(&self, index: DeviceIndex) -> Result<()> {
        check_index(index)?;
        CURRENT.with_borrow_mut(|current| current.device = index);
        Ok(())
    }

    fn synchronize_device(&self, index: DeviceIndex) -> Result<()> {
        check_index(index)
    }

    fn allocator(&self) -> Arc<dyn Allocator> {
        Arc::new(Fake)
    }

    unsafe fn copy(&self, dst: Place, src: Place, bytes: usize, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        if CURRENT.with_borrow(|current| current.fail_copies) {
            return Err(driver_error("copies fail"));
        }
        assert!(!CURRENT.with_borrow(|current| current.panic_copies), "copies panic");
        let mut state = STATE.lock().unwrap();
        let data = if src.device.is_cpu() {
            // SAFETY: the caller promises that many readable bytes of the host.
            unsafe { std::slice::from_raw_parts(src.address, bytes) }.to_vec()
        } else {
            state.find(src.address.addr(), bytes)?.to_vec()
        };
        if dst.device.is_cpu() {
            // SAFETY: the caller promises that many writable bytes of the host, which `data` does not overlap.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), dst.address, bytes) };
        } else {
            state.find(dst.address.addr(), bytes)?.copy_from_slice(&data);
        }
        Ok(())
    }

    unsafe fn fill(&self, dst: Place, value: u8, bytes: usize, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        STATE.lock().unwrap().find(dst.address.addr(), bytes)?.fill(value);
        Ok(())
    }

    fn current_stream(&self, index: DeviceIndex) -> Result<Stream> {
        check_index(index)?;
        let id = CURRENT.with_borrow(|current| current.streams[usize::from(index)]);
        Ok(Stream::new(TYPE, index, StreamId(id)))
    }

    fn set_current_stream(&self, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        CURRENT.with_borrow_mut(|current| {
            current.streams[usize::from(stream.device_index())] = stream.id().0;
        });
        Ok(())
    }

    fn stream_from_pool(&self, index: DeviceIndex, _priority: i32) -> Result<Stream> {
        check_index(index)?;
        Ok(Stream::new(TYPE, index, StreamId(1)))
    }

    fn query_stream(&self, stream: Stream) -> Result<bool> {
        check_stream(stream).map(|()| true)
    }

    fn synchronize_stream(&self, stream: Stream) -> Result<()> {
        check_stream(stream)
    }

    fn create_event(&self, index: DeviceIndex, flags: EventFlags) -> Result<Event> {
        check_index(index)?;
        let mut state = STATE.lock().unwrap();
        let id = state.next_event;
        state.next_event += 1;
        state.events.insert(id, None);
        Ok(Event::new(TYPE, index, EventId(id), flags))
    }

    fn destroy_event(&self, event: Event) -> Result<()> {
        let mut state = STATE.lock().unwrap();
        state.event(event)?;
        state.events.remove(&event.id().0);
        Ok(())
    }

    fn record_event(&self, event: Event, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        if event.device() != stream.device() {
            return Err(Error::invalid_argument(format!("{event} and {stream} are of different devices")));
        }
        *STATE.lock().unwrap().event(event)? = Some(stream);
        Ok(())
    }

    fn wait_event(&self, event: Event, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        STATE.lock().unwrap().event(event).map(|_| ())
    }

    fn query_event(&self, event: Event) -> Result<bool> {
        STATE.lock().unwrap().event(event).map(|_| true)
    }

    fn synchronize_event(&self, event: Event) -> Result<()> {
        STATE.lock().unwrap().event(event).map(|_| ())
    }

    fn record_stream(&self, ptr: &DataPtr, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        let root = ptr.root();
        if c10_core::data_ptr::same_deleter(root.deleter(), &FREE) {
            STATE.lock().unwrap().recorded.insert((root.as_ptr().addr(), stream));
        }
        Ok(())
    }
}
