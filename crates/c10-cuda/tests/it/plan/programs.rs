//! Random programs under random plans, and the allocator's rules at every step.

use std::sync::Arc;

use c10_cuda::plan::{Limits, Plan, Shape};
use c10_cuda::{Config, Placement};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::program::{Machine, Op, config, ops};

/// The plan of what a program asks for.
fn plan_of(settings: &Config, ops: &[Op], shape: Shape) -> Arc<Plan> {
    let mut machine = Machine::new(settings.clone());
    machine.rig.cuda.begin_recording(0).unwrap();
    for op in ops {
        machine.run(op);
    }
    let recording = machine.rig.cuda.end_recording(0).unwrap();
    let limits = Limits { steps: 20_000, ..Limits::default() };
    let plan = Plan::make(&recording, shape, &limits, &mut |_| true).unwrap();
    assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan);
    assert!(plan.bound() <= plan.height());
    Arc::new(plan)
}

/// Runs programs one after the other under a plan; each begins an iteration.
fn serve(settings: Config, plan: Arc<Plan>, programs: &[&[Op]]) -> TestCaseResult {
    let mut machine = Machine::new(Config { placement: Placement::Planned(plan), ..settings });
    for ops in programs {
        machine.rig.cuda.begin_iteration(0).unwrap();
        for op in *ops {
            machine.run(op);
            machine.rig.cuda.check_invariants();
        }
        let mut last_end = 0;
        for segment in machine.rig.cuda.snapshot(false).segments {
            prop_assert!(segment.address.0 >= last_end);
            last_end = segment.address.0 + segment.total_size;
            prop_assert_eq!(segment.blocks.iter().map(|block| block.size).sum::<u64>(), segment.total_size);
        }
    }
    machine.finish();
    Ok(())
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![Just(Shape::Whole), Just(Shape::Iteration), Just(Shape::Repeating)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn programs_that_are_as_planned_and_such_as_are_not(
        settings in config(),
        shape in shape(),
        planned in ops(60),
        other in ops(30),
        cut in 0..60_usize,
    ) {
        let plan = plan_of(&settings, &planned, shape);
        let part = &planned[..cut.min(planned.len())];
        serve(settings, plan, &[&planned, &planned, part, &other, &planned])?;
    }

    /// The same sizes over and over, so that places in the plan are mistaken for each other.
    #[test]
    fn programs_of_few_sizes(settings in config(), shape in shape(), seeds in prop::collection::vec(0..6_u8, 1..150)) {
        let op = |seed: &u8| match seed {
            0 | 1 => Op::Allocate { bytes: 1024, stream: 0 },
            2 => Op::Allocate { bytes: 3 << 20, stream: 0 },
            3 => Op::Allocate { bytes: 1024, stream: 1 },
            seed => Op::Free { slot: usize::from(*seed) },
        };
        let ops: Vec<_> = seeds.iter().map(op).collect();
        let half = ops.len() / 2;
        let plan = plan_of(&settings, &ops, shape);
        serve(settings, plan, &[&ops, &ops[half..], &ops[..half], &ops])?;
    }
}
