//! Checkpoints of a pool, and allocations at an address.

use std::collections::HashMap;

use c10_core::DataPtr;
use c10_cuda::ErrorKind;
use c10_cuda::alloc::MempoolId;
use c10_cuda::driver::DevicePtr;

use super::Stop;
use super::answer::Answer;
use super::machine::Machine;
use super::places::stand_in;
use crate::replay::ops::{PoolName, StreamName};

/// Where an allocation is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// A live block, and how far from where it begins.
    pub(super) live: i64,
    pub(super) offset: i64,
}

impl Machine {
    pub(super) fn checkpoint(&mut self, name: &str, pool: PoolName) -> Result<Answer, Stop> {
        match self.allocator.checkpoint_pool(self.here(), MempoolId::from(pool)) {
            Ok(state) => {
                self.checkpoints.insert(name.to_owned(), state);
                Ok(Answer::DONE)
            }
            Err(error) => {
                let is_there = self.allocator.pool_use_count(self.here(), pool.into()).is_ok();
                self.done(Err(error), (!is_there).then_some("Could not find pool of id"))
            }
        }
    }

    /// The blocks that this frees are gone; those that it brings back get the ids from `first` on.
    pub(super) fn restore(&mut self, line: usize, name: &str, first: i64) -> Result<Answer, Stop> {
        let Some(state) = self.checkpoints.get(name) else { return Ok(Answer::Skip) };
        let is_memory = |ptr: &DataPtr| !ptr.is_null();
        let (owners, rest): (HashMap<_, _>, HashMap<_, _>) =
            self.live.drain().partition(|(_, ptr)| is_memory(ptr));
        self.live = rest;
        let ids: HashMap<u64, i64> = owners.iter().map(|(id, ptr)| (address_of(ptr), *id)).collect();
        let mut owners: Vec<DataPtr> = owners.into_values().collect();
        let restored = self.allocator.restore_pool(self.runtime.current_device(), state, &mut owners);
        self.live.extend(owners.into_iter().map(|ptr| (ids[&address_of(&ptr)], ptr)));
        let restored = match restored {
            Ok(restored) => restored,
            Err(error) => return self.done(Err(error), None),
        };
        self.print_driver_calls();
        let mut freed: Vec<i64> = restored.freed.iter().map(|ptr| ids[&ptr.0]).collect();
        freed.sort_unstable();
        let mut text: String = freed.iter().map(|id| format!("\nfreed {id}")).collect();
        for (id, ptr) in (first..).zip(restored.created) {
            self.check_new(line, id)?;
            text += &format!("\nrestored {id} at {}", self.places.place(address_of(&ptr)));
            self.live.insert(id, ptr);
        }
        Ok(Answer::Echo(text))
    }

    pub(super) fn allocate_at(
        &mut self,
        line: usize,
        id: i64,
        bytes: u64,
        stream: StreamName,
        spot: Spot,
    ) -> Result<Answer, Stop> {
        let (stream, _) = self.stream(stream, line)?;
        let Some(base) = self.live.get(&spot.live).map(address_of) else { return Ok(Answer::Skip) };
        self.check_new(line, id)?;
        self.runtime.set_current_stream(stream)?;
        let address = base.wrapping_add_signed(spot.offset);
        let current = self.runtime.current_stream(self.here())?;
        let before = self.allocated()?;
        let why_not = self.why_not_at(stand_in(base).wrapping_add_signed(spot.offset));
        // PyTorch refuses 0 bytes too with caching off, and does not tell too much memory apart.
        let refused = [ErrorKind::InvalidArgument, ErrorKind::OutOfMemory];
        if !self.allocator.is_enabled() {
            return Ok(Answer::Refused(why_not));
        }
        match self.allocator.allocate_at(bytes, DevicePtr(address), current) {
            Err(error) if refused.contains(&error.kind()) => Ok(Answer::Refused(why_not)),
            done => self.allocated_block(id, bytes, before, done),
        }
    }

    /// PyTorch's words for an address that is not to be had.
    fn why_not_at(&self, address: u64) -> String {
        let text = if address == 0 { "0".to_owned() } else { format!("{address:#x}") };
        if !self.allocator.is_enabled() {
            "Exact-address allocation is only supported by the native CUDA caching allocator".to_owned()
        } else if !address.is_multiple_of(512) {
            format!("mallocWithAddress: addr must be aligned to kMinBlockSize (512 bytes), got {text}")
        } else {
            format!("Could not allocate CUDA storage at exact address {text}")
        }
    }
}

fn address_of(ptr: &DataPtr) -> u64 {
    ptr.as_ptr().addr() as u64
}
