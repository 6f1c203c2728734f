#![expect(unsafe_code, reason = "hands on the promise of who suspends a pool")]
//! Waking up: all of it, or none.

use c10_core::DeviceIndex;
use c10_core::bytes::format_size;

use super::SuspendedContents;
use super::sleep::Segment;
use crate::alloc::callbacks::Callbacks;
use crate::alloc::device::Locked;
use crate::alloc::expandable::{Row, release};
use crate::alloc::ids::PoolId;
use crate::alloc::{CachingAllocator, MemPool, MempoolId, oom, private_pools};
use crate::driver::{DriverError, PhysHandle, Status};
use crate::error::{Error, OutOfMemory, Result};

impl CachingAllocator {
    /// Puts memory behind the blocks of a suspended pool again, at their addresses, and copies back what was kept. Pages
    /// of which nothing is held any more get none. Again is no error.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) when there is not enough memory, with what is cached
    /// given back and the callbacks that free memory asked; it counts, and observers are told, as of a request.
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) while a capture is under way; what the driver reports. The pool sleeps then as it did.
    pub fn resume_pool(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        let mut locked = self.device(device)?.lock();
        let slot = locked.private_pool("resume_pool", id)?;
        if locked.pools.owner(slot).asleep.is_none() {
            return Ok(());
        }
        if locked.device.captures_under_way() {
            let why = "cannot be waited for while a capture is under way";
            return Err(private_pools::refused("resume_pool", id, why));
        }
        // The lock is given up for the callbacks: the pool is to stay meanwhile.
        let resumed = locked.pin(slot).locked.resume(slot, &self.0.callbacks);
        locked.end_if_over(slot);
        match resumed {
            Ok(()) => Ok(()),
            Err(NotWoken::Failed(error)) => Err(error.into()),
            Err(NotWoken::NoMemory(numbers)) => {
                locked.stats.num_ooms += 1;
                drop(locked);
                oom::tell(&numbers, &self.0.callbacks);
                Err(Error::oom(numbers, no_memory_to_wake(&numbers)))
            }
        }
    }

    /// [`resume_pool`](Self::resume_pool) for all pools with a tag. How many there are.
    ///
    /// # Errors
    /// As there: the first, after all have been tried.
    pub fn resume_tagged(&self, tag: &str) -> Result<usize> {
        let pools = self.tagged(tag);
        let mut result = Ok(pools.len());
        for (device, id) in pools {
            let resumed = self.resume_pool(device, id);
            result = result.and_then(|count| resumed.map(|()| count));
        }
        result
    }
}

/// Segments, and the memory of each.
type Handles = (Vec<Segment>, Vec<Vec<PhysHandle>>);

/// Why a pool still sleeps.
enum NotWoken {
    NoMemory(OutOfMemory),
    Failed(DriverError),
}

impl From<DriverError> for NotWoken {
    fn from(error: DriverError) -> Self {
        Self::Failed(error)
    }
}

impl Locked<'_> {
    fn resume(&mut self, slot: u32, callbacks: &Callbacks) -> std::result::Result<(), NotWoken> {
        let Some((segments, handles)) = self.handles_for(slot, callbacks)? else { return Ok(()) };
        let woken = self.wake_all(&segments, handles)?;
        for (segment, rows) in segments.into_iter().zip(woken) {
            self.count_woken(segment, rows);
        }
        let mut kept = self.pools.owner_mut(slot).asleep.take().unwrap_or_default();
        let Err(error) = self.put_contents_back(&mut kept) else { return Ok(()) };
        self.pools.owner_mut(slot).asleep = Some(kept);
        // A copy may be under way. Where it cannot be waited for, the memory stays for the next try.
        let device = self.device;
        let quiet = device.captures.quiet();
        if quiet.is_some() && self.driver().device_synchronize(device.index).is_ok() {
            let _ = self.sleep_all(slot);
        }
        Err(error.into())
    }

    /// Makes pages of which nothing is held addresses without memory.
    fn forget_free_pages(&mut self, slot: u32) -> std::result::Result<(), DriverError> {
        for is_small in [false, true] {
            let pool = PoolId { owner: slot, is_small };
            let free: Vec<_> = self.pools[pool].free.iter(&self.blocks).collect();
            for id in free {
                self.shrink(id)?;
            }
        }
        Ok(())
    }

    /// The pool's segments, and memory for all pages that sleep, a list for each; `None` where somebody else has woken
    /// the pool.
    fn handles_for(
        &mut self,
        slot: u32,
        callbacks: &Callbacks,
    ) -> std::result::Result<Option<Handles>, NotWoken> {
        if let Ok(found) = self.try_handles(slot)? {
            return Ok(Some(found));
        }
        // What the program can free, and what is cached, may be in the way.
        if !callbacks.is_empty() {
            self.unlocked(|| callbacks.free_memory());
            if self.pools.owner(slot).asleep.is_none() {
                return Ok(None);
            }
        }
        let _relaxed = self.relaxed()?;
        self.synchronize_and_free_events(None)?;
        self.release_blocks()?;
        match self.try_handles(slot)? {
            Ok(found) => Ok(Some(found)),
            Err(needed) => Err(NotWoken::NoMemory(self.numbers_to_wake(needed)?)),
        }
    }

    /// As [`handles_for`](Self::handles_for), of the memory that there is; how many bytes it would take, where there are
    /// not so many.
    fn try_handles(
        &mut self,
        slot: u32,
    ) -> std::result::Result<std::result::Result<Handles, u64>, DriverError> {
        self.forget_free_pages(slot)?;
        let segments = self.segments_of(slot);
        let needed: u64 = segments.iter().map(|segment| self.expandable[segment.id].asleep_bytes()).sum();
        if self.limit.is_some_and(|limit| self.total_allocated + needed > limit) {
            return Ok(Err(needed));
        }
        let created = self.create_for(&segments)?;
        Ok(created.map(|handles| (segments, handles)).ok_or(needed))
    }

    /// `None` when there is not enough memory.
    fn create_for(
        &mut self,
        segments: &[Segment],
    ) -> std::result::Result<Option<Vec<Vec<PhysHandle>>>, DriverError> {
        let device = self.device;
        let mut all: Vec<Vec<PhysHandle>> = Vec::with_capacity(segments.len());
        for segment in segments {
            let growable = &self.expandable[segment.id];
            let (count, page) = (growable.asleep(), growable.page());
            let mut handles = Vec::with_capacity(count);
            let created: std::result::Result<(), DriverError> = (0..count).try_for_each(|_| {
                handles.push(device.driver.create(device.index, page)?);
                Ok(())
            });
            all.push(handles);
            if let Err(error) = created {
                let unreleased = &mut self.expandable.unreleased;
                all.into_iter().flatten().for_each(|handle| release(&*device.driver, handle, unreleased));
                return if error.status == Status::OutOfMemory { Ok(None) } else { Err(error) };
            }
        }
        Ok(Some(all))
    }

    /// Wakes all segments, or none. The rows of each.
    fn wake_all(
        &mut self,
        segments: &[Segment],
        handles: Vec<Vec<PhysHandle>>,
    ) -> std::result::Result<Vec<Vec<Row>>, DriverError> {
        let device = self.device;
        let mut handles = handles.into_iter();
        let mut woken = Vec::with_capacity(segments.len());
        for (done, segment) in segments.iter().enumerate() {
            let own = handles.next().unwrap_or_default();
            let (growable, unreleased) = self.expandable.with_unreleased(segment.id);
            match growable.wake(&*device.driver, own, unreleased) {
                Ok(rows) => woken.push(rows),
                Err(error) => {
                    handles.flatten().for_each(|handle| release(&*device.driver, handle, unreleased));
                    self.sleep_again(&segments[..done]);
                    return Err(error);
                }
            }
        }
        Ok(woken)
    }

    /// Takes the memory away again that nobody has used. What the driver refuses stays, and is of no use.
    fn sleep_again(&mut self, segments: &[Segment]) {
        let device = self.device;
        for segment in segments {
            let (growable, unreleased) = self.expandable.with_unreleased(segment.id);
            growable.doze(&*device.driver, unreleased);
        }
    }

    fn numbers_to_wake(&self, needed: u64) -> std::result::Result<OutOfMemory, DriverError> {
        let device = self.device.index;
        let info = self.driver().memory_info(device)?;
        Ok(OutOfMemory {
            device,
            requested: needed,
            tried: needed,
            device_total: info.total,
            device_free: info.free,
            allowed: self.limit,
            allocated: self.usage.allocated_bytes(),
            reserved: self.stats.reserved_bytes.all.current as u64,
            private: 0,
        })
    }
}

fn no_memory_to_wake(numbers: &OutOfMemory) -> String {
    let OutOfMemory { requested, device, device_free, device_total, reserved, .. } = *numbers;
    let limit = numbers.allowed.map_or(String::new(), |bytes| {
        format!(", with {} allowed, of which {} are reserved", format_size(bytes), format_size(reserved))
    });
    format!(
        "resume_pool: the pool needs {}, and {} of {} are free on device {device}{limit}; it stays suspended",
        format_size(requested),
        format_size(device_free),
        format_size(device_total),
    )
}

impl MemPool {
    /// [`CachingAllocator::suspend_pool`] for this pool.
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As there.
    pub unsafe fn suspend(&self, contents: SuspendedContents) -> Result<()> {
        // SAFETY: the caller answers for it.
        unsafe { self.allocator().suspend_pool(self.device(), self.id(), contents) }
    }

    /// [`CachingAllocator::resume_pool`] for this pool.
    ///
    /// # Errors
    /// As there.
    pub fn resume(&self) -> Result<()> {
        self.allocator().resume_pool(self.device(), self.id())
    }
}
