//! [`SharedBytes`]: bytes that lie outside a machine, for memory that several machines have in common.
//!
//! A simulated machine lives in one program. Two programs that each have one can share a device's memory all the same
//! when its bytes lie where both reach them, in a file say: each machine then has an allocation, or physical memory,
//! that keeps its contents there.

use std::fmt;
use std::sync::Arc;

use c10_core::DeviceIndex;

use super::driver::SimDriver;
use super::memory::Allocation;
use super::space::round_up;
use super::state::State;
use super::vmm::Physical;
use crate::driver::{DevicePtr, PhysHandle, Status};

/// Where the bytes of shared memory are kept. Both are called under the machine's lock, and must not use the machine.
/// There is no telling of failures: an implementation that cannot reach its bytes reads [`POISON`](super::POISON).
pub trait SharedBytes: fmt::Debug + Send + Sync {
    /// Copies out, from `offset` on. The range lies within the memory.
    fn read_at(&self, offset: u64, out: &mut [u8]);
    /// Copies in, from `offset` on. The range lies within the memory.
    fn write_at(&self, offset: u64, bytes: &[u8]);
}

impl SimDriver {
    /// Moves what an allocation of [`malloc`](crate::driver::Driver::malloc) holds to `to`, where it is kept from here
    /// on, and gives the allocation's length. Bytes that nobody has written are not moved.
    ///
    /// # Errors
    /// [`Status::InvalidValue`] when it is no such allocation of this process.
    pub fn share_bytes(&self, ptr: DevicePtr, to: Arc<dyn SharedBytes>) -> Result<u64, Status> {
        let mut state = self.lock();
        let process = state.process;
        let own = |a: &&mut Allocation| a.process == process && a.pooled.is_none();
        let allocation = state.memory.allocations.get_mut(&ptr.0).filter(own).ok_or(Status::InvalidValue)?;
        allocation.contents.share(allocation.bytes, to);
        Ok(allocation.bytes)
    }

    /// The same of physical memory.
    ///
    /// # Errors
    /// [`Status::InvalidHandle`] when it is none that this process has a handle of.
    pub fn share_physical(&self, memory: PhysHandle, to: Arc<dyn SharedBytes>) -> Result<u64, Status> {
        let mut state = self.lock();
        let id = state.physical_id(memory)?;
        let physical = state.memory.physical.get_mut(id).ok_or(Status::InvalidHandle)?;
        physical.contents.share(physical.bytes, to);
        Ok(physical.bytes)
    }

    /// An allocation whose bytes are kept by `of`: memory that another machine has as well. It takes addresses and no
    /// memory of the device, and goes by [`free`](crate::driver::Driver::free).
    ///
    /// # Errors
    /// [`Status::InvalidDevice`], [`Status::InvalidValue`] for 0 bytes, [`Status::OutOfMemory`] when there are no
    /// addresses.
    pub fn malloc_shared(
        &self,
        device: DeviceIndex,
        bytes: u64,
        of: Arc<dyn SharedBytes>,
    ) -> Result<DevicePtr, Status> {
        self.lock().malloc_shared(device, bytes, of)
    }

    /// Physical memory whose bytes are kept by `of`; the same holds of it. It goes by
    /// [`release`](crate::driver::Driver::release).
    ///
    /// # Errors
    /// [`Status::InvalidDevice`]; [`Status::InvalidValue`] when `bytes` is no multiple of the granularity;
    /// [`Status::OutOfMemory`] when there are no handles.
    pub fn create_shared(
        &self,
        device: DeviceIndex,
        bytes: u64,
        of: Arc<dyn SharedBytes>,
    ) -> Result<PhysHandle, Status> {
        let mut state = self.lock();
        state.device(device)?;
        super::vmm::check_units(bytes)?;
        let mut physical = Physical::new(device, state.process, bytes);
        physical.is_foreign = true;
        physical.contents.share(bytes, of);
        let id = state.memory.physical.insert(physical).ok_or(Status::OutOfMemory)?;
        Ok(PhysHandle { device, raw: id.raw(), bytes })
    }
}

impl State {
    fn malloc_shared(
        &mut self,
        device: DeviceIndex,
        bytes: u64,
        of: Arc<dyn SharedBytes>,
    ) -> Result<DevicePtr, Status> {
        if bytes == 0 {
            return Err(Status::InvalidValue);
        }
        let extent = round_up(bytes).ok_or(Status::OutOfMemory)?;
        let at = self.device(device)?.malloc_space.find(extent).ok_or(Status::OutOfMemory)?;
        self.take_addresses(at, extent);
        self.memory.births += 1;
        let birth = self.memory.births;
        let mut allocation = Allocation::new((device, self.process), bytes, extent, birth, None);
        allocation.capacity = 0;
        allocation.contents.share(bytes, of);
        self.memory.allocations.insert(at, allocation);
        self.watch(|races| races.allocated(at, bytes));
        Ok(DevicePtr(at))
    }
}
