#![expect(unsafe_code, reason = "a pool's own allocator hands the driver's memory on")]
//! Private pools, and `torch.cuda.MemPool`.

use std::sync::{Arc, Mutex, PoisonError};

use c10_core::DeviceIndex;
use c10_cuda::ErrorKind;
use c10_cuda::alloc::{MempoolId, PoolAllocator, PoolFilter, TraceAction, TraceEntry};
use c10_cuda::driver::sim::SimDriver;
use c10_cuda::driver::{DevicePtr, Driver, StreamHandle};

use super::Stop;
use super::answer::Answer;
use super::entries;
use super::machine::Machine;
use crate::replay::ops::{PoolName, ScopeFilter};

/// What PyTorch says of a pool that is not there.
const NO_POOL: &str = "Could not find pool of id";
const RECORDING: &str = "beginAllocateToPool: already recording to mempool_id";
const NOT_RECORDING: &str = "endAllocatePool: not currently recording to mempool_id";

impl From<PoolName> for MempoolId {
    fn from(name: PoolName) -> Self {
        MempoolId { first: name.first, second: name.second }
    }
}

impl Machine {
    /// A command with no answer, refused in PyTorch's words or our own.
    pub(super) fn done(&self, done: c10_cuda::Result<()>, words: Option<&str>) -> Result<Answer, Stop> {
        match done {
            Ok(()) => Ok(Answer::DONE),
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                // The driver's pools have PyTorch's words themselves.
                let words = words.filter(|_| !self.is_async());
                Ok(Answer::Refused(words.map_or_else(|| error.to_string(), str::to_owned)))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn here(&self) -> DeviceIndex {
        self.runtime.current_device()
    }

    pub(super) fn pool_create(&self, pool: PoolName) -> Result<Answer, Stop> {
        self.done(self.allocator.create_or_incref_pool(self.here(), pool.into(), None), None)
    }

    pub(super) fn pool_begin(
        &mut self,
        line: usize,
        pool: PoolName,
        filter: ScopeFilter,
    ) -> Result<Answer, Stop> {
        let filter = match filter {
            ScopeFilter::All => PoolFilter::All,
            ScopeFilter::Thread => PoolFilter::this_thread(),
            ScopeFilter::Stream(stream) => PoolFilter::Stream(self.stream(stream, line)?.1),
        };
        self.begin(pool, filter)
    }

    fn begin(&self, pool: PoolName, filter: PoolFilter) -> Result<Answer, Stop> {
        self.done(self.allocator.begin_allocate_to_pool(self.here(), pool.into(), filter), Some(RECORDING))
    }

    pub(super) fn pool_end(&self, pool: PoolName) -> Result<Answer, Stop> {
        self.done(self.allocator.end_allocate_to_pool(self.here(), pool.into()), Some(NOT_RECORDING))
    }

    pub(super) fn pool_release(&self, pool: PoolName) -> Result<Answer, Stop> {
        self.done(self.allocator.release_pool(self.here(), pool.into()), None)
    }

    pub(super) fn pool_use_on_oom(&self, pool: PoolName, on: bool) -> Result<Answer, Stop> {
        self.done(self.allocator.set_use_on_oom(self.here(), pool.into(), on), None)
    }

    pub(super) fn pool_no_split(&self, pool: PoolName) -> Result<Answer, Stop> {
        self.done(self.allocator.set_no_split(self.here(), pool.into()), None)
    }

    /// On every device, as PyTorch does.
    pub(super) fn pool_empty(&self, pool: PoolName) -> Result<Answer, Stop> {
        for device in 0..self.runtime.device_count() {
            self.allocator.empty_pool_cache(device, pool.into())?;
        }
        Ok(Answer::DONE)
    }

    pub(super) fn pool_count(&self, pool: PoolName) -> Result<Answer, Stop> {
        match self.allocator.pool_use_count(self.here(), pool.into()) {
            Ok(count) => Ok(Answer::Echo(format!(" {count}"))),
            Err(error) => self.done(Err(error), None),
        }
    }

    pub(super) fn pool_live(&self, pool: PoolName, ids: &[i64]) -> Result<Answer, Stop> {
        let address = |id| self.live.get(id).map(|ptr| DevicePtr(ptr.as_ptr().addr() as u64));
        let Some(expected) = ids.iter().map(address).collect::<Option<Vec<_>>>() else {
            return Ok(Answer::Skip);
        };
        match self.allocator.check_pool_live_allocations(self.here(), pool.into(), &expected) {
            Ok(same) => Ok(Answer::Echo(if same { " yes" } else { " no" }.into())),
            Err(error) => self.done(Err(error), Some(NO_POOL)),
        }
    }

    /// The calls of `torch.cuda.MemPool`'s beginning.
    pub(super) fn mempool(
        &self,
        pool: PoolName,
        own: bool,
        use_on_oom: bool,
        no_split: bool,
    ) -> Result<Answer, Stop> {
        let (device, id) = (self.here(), MempoolId::from(pool));
        let own = own.then(|| Arc::new(Own(Arc::clone(&self.driver), Arc::clone(&self.own_calls))));
        let own = own.map(|own| own as Arc<dyn PoolAllocator>);
        let mut done = self.allocator.create_or_incref_pool(device, id, own);
        if no_split {
            done = done.and_then(|()| self.allocator.set_no_split(device, id));
        }
        if use_on_oom {
            done = done.and_then(|()| self.allocator.set_use_on_oom(device, id, true));
        }
        self.done(done, None)
    }

    /// The calls of its end.
    pub(super) fn mempool_delete(&self, pool: PoolName) -> Result<Answer, Stop> {
        let (device, id) = (self.here(), MempoolId::from(pool));
        let done = self.allocator.set_use_on_oom(device, id, false);
        let done = done.and_then(|()| self.allocator.release_pool(device, id));
        if done.is_ok() {
            return self.pool_empty(pool);
        }
        self.done(done, None)
    }

    /// The calls of entering `use_mem_pool`.
    pub(super) fn use_mempool(&self, pool: PoolName) -> Result<Answer, Stop> {
        self.begin(pool, PoolFilter::this_thread())
    }

    /// And of leaving it.
    pub(super) fn unuse(&self, pool: PoolName) -> Result<Answer, Stop> {
        let ended = self.pool_end(pool)?;
        if matches!(ended, Answer::Refused(_)) { Ok(ended) } else { self.pool_release(pool) }
    }
}

/// A pool's own allocator: the driver's memory, with a line for each call.
#[derive(Debug)]
struct Own(Arc<SimDriver>, OwnCalls);

/// A call of a pool's own allocator.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnCall {
    /// How many driver calls that have lines came before it.
    pub(super) calls: u64,
    /// What was asked for, or what came back.
    pub(super) what: OwnCallKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OwnCallKind {
    Alloc { bytes: u64 },
    Free { address: u64 },
}

impl OwnCall {
    /// Puts the entry of a segment that goes back right before the call that gives it back. Ours makes these calls
    /// when its lock is free, and PyTorch one by one with the entries.
    pub(super) fn place_entry(&self, entries: &mut [(u64, TraceEntry)]) {
        let OwnCallKind::Free { address } = self.what else { return };
        let goes = |entry: &TraceEntry| entry.action == TraceAction::SegmentFree && entry.address == address;
        if let Some((calls, _)) = entries.iter_mut().find(|(_, entry)| goes(entry)) {
            *calls = self.calls;
        }
    }
}

/// The calls since they were last printed.
pub(super) type OwnCalls = Arc<Mutex<Vec<OwnCall>>>;

impl Own {
    fn note(&self, what: OwnCallKind) {
        let call = OwnCall { calls: entries::calls_of(&self.0), what };
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

// SAFETY: `alloc` gives what the driver's `malloc` does, which `free` alone gives back.
unsafe impl PoolAllocator for Own {
    fn alloc(&self, bytes: u64, device: DeviceIndex, _: StreamHandle) -> Option<DevicePtr> {
        self.note(OwnCallKind::Alloc { bytes });
        self.0.malloc(device, bytes).ok()
    }

    fn free(&self, ptr: DevicePtr, _: u64, _: DeviceIndex, _: StreamHandle) {
        self.note(OwnCallKind::Free { address: ptr.0 });
        // SAFETY: it came from `malloc`, and the pool gives it back when nothing uses it. Nobody can be told of a
        // refusal.
        let _ = unsafe { self.0.free(ptr) };
    }
}
