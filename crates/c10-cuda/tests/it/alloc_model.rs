//! The allocator against the naive model: places, driver calls and statistics of random programs.

use c10_cuda::Config;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::model::{Model, Refusal};
use crate::program::{DEVICE_BYTES, Machine, Op, config, ops};
use crate::rig::address;

fn compare(settings: Config, ops: &[Op]) -> TestCaseResult {
    let mut machine = Machine::new(settings.clone());
    let mut model = Model::new(settings, DEVICE_BYTES);
    let streams: Vec<u64> = machine.streams.iter().map(|s| machine.rig.handle(*s).raw).collect();
    for (step, op) in ops.iter().enumerate() {
        // What the model has to know is the address that a slot stands for.
        let at = |slot: usize| {
            let held = &machine.held;
            (!held.is_empty()).then(|| address(&held[slot % held.len()]))
        };
        let mut expected = None;
        match *op {
            Op::Allocate { bytes, stream } => expected = Some(model.allocate(bytes, streams[stream])),
            Op::Free { slot } => at(slot).into_iter().for_each(|at| model.free(at)),
            Op::RecordStream { slot, stream } => {
                at(slot).into_iter().for_each(|at| model.record_stream(at, streams[stream]));
            }
            Op::Complete { stream } => model.complete(streams[stream]),
            Op::EmptyCache => model.empty_cache(),
            Op::Fraction(fraction) => model.set_fraction(fraction),
            Op::ResetPeak => model.stats.reset_peak(),
            Op::ResetAccumulated => model.stats.reset_accumulated(),
        }
        let error = machine.run(op);
        let got = match (&expected, error) {
            (None, _) => None,
            (Some(_), None) => Some(Ok(machine.held.last().map(address).unwrap_or_default())),
            (Some(_), Some(error)) if error.to_string().contains("preemptively") => {
                Some(Err(Refusal::Rejected))
            }
            (Some(_), Some(_)) => Some(Err(Refusal::OutOfMemory)),
        };
        prop_assert_eq!(got, expected, "step {} {:?}", step, op);
        let calls = std::mem::take(&mut model.calls);
        prop_assert_eq!(machine.rig.memory_calls(), calls, "step {} {:?}", step, op);
        prop_assert_eq!(&machine.rig.stats(), &model.stats, "step {} {:?}", step, op);
        machine.rig.cuda.check_invariants();
    }
    machine.finish();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_programs_go_as_the_model_says(settings in config(), ops in ops(80)) {
        compare(settings, &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Long programs with PyTorch's default settings.
    #[test]
    fn long_programs_go_as_the_model_says(ops in prop::collection::vec(ops(120), 4)) {
        compare(Config::default(), &ops.concat())?;
    }
}
