#![expect(unsafe_code, reason = "takes memory from the system to register it, and gives it back")]
//! Where pinned memory comes from: the driver, or the system's memory that is then registered
//! ([`use_host_register`](crate::PinnedConfig::use_host_register)).

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::hint::black_box;
use std::ptr::NonNull;
use std::{slice, thread};

use super::block::{Block, Origin};
use super::pool::{Locked, Pool};
use super::segment::Segment;
use crate::driver::{DriverError, Status};

const PAGE: usize = 4096;

/// Whole pages, so that registering one block does not touch another's.
fn layout(bytes: u64) -> Option<Layout> {
    let bytes = usize::try_from(bytes).ok()?.checked_next_multiple_of(PAGE)?;
    Layout::from_size_align(bytes, PAGE).ok().filter(|layout| layout.size() != 0)
}

impl Pool {
    /// Pins new memory and hands it out as a block; `None` when there is none.
    pub(super) fn pin(&self, size: u64) -> Result<Option<usize>, DriverError> {
        let before = self.lock().now();
        let _relaxed = self.captures.relaxed_mode(&*self.driver)?;
        let (pinned, origin) = if self.config.use_host_register {
            (self.register(size), Origin::Registered)
        } else {
            (self.driver.host_alloc(size), Origin::Driver)
        };
        let mut locked = self.lock();
        match pinned {
            Ok(ptr) => {
                let took = locked.now().saturating_sub(before);
                locked.stats.host_alloc_time.increase(i64::try_from(took).unwrap_or(i64::MAX));
                let at = ptr.as_ptr().expose_provenance();
                locked.add(at, Block::new(size, origin));
                Ok(Some(at))
            }
            Err(DriverError { status: Status::OutOfMemory, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Memory of the system, touched by so many threads as are set, and registered.
    fn register(&self, bytes: u64) -> Result<NonNull<u8>, DriverError> {
        let none = DriverError::new("host_register", Status::OutOfMemory, 0);
        let layout = layout(bytes).ok_or(none)?;
        // SAFETY: the layout's size is not 0.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(none)?;
        // SAFETY: the memory is fresh, this long, initialised, and nobody else knows it.
        let memory = unsafe { slice::from_raw_parts_mut(ptr.as_ptr(), layout.size()) };
        touch_pages(memory, self.config.num_register_threads);
        // SAFETY: the memory stays until `give_back` has ended the registration.
        let registered = unsafe { self.driver.host_register(ptr, layout.size() as u64) };
        registered.map(|()| ptr).inspect_err(|_| {
            // SAFETY: it was allocated above with this layout, and nobody has it.
            unsafe { dealloc(ptr.as_ptr(), layout) };
        })
    }

    /// Pins the segment when the first block is asked for.
    pub(super) fn reserve_segment(&self) -> Result<(), DriverError> {
        let mut locked = self.lock();
        let Segment::Unasked = locked.segment else { return Ok(()) };
        let bytes = self.config.reserve_segment_size;
        if bytes == 0 {
            locked.segment = Segment::Missing;
            return Ok(());
        }
        let _relaxed = self.captures.relaxed_mode(&*self.driver)?;
        // Under the lock: two threads that come first must not pin two.
        match self.driver.host_alloc(bytes) {
            Ok(ptr) => {
                let base = ptr.as_ptr().expose_provenance();
                locked.segment = Segment::Reserved { base, bytes, used: 0 };
                Ok(())
            }
            Err(DriverError { status: Status::OutOfMemory, .. }) => {
                locked.segment = Segment::Missing;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a block's memory back; nothing happens to a part of the segment.
    ///
    /// # Safety
    /// The block is this pool's and is used by nobody, nor again.
    pub(super) unsafe fn give_back(&self, at: usize, block: &Block) -> Result<(), DriverError> {
        let address = std::ptr::with_exposed_provenance_mut(at);
        let ptr = NonNull::new(address).expect("no block begins at null");
        match block.origin {
            Origin::Segment => Ok(()),
            Origin::Driver => {
                // SAFETY: the driver gave the memory, and nobody uses it, as the caller promises.
                unsafe { self.driver.host_free(ptr) }
            }
            Origin::Registered => {
                // SAFETY: nobody uses the memory, as the caller promises.
                unsafe { self.driver.host_unregister(ptr) }?;
                let layout = layout(block.bytes).expect("the layout was one when the memory was allocated");
                // SAFETY: `register` allocated it with this layout.
                unsafe { dealloc(address, layout) };
                Ok(())
            }
        }
    }
}

impl Locked<'_> {
    /// Gives a cached block's memory back to where it came from.
    pub(super) fn release(&mut self, at: usize) -> Result<(), DriverError> {
        let before = self.now();
        let Some(block) = self.blocks.get(&at) else { return Ok(()) };
        let bytes = block.bytes;
        let _relaxed = self.pool.captures.relaxed_mode(&*self.pool.driver)?;
        // SAFETY: the block is cached: nobody holds it, and the streams that used it have passed.
        unsafe { self.pool.give_back(at, block) }?;
        let took = self.now().saturating_sub(before);
        self.stats.host_free_time.increase(i64::try_from(took).unwrap_or(i64::MAX));
        self.cached.remove(bytes, at);
        self.blocks.remove(&at);
        self.stats.allocations.decrease(1);
        self.stats.allocated_bytes.decrease(bytes as i64);
        self.stats.num_host_free += 1;
        Ok(())
    }
}

/// Writes to every page, so that registering need not bring them in one by one.
fn touch_pages(memory: &mut [u8], threads: u64) {
    let touch = |part: &mut [u8]| part.iter_mut().step_by(PAGE).for_each(|byte| *black_box(byte) = 0);
    let pages = memory.len() / PAGE;
    let share = pages.div_ceil(usize::try_from(threads).unwrap_or(1)).max(1) * PAGE;
    thread::scope(|scope| {
        let mut parts = memory.chunks_mut(share);
        let first = parts.next();
        for part in parts {
            // A thread that cannot be had is not missed: the driver touches what nobody has.
            let _ = thread::Builder::new().spawn_scoped(scope, move || touch(part));
        }
        first.into_iter().for_each(touch);
    });
}
