#![expect(unsafe_code, reason = "enqueues fills of memory that the tests hold or have recorded")]
//! A simulated machine whose hooks are the process's. There is one place for them: tests that need it take turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use c10_core::allocator::CpuAllocator;
use c10_core::hooks::{DeviceHooks, Place, require_hooks};
use c10_core::{Device, DeviceType, Error, ErrorKind, Result, Storage, Stream};
use c10_cuda::driver::sim::{Completion, FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{Status, StreamHandle};
use c10_cuda::{CachingAllocator, Config, CudaHooks};

use crate::rig::Watch;
use crate::support::MIB;

/// A machine whose hooks and allocator are the process's, for as long as this lives.
pub(crate) struct Machine {
    pub(crate) sim: Arc<SimDriver>,
    pub(crate) allocator: CachingAllocator,
    pub(crate) hooks: &'static dyn DeviceHooks,
    _watch: Watch,
    _turn: MutexGuard<'static, ()>,
}

/// A machine with two devices, registered.
pub(crate) fn machine(completion: Completion) -> Machine {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (sim, allocator) = instance(completion);
    assert!(CudaHooks::new(allocator.clone()).register());
    let _watch = Watch::new(&sim);
    Machine { sim, allocator, _watch, hooks: require_hooks(DeviceType::Cuda).unwrap(), _turn: turn }
}

/// Such a machine, not registered.
pub(crate) fn instance(completion: Completion) -> (Arc<SimDriver>, CachingAllocator) {
    let sim = SimDriver::new(SimConfig::with_devices(2, 256 * MIB).completion(completion).race_detector());
    let allocator = CachingAllocator::new(sim.clone(), Config::default()).unwrap();
    (sim, allocator)
}

impl Machine {
    /// A stream of the pool.
    pub(crate) fn stream(&self, device: u8) -> Stream {
        self.hooks.stream_from_pool(device, 0).unwrap()
    }

    /// Its handle.
    pub(crate) fn handle(&self, stream: Stream) -> StreamHandle {
        self.allocator.runtime().handle(stream).unwrap()
    }

    /// Enqueues a fill of a device storage.
    pub(crate) fn fill(&self, storage: &Storage, value: u8, stream: Stream) {
        let mut guard = storage.write().unwrap();
        let place = Place { address: guard.as_mut_ptr(), device: storage.device() };
        // SAFETY: the storage has as many bytes; the tests keep it, or record the stream.
        unsafe { self.hooks.fill(place, value, guard.nbytes(), stream) }.unwrap();
    }

    /// Makes every call of a name fail.
    pub(crate) fn fault(&self, call: &str) {
        self.sim.set_faults(FaultRule::new(call, FaultWhen::Every(1), STRANGE).into());
    }

    /// Makes no call fail.
    pub(crate) fn heal(&self) {
        self.sim.set_faults(FaultPlan::new());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(self.sim.take_faults(), []);
        }
    }
}

/// What failing calls fail with.
pub(crate) const STRANGE: Status = Status::Other(999);
/// The first device.
pub(crate) const CUDA_0: Device = Device::cuda(0);

/// A host storage with these bytes.
pub(crate) fn of(bytes: &[u8]) -> Storage {
    let storage = Storage::new(bytes.len(), Arc::new(CpuAllocator)).unwrap();
    storage.write().unwrap().bytes_mut().unwrap().copy_from_slice(bytes);
    storage
}

/// The bytes of a storage anywhere.
pub(crate) fn bytes(storage: &Storage) -> Vec<u8> {
    let host =
        if storage.device().is_cpu() { storage.clone() } else { storage.to_device(Device::CPU).unwrap() };
    host.read().unwrap().bytes().unwrap().to_vec()
}

/// The kind of an error.
pub(crate) fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.map_err(|error: Error| error.kind()).err()
}
