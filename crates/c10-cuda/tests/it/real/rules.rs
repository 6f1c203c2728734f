//! The rules of [`Driver`](c10_cuda::driver::Driver), on the real one.

use c10_cuda::driver::{Checked, Record};

use super::rig::RealRig;
use super::standin::Completion;
use crate::driver_rules::hold_real;

#[test]
fn the_real_driver_keeps_the_rules() {
    for completion in [Completion::Eager, Completion::Manual] {
        hold_real(|rule| {
            let Some(rig) = RealRig::with(1, completion) else { return false };
            rule(&*rig);
            true
        });
    }
}

#[test]
fn two_real_devices_keep_the_rules() {
    for completion in [Completion::Eager, Completion::Manual] {
        hold_real(|rule| {
            let Some(rig) = RealRig::with(2, completion) else { return false };
            rule(&*rig);
            true
        });
    }
}

#[test]
fn a_checked_and_recorded_real_driver_keeps_the_rules() {
    hold_real(|rule| {
        let Some(rig) = RealRig::with(1, Completion::Manual) else { return false };
        let checked = Checked::new(rig.driver());
        rule(&*Record::new(checked.clone()));
        assert_eq!(checked.live(), "");
        true
    });
}
