//! Random programs over one device: what tests against models and identities run.

use c10_core::{DataPtr, DeviceType, Stream};
use c10_cuda::driver::Status;
use c10_cuda::driver::sim::{FaultPlan, FaultRule, FaultWhen, SimConfig};
use c10_cuda::{Config, Error, OrderOfEquals, RoundupPower2Divisions};
use proptest::prelude::*;

use crate::rig::{MIB, Rig};

/// The memory of the device, so little that it runs short.
pub(crate) const DEVICE_BYTES: u64 = 160 * MIB;
/// The default stream and two of the pool.
pub(crate) const STREAMS: usize = 3;

/// One step. A slot counts among the blocks that are held, modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Allocate { bytes: u64, stream: usize },
    Free { slot: usize },
    RecordStream { slot: usize, stream: usize },
    Complete { stream: usize },
    EmptyCache,
    Fraction(f64),
    ResetPeak,
    ResetAccumulated,
}

/// Runs a program: the rules hold after every step, and at the end everything goes back.
pub(crate) fn keeps_the_rules(config: Config, ops: &[Op]) {
    let mut machine = Machine::new(config);
    for op in ops {
        machine.run(op);
        machine.rig.cuda.check_invariants();
    }
    machine.finish();
}

/// The same while calls of these names fail at random.
pub(crate) fn loses_nothing_in_faults(config: Config, calls: &[&'static str], seed: u64, ops: &[Op]) {
    let mut machine = Machine::new(config);
    let when = FaultWhen::Probability { p: 0.1, seed };
    let plan = calls
        .iter()
        .fold(FaultPlan::new(), |plan, call| plan.rule(FaultRule::new(call, when, Status::Other(9))));
    machine.rig.sim.set_faults(plan);
    for op in ops {
        if matches!(op, Op::EmptyCache) {
            let _ = machine.rig.cuda.empty_cache();
        } else {
            machine.run(op);
        }
        machine.rig.cuda.check_invariants();
    }
    machine.rig.sim.set_faults(FaultPlan::new());
    machine.held.clear();
    machine.rig.cuda.empty_cache().unwrap();
    machine.finish();
}

/// An allocator, its streams, and the blocks that a program holds.
pub(crate) struct Machine {
    // The blocks end before the machine.
    pub(crate) held: Vec<DataPtr>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) rig: Rig,
}

impl Machine {
    pub(crate) fn new(config: Config) -> Self {
        let rig =
            Rig::unwatched(SimConfig { free_waits: false, ..SimConfig::with_bytes(DEVICE_BYTES) }, config);
        let mut streams = vec![Stream::default_of(DeviceType::Cuda, 0)];
        streams.extend((1..STREAMS).map(|_| rig.stream()));
        Self { held: Vec::new(), streams, rig }
    }

    /// Runs a step; the error of an allocation.
    pub(crate) fn run(&mut self, op: &Op) -> Option<Error> {
        let cuda = &self.rig.cuda;
        match *op {
            Op::Allocate { bytes, stream } => match cuda.allocate_on(bytes, self.streams[stream]) {
                Ok(ptr) => self.held.push(ptr),
                Err(error) => return Some(error),
            },
            Op::Free { slot } if !self.held.is_empty() => {
                drop(self.held.swap_remove(slot % self.held.len()));
            }
            Op::RecordStream { slot, stream } if !self.held.is_empty() => {
                let ptr = &self.held[slot % self.held.len()];
                cuda.record_stream(ptr, self.streams[stream]).unwrap();
            }
            Op::Free { .. } | Op::RecordStream { .. } => {}
            Op::Complete { stream } => self.rig.sim.complete_stream(self.rig.handle(self.streams[stream])),
            Op::EmptyCache => cuda.empty_cache().unwrap(),
            Op::Fraction(fraction) => cuda.set_memory_fraction(fraction, 0).unwrap(),
            Op::ResetPeak => cuda.reset_peak_stats(0).unwrap(),
            Op::ResetAccumulated => cuda.reset_accumulated_stats(0).unwrap(),
        }
        None
    }

    /// Frees everything, and looks whether all went back to the driver.
    pub(crate) fn finish(mut self) {
        self.held.clear();
        self.rig.cuda.empty_cache().unwrap();
        self.rig.cuda.check_invariants();
        assert_eq!(self.rig.driver_used(), 0);
    }
}

/// Settings that the allocator has.
pub(crate) fn config() -> impl Strategy<Value = Config> {
    let split = prop_oneof![2 => Just(None), 1 => (20..50_u64).prop_map(|mib| Some(mib * MIB))];
    let rounding = prop_oneof![Just(20 * MIB), (20..40_u64).prop_map(|mib| mib * MIB)];
    let collect = prop_oneof![1 => Just(0.0), 1 => 0.1..0.9];
    let divisions = prop_oneof![3 => Just(0), 1 => (0..4_u32).prop_map(|n| 1 << n)];
    (split, rounding, collect, divisions, any::<[bool; 4]>()).prop_map(
        |(max_split_size, max_non_split_rounding_size, collect, divisions, flags)| Config {
            max_split_size,
            max_non_split_rounding_size,
            garbage_collection_threshold: collect,
            roundup_power2_divisions: RoundupPower2Divisions::new([divisions; 16]).unwrap(),
            release_lock_on_malloc: flags[0],
            throw_on_malloc_oom: flags[1],
            order_of_equals: if flags[2] { OrderOfEquals::Address } else { OrderOfEquals::Registration },
            search_after_synchronize: flags[3],
            ..Config::default()
        },
    )
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 1..5_000_u64,
        1 => (1..=2048_u64).prop_map(|n| n * 512),
        2 => MIB..10 * MIB,
        2 => (1..40_u64).prop_map(|mib| mib * MIB),
        1 => 10 * MIB..200 * MIB,
    ]
}

fn op() -> impl Strategy<Value = Op> {
    // Most work is on the default stream.
    let stream = || prop_oneof![3 => Just(0), 2 => 1..STREAMS];
    let slot = 0..64_usize;
    prop_oneof![
        10 => (bytes(), stream()).prop_map(|(bytes, stream)| Op::Allocate { bytes, stream }),
        8 => slot.clone().prop_map(|slot| Op::Free { slot }),
        3 => (slot, stream()).prop_map(|(slot, stream)| Op::RecordStream { slot, stream }),
        2 => (0..STREAMS).prop_map(|stream| Op::Complete { stream }),
        1 => Just(Op::EmptyCache),
        1 => prop_oneof![Just(1.0), 0.0..=1.0].prop_map(Op::Fraction),
        1 => prop_oneof![Just(Op::ResetPeak), Just(Op::ResetAccumulated)],
    ]
}

/// A program of up to `most` steps.
pub(crate) fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..most)
}
