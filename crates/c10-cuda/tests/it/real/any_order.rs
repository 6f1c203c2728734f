//! The end of all that a program holds of the real driver. The rig looks whether anything is left.

use super::RealRig;
use super::standin::Completion;
use crate::any_order::{SETTINGS, run, run_on_threads};

#[test]
fn what_a_program_holds_of_the_real_driver_ends_in_any_order() {
    for completion in [Completion::Eager, Completion::Manual] {
        for seed in 0..3 {
            for (beside, settings) in [false, true].into_iter().flat_map(|b| SETTINGS.map(|s| (b, s))) {
                let Some(rig) = RealRig::with(1, completion) else { return };
                run(&rig.driver(), settings, seed, beside);
            }
        }
    }
}

#[test]
fn programs_come_and_go_on_the_real_driver() {
    for completion in [Completion::Eager, Completion::Manual] {
        for (seed, settings) in SETTINGS.into_iter().enumerate() {
            let Some(rig) = RealRig::with(1, completion) else { return };
            run_on_threads(&rig.driver(), settings, seed as u64, 3);
        }
    }
}
