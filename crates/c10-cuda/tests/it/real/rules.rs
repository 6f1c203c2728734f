//! The rules of [`Driver`](c10_cuda::driver::Driver), on the real one.

use std::cell::RefCell;
use std::sync::Arc;

use c10_core::DeviceIndex;
use c10_cuda::driver::{Checked, Driver, Record};

use super::rig::RealRig;
use super::standin::Completion;
use crate::driver_rules::hold_on;

/// Holds the rules to drivers, each on a machine of its own, which is left as it was.
/// Gives nothing, and has said so, where there is no such driver.
fn hold(
    devices: DeviceIndex,
    completion: Completion,
    wrap: impl Fn(Arc<dyn Driver>) -> Arc<dyn Driver>,
) -> Option<()> {
    let first = RealRig::with(devices, completion)?;
    let image = first.image();
    let rig = RefCell::new(Some(first));
    hold_on(image, false, &|| {
        // The rule before has ended: its driver goes first.
        drop(rig.take());
        let next = RealRig::with(devices, completion).expect("there was a driver");
        let driver = wrap(next.driver());
        rig.replace(Some(next));
        driver
    });
    Some(())
}

/// Both ways in which the stand-in completes work; a test that is skipped says so once.
fn hold_both(devices: DeviceIndex) {
    if hold(devices, Completion::Eager, |driver| driver).is_some() {
        hold(devices, Completion::Manual, |driver| driver);
    }
}

#[test]
fn the_real_driver_keeps_the_rules() {
    hold_both(1);
}

#[test]
fn two_real_devices_keep_the_rules() {
    hold_both(2);
}

#[test]
fn a_checked_and_recorded_real_driver_keeps_the_rules() {
    hold(2, Completion::Manual, |driver| Record::new(Checked::new(driver)));
}
