#![expect(unsafe_code, reason = "lends the driver the caller's streams")]
//! [`World`]: the one allocator of this shared object, and the machine that it runs on.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use c10_core::{DeviceIndex, DeviceType, Stream};
use c10_cuda::driver::sim::{MAX_DEVICES, SimConfig, SimDriver};
use c10_cuda::driver::{StreamHandle, real};
use c10_cuda::{CachingAllocator, Config};

use crate::environment::{self, Machine};
use crate::failure::Failure;

/// The legacy default stream has this value beside null (`cudaStreamLegacy`).
const LEGACY: u64 = 1;
/// The default stream of each thread (`cudaStreamPerThread`), which PyTorch does not use either.
const PER_THREAD: u64 = 2;

static WORLD: OnceLock<World> = OnceLock::new();
/// Held while the world is made, so that one is made; a failure leaves none.
static MAKING: Mutex<()> = Mutex::new(());

/// A machine and its allocator.
#[derive(Debug)]
pub(crate) struct World {
    /// The simulated machine, where it is one.
    sim: Option<Arc<SimDriver>>,
    pub(crate) cuda: CachingAllocator,
    /// The caller's streams that the driver has been told of.
    adopted: Mutex<BTreeSet<StreamHandle>>,
}

/// The world, made as the environment says when there is none.
pub(crate) fn world() -> Result<&'static World, Failure> {
    world_of(0)
}

/// The world, made as the environment says when there is none, but with so many devices at least.
pub(crate) fn world_of(devices: usize) -> Result<&'static World, Failure> {
    let (world, _) =
        made(|| Ok((environment::machine(None, None)?.counting_on(devices), environment::config()?)))?;
    Ok(world)
}

/// Makes the world; refused when there is one already.
pub(crate) fn make(machine: Machine, config: Config) -> Result<(), Failure> {
    match made(|| Ok((machine, config)))? {
        (_, true) => Ok(()),
        (_, false) => Err(Failure::invalid("the allocator is there already: it was used or made before")),
    }
}

/// The world, and whether it was made now.
fn made(how: impl FnOnce() -> Result<(Machine, Config), Failure>) -> Result<(&'static World, bool), Failure> {
    if let Some(world) = WORLD.get() {
        return Ok((world, false));
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(world) = WORLD.get() {
        return Ok((world, false));
    }
    let (machine, config) = how()?;
    let world = World::new(machine, config)?;
    Ok((WORLD.get_or_init(|| world), true))
}

impl World {
    fn new(machine: Machine, config: Config) -> Result<Self, Failure> {
        match machine {
            Machine::Sim { devices, .. } if devices == 0 || devices > MAX_DEVICES => {
                Err(Failure::config(format!("a machine has 1 to {MAX_DEVICES} devices, and not {devices}")))
            }
            Machine::Sim { devices, bytes } => {
                let sim = SimDriver::new(SimConfig::with_devices(devices, bytes));
                Ok(Self {
                    cuda: CachingAllocator::new(sim.clone(), config)?,
                    sim: Some(sim),
                    adopted: Mutex::default(),
                })
            }
            Machine::Cuda { devices } => {
                let driver = real::load()?;
                let there = usize::from(driver.device_count());
                if devices > there {
                    return Err(Failure::config(format!(
                        "{devices} devices are asked for: there are {there}"
                    )));
                }
                Ok(Self {
                    cuda: CachingAllocator::new(driver, config)?,
                    sim: None,
                    adopted: Mutex::default(),
                })
            }
        }
    }

    /// The simulated machine.
    pub(crate) fn sim(&self) -> Result<&SimDriver, Failure> {
        let sim = self.sim.as_deref();
        sim.ok_or_else(|| {
            Failure::invalid("the allocator runs on the CUDA driver, not on a simulated machine")
        })
    }

    /// The index of a device.
    pub(crate) fn device(&self, device: c_int) -> Result<DeviceIndex, Failure> {
        let devices = self.cuda.runtime().device_count();
        let index = DeviceIndex::try_from(device).ok().filter(|index| *index < devices);
        index.ok_or_else(|| Failure::invalid(format!("there is no device {device}: there are {devices}")))
    }

    /// The stream of a device that a `cudaStream_t` stands for.
    ///
    /// # Safety
    /// It is null, or a stream of the device that lives until it is [forgotten](Self::forget).
    pub(crate) unsafe fn stream(&self, device: DeviceIndex, stream: *mut c_void) -> Result<Stream, Failure> {
        match stream.addr() as u64 {
            0 | LEGACY => Ok(Stream::default_of(DeviceType::Cuda, device)),
            PER_THREAD => Err(Failure::invalid("the default streams of threads are not known here")),
            raw => {
                let handle = StreamHandle { device, raw };
                let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
                if adopted.contains(&handle) {
                    return Ok(self.cuda.runtime().external_stream(handle)?);
                }
                // SAFETY: as this call's own caller promises.
                let stream = unsafe { self.cuda.runtime().adopt_stream(handle) }?;
                adopted.insert(handle);
                Ok(stream)
            }
        }
    }

    /// Names a stream to the driver no more. Where that fails it is known as before.
    pub(crate) fn forget(&self, device: DeviceIndex, stream: *mut c_void) -> Result<(), Failure> {
        let handle = StreamHandle { device, raw: stream.addr() as u64 };
        let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        if adopted.contains(&handle) {
            let runtime = self.cuda.runtime();
            runtime.disown_stream(runtime.external_stream(handle)?)?;
            adopted.remove(&handle);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
