#![expect(unsafe_code, reason = "asks the driver which devices there are")]
//! [`RealDriver`]: the library, its devices, and the books.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;

use c10_core::DeviceIndex;

use super::books::Table;
use super::capture::Captures;
use super::context::{Device, Pending};
use super::event::Event;
use super::graph::{Graph, GraphExec};
use super::host::HostMemory;
use super::library::Library;
use super::memory::DeviceMemory;
use super::module::{Function, Module};
use super::status::check;
use super::stream::Stream;
use super::vmm::VirtualMemory;
use crate::driver::{Driver, DriverError, Status};
use crate::error::Result;
use crate::sync::Mutex;

/// The driver of real GPUs.
pub(super) struct RealDriver {
    pub(super) library: &'static Library,
    pub(super) devices: Box<[Device]>,
    pub(super) pending: Pending,
    pub(super) streams: Table<Stream>,
    pub(super) events: Table<Event>,
    pub(super) graphs: Table<Graph>,
    pub(super) execs: Table<GraphExec>,
    pub(super) modules: Table<Module>,
    pub(super) functions: Mutex<HashMap<u64, Function>>,
    pub(super) captures: Mutex<Captures>,
    pub(super) memory: Mutex<DeviceMemory>,
    pub(super) virtual_memory: Mutex<VirtualMemory>,
    pub(super) host_memory: Mutex<HostMemory>,
}

/// The machine's driver.
pub(super) fn load() -> Result<Arc<dyn Driver>> {
    let library = Library::find()?;
    let devices = count(library).and_then(|count| (0..count).map(|i| open(library, i)).collect());
    let devices: Box<[Device]> = devices.map_err(|status| DriverError::new("load", status, 0))?;
    Ok(Arc::new(RealDriver {
        library,
        devices,
        pending: Pending::default(),
        streams: Table::default(),
        events: Table::default(),
        graphs: Table::default(),
        execs: Table::default(),
        modules: Table::default(),
        functions: Mutex::default(),
        captures: Mutex::default(),
        memory: Mutex::default(),
        virtual_memory: Mutex::default(),
        host_memory: Mutex::default(),
    }))
}

/// How many devices there are.
pub(super) fn device_count() -> DeviceIndex {
    Library::find().ok().and_then(|library| count(library).ok()).unwrap_or(0)
}

fn count(library: &Library) -> std::result::Result<DeviceIndex, Status> {
    let mut count = 0;
    // SAFETY: there is room for one number.
    check(unsafe { (library.symbols.device_get_count)(&mut count) })?;
    // More than an index can tell are not used.
    Ok(DeviceIndex::try_from(count.max(0)).unwrap_or(DeviceIndex::MAX))
}

fn open(library: &Library, index: DeviceIndex) -> std::result::Result<Device, Status> {
    let mut ordinal = 0;
    // SAFETY: there is room for one device, and the driver says that it has this one.
    check(unsafe { (library.symbols.device_get)(&mut ordinal, c_int::from(index)) })?;
    Ok(Device::new(ordinal))
}

impl Drop for RealDriver {
    /// Gives the contexts back. What lives in them goes with the last user of each, which may be another library.
    fn drop(&mut self) {
        for device in &mut self.devices {
            device.release(&self.library.symbols);
        }
    }
}

impl fmt::Debug for RealDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealDriver")
            .field("version", &self.library.version)
            .field("devices", &self.devices.len())
            .finish_non_exhaustive()
    }
}
