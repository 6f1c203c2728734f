//! [`RealRig`]: the real driver for one test.

use std::env;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use c10_core::DeviceIndex;
use c10_cuda::ErrorKind;
use c10_cuda::driver::{Driver, ModuleHandle, real};

use super::standin::{Completion, Control, Library};
use crate::driver_rules::HOST_KERNELS;
use crate::support::{MIB, say_skipped};

/// A variable that says that there is a driver: where none is found, the tests fail instead of being skipped.
const EXPECTED: &str = "TENSORPLAY_EXPECT_CUDA";

/// A driver, the only one of this process's tests at a time. When it goes, everything has been given back.
pub(crate) struct RealRig {
    driver: Option<Arc<dyn Driver>>,
    pub(crate) library: Library,
    pub(crate) control: Option<Control>,
    forgiven: AtomicBool,
    _one_at_a_time: MutexGuard<'static, ()>,
}

impl RealRig {
    /// A driver with at least so many devices; none, and a line that says so, where there is no such driver.
    pub(crate) fn new(devices: DeviceIndex) -> Option<Self> {
        Self::with(devices, Completion::Eager)
    }

    /// The same, of whose stand-in one says when it does what is issued.
    pub(crate) fn with(devices: DeviceIndex, completion: Completion) -> Option<Self> {
        static LOCK: Mutex<()> = Mutex::new(());
        let one_at_a_time = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let library = Library::open();
        let control = library.as_ref().and_then(Library::control);
        if let Some(control) = &control {
            control.fail_clear();
            control.reset(u32::from(devices), 256 * MIB, completion);
        }
        match (real::load(), library) {
            (Ok(driver), Some(library)) if driver.device_count() >= devices => {
                let driver = Some(driver);
                let forgiven = AtomicBool::new(false);
                Some(Self { driver, library, control, forgiven, _one_at_a_time: one_at_a_time })
            }
            (Ok(driver), _) => skipped(&format!("{} of {devices} CUDA devices", driver.device_count())),
            (Err(error), _) => {
                assert_eq!(error.kind(), ErrorKind::DeviceUnavailable, "{error}");
                skipped(&format!("no CUDA driver ({error})"))
            }
        }
    }

    /// The same, where the test is about the stand-in's own controls.
    pub(crate) fn over_standin(devices: DeviceIndex) -> Option<(Self, Control)> {
        let rig = Self::new(devices)?;
        match rig.control {
            Some(control) => Some((rig, control)),
            None => skipped("the driver is no stand-in"),
        }
    }

    /// The driver, to be held elsewhere too, for as long as the rig.
    pub(crate) fn driver(&self) -> Arc<dyn Driver> {
        Arc::clone(self.driver.as_ref().expect("it goes with the rig"))
    }

    /// Lets handles go with their context: those of a device that was lost.
    pub(crate) fn forgive_live_handles(&self) {
        self.forgiven.store(true, Ordering::Relaxed);
    }

    /// The image of the kernels of the tests, as the driver takes it.
    pub(crate) fn image(&self) -> &'static [u8] {
        match self.control {
            Some(_) => HOST_KERNELS,
            None => include_bytes!("../kernels.ptx"),
        }
    }

    /// The kernels of the tests, loaded.
    pub(crate) fn kernels(&self, device: DeviceIndex) -> ModuleHandle {
        self.module_load(device, self.image()).unwrap()
    }
}

impl Deref for RealRig {
    type Target = dyn Driver;

    fn deref(&self) -> &Self::Target {
        &**self.driver.as_ref().expect("it goes with the rig")
    }
}

impl Drop for RealRig {
    fn drop(&mut self) {
        let live = self.control.map(|control| control.live_handles());
        let driver = self.driver.take().expect("it goes with the rig");
        let users = Arc::strong_count(&driver);
        drop(driver);
        let Some(control) = self.control else { return };
        control.fail_clear();
        if !thread::panicking() {
            assert_eq!(users, 1, "somebody still holds the driver");
            assert_eq!(control.live_contexts(), 0, "contexts that the driver retained");
            assert_eq!(control.live_handles(), 0, "handles that outlive their context");
            if !self.forgiven.load(Ordering::Relaxed) {
                assert_eq!(live, Some(0), "handles that nobody gave back");
                assert_eq!(control.swept_handles(), 0, "handles that went with their context");
            }
            // The last test's machine is looked at when the process ends.
            control.reset(1, MIB, Completion::Eager);
        }
    }
}

fn skipped<T>(why: &str) -> Option<T> {
    assert!(env::var_os(EXPECTED).is_none(), "{EXPECTED} is set, but: {why}");
    say_skipped(why);
    None
}
