//! The simulated CUDA machine that the tests of this binary share: two devices, and the few kernels that graphs need.
//!
//! Work on streams runs when somebody waits for it and not before, so that whoever reads what another stream has not
//! written yet sees that it is missing. Memory that is freed while work uses it is a fault.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aten::dispatch::{Backend, DispatchKey, Dispatcher, Functionality, Library};
use aten::ops::handles;
use aten::{Result, Tensor};
use c10_core::hooks::hooks;
use c10_core::{Device, DeviceType, EventFlags, Scalar, Stream};
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config, CudaHooks};

/// The machine, for one test at a time.
pub(crate) struct Cuda {
    pub(crate) driver: Arc<SimDriver>,
    pub(crate) allocator: CachingAllocator,
    _alone: MutexGuard<'static, ()>,
}

pub(crate) fn cuda() -> Cuda {
    static MACHINE: OnceLock<(Arc<SimDriver>, CachingAllocator)> = OnceLock::new();
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (driver, allocator) = MACHINE.get_or_init(|| {
        let config = SimConfig { free_waits: false, ..SimConfig::with_devices(2, 1 << 30) };
        let driver = SimDriver::new(config.race_detector());
        let allocator = CachingAllocator::new(driver.clone(), Config::default()).unwrap();
        CudaHooks::new(allocator.clone()).register();
        register_kernels().unwrap();
        (driver, allocator)
    });
    Cuda { driver: driver.clone(), allocator: allocator.clone(), _alone: alone }
}

impl Cuda {
    /// Nothing is left, and no work did what it may not.
    pub(crate) fn finish(self) {
        self.driver.complete_all();
        let faults = self.driver.take_faults();
        assert!(faults.is_empty(), "{faults:?}");
        let races: Vec<_> = self.driver.take_races().iter().map(ToString::to_string).collect();
        assert!(races.is_empty(), "{}", races.join("\n"));
        for device in 0..2 {
            assert_eq!(self.allocator.memory_allocated(device).unwrap(), 0, "cuda:{device}");
        }
    }
}

/// A stream of the pool.
pub(crate) fn stream(device: Device) -> Stream {
    hooks(DeviceType::Cuda).unwrap().stream_from_pool(device.index().unwrap(), 0).unwrap()
}

pub(crate) fn current(device: Device) -> Stream {
    hooks(DeviceType::Cuda).unwrap().current_stream(device.index().unwrap()).unwrap()
}

/// What is enqueued on `waiter` from now on waits for what is on `source` now.
pub(crate) fn wait(waiter: Stream, source: Stream) {
    let hooks = hooks(DeviceType::Cuda).unwrap();
    let event = hooks.create_event(source.device_index(), EventFlags::default()).unwrap();
    hooks.record_event(event, source).unwrap();
    hooks.wait_event(event, waiter).unwrap();
    hooks.destroy_event(event).unwrap();
}

/// Kernels that read and write on the current stream of their device, and compute on the host in between. The last
/// they do is a copy on the device, which nobody waits for.
fn register_kernels() -> Result<()> {
    fn host(tensor: &Tensor) -> Result<Tensor> {
        tensor.to(Device::CPU)
    }
    fn back(tensor: &Tensor, device: Device) -> Result<Tensor> {
        tensor.to(device)?.deep_clone()
    }
    let key = DispatchKey::new(Functionality::Dense, Backend::Cuda);
    let mut library = Library::implementing(Dispatcher::global(), "aten", key);
    library.implement("add.Tensor", |x: &Tensor, y: &Tensor, alpha: Scalar| -> Result<Tensor> {
        back(&handles::ADD_TENSOR.call(&host(x)?, &host(y)?, alpha)?, x.device())
    })?;
    library.implement("add_.Tensor", |x: &Tensor, y: &Tensor, alpha: Scalar| -> Result<()> {
        let sum = handles::ADD_TENSOR.call(&host(x)?, &host(y)?, alpha)?;
        x.copy_(&sum.to(x.device())?).map(drop)
    })?;
    library.implement("mul.Tensor", |x: &Tensor, y: &Tensor| -> Result<Tensor> {
        back(&host(x)?.mul(&host(y)?)?, x.device())
    })?;
    library.implement("mul.Scalar", |x: &Tensor, factor: Scalar| -> Result<Tensor> {
        back(&host(x)?.mul_scalar(factor)?, x.device())
    })?;
    library.keep();
    Ok(())
}
