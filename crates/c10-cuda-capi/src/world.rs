//! [`World`]: the one allocator of this shared object, and the machine that it runs on.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

use c10_core::{DeviceIndex, DeviceType, Stream};
use c10_cuda::driver::StreamHandle;
use c10_cuda::driver::sim::{MAX_DEVICES, SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config};

use crate::environment::{self, Size};
use crate::failure::Failure;

/// The legacy default stream has this value beside null (`cudaStreamLegacy`).
const LEGACY: u64 = 1;
/// The default stream of each thread (`cudaStreamPerThread`), which PyTorch does not use either.
const PER_THREAD: u64 = 2;

static WORLD: OnceLock<Result<World, Failure>> = OnceLock::new();

/// A machine and its allocator.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) sim: Arc<SimDriver>,
    pub(crate) cuda: CachingAllocator,
}

/// The world, made as the environment says when there is none.
pub(crate) fn world() -> Result<&'static World, Failure> {
    let made = WORLD.get_or_init(|| World::new(environment::size(None, None)?, environment::config()?));
    made.as_ref().map_err(Failure::clone)
}

/// Makes the world; refused when there is one already.
pub(crate) fn make(size: Size, config: Config) -> Result<(), Failure> {
    let mut is_new = false;
    let made = WORLD.get_or_init(|| {
        is_new = true;
        World::new(size, config)
    });
    match made {
        Err(failure) => Err(failure.clone()),
        Ok(_) if !is_new => {
            Err(Failure::invalid("the allocator is there already: it was used or made before"))
        }
        Ok(_) => Ok(()),
    }
}

impl World {
    fn new(Size { devices, bytes }: Size, config: Config) -> Result<Self, Failure> {
        if devices == 0 || devices > MAX_DEVICES {
            return Err(Failure::config(format!(
                "a machine has 1 to {MAX_DEVICES} devices, and not {devices}"
            )));
        }
        let sim = SimDriver::new(SimConfig::with_devices(devices, bytes));
        let cuda = CachingAllocator::new(sim.clone(), config)?;
        Ok(Self { sim, cuda })
    }

    /// The index of a device.
    pub(crate) fn device(&self, device: c_int) -> Result<DeviceIndex, Failure> {
        let devices = self.cuda.runtime().device_count();
        let index = DeviceIndex::try_from(device).ok().filter(|index| *index < devices);
        index.ok_or_else(|| Failure::invalid(format!("there is no device {device}: there are {devices}")))
    }

    /// The stream of a device that a `cudaStream_t` stands for.
    pub(crate) fn stream(&self, device: DeviceIndex, stream: *mut c_void) -> Result<Stream, Failure> {
        match stream.addr() as u64 {
            0 | LEGACY => Ok(Stream::default_of(DeviceType::Cuda, device)),
            PER_THREAD => Err(Failure::invalid("the default streams of threads are not known here")),
            raw => Ok(self.cuda.runtime().external_stream(StreamHandle { device, raw })?),
        }
    }
}
