//! Long random programs under the invariant checker and the race detector: `cargo xtask soak`.
//!
//! A program is right: whatever uses a block waits for who used it last, and says so to the allocator. So any race,
//! any fault of work and any byte that has changed is the allocator's doing, or the simulator's. A seed decides the
//! machine, the settings and every operation. Without the environment that xtask sets, a short run is made.
//!
//! | variable | meaning |
//! |---|---|
//! | `SOAK_SEEDS` | how many seeds |
//! | `SOAK_FIRST_SEED` | the first of them |
//! | `SOAK_OPERATIONS` | operations a seed |
//! | `SOAK_CHECK_EVERY` | operations between two looks at the invariants |
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a long run says how far it is, and what failed"
)]

mod episodes;
mod machines;
mod operations;
mod worker;

use std::thread;
use std::time::Instant;

use c10_cuda::driver::sim::RaceKind;

use machines::Machine;
use worker::{Shared, Worker};

/// A number from the environment, for runs by xtask.
fn setting(name: &str, short: u64) -> u64 {
    std::env::var(name).ok().map_or(short, |text| text.parse().expect("a number"))
}

/// Says which seed, and which operation, a panic belongs to.
struct Watch<'a> {
    seed: u64,
    machine: &'a Machine,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self { seed, machine } = self;
            eprintln!(
                "soak: seed {seed} failed on {machine}: cargo xtask soak --first-seed {seed} --seeds 1"
            );
        }
    }
}

fn run(seed: u64, operations: u64, check_every: u64) -> String {
    let machine = Machine::of_seed(seed);
    let _watch = Watch { seed, machine: &machine };
    let shared = Shared::new(&machine, seed);
    let mut worker = Worker::new(&shared, seed);
    for at in 1..=operations {
        worker.step();
        if at.is_multiple_of(check_every) {
            shared.check();
        }
    }
    drop(worker);
    shared.finish();
    machine.to_string()
}

#[test]
fn soak() {
    let (first, seeds) = (setting("SOAK_FIRST_SEED", 0), setting("SOAK_SEEDS", 2 * Machine::kinds()));
    let operations = setting("SOAK_OPERATIONS", 1_500);
    let check_every = setting("SOAK_CHECK_EVERY", 100);
    for seed in first..first + seeds {
        let begun = Instant::now();
        let machine = run(seed, operations, check_every);
        let (at, seconds) = (seed - first + 1, begun.elapsed().as_secs_f64());
        println!("soak: {at} of {seeds}: seed {seed}, {operations} operations in {seconds:.1} s, {machine}");
    }
}

#[test]
fn a_seed_alone_gives_the_same_program() {
    let calls = |seed| {
        let machine = Machine::of_seed(seed);
        let shared = Shared::new(&machine, seed);
        let mut worker = Worker::new(&shared, seed);
        (0..500).for_each(|_| worker.step());
        shared.sim.take_calls().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for seed in 0..4 {
        let first = calls(seed);
        assert!(first.len() > 100);
        assert_eq!(calls(seed), first);
    }
    assert_ne!(calls(0), calls(1));
}

#[test]
fn a_program_that_forgets_to_record_its_streams_is_found_out() {
    for seed in 0..Machine::kinds() {
        let machine = Machine::of_seed(seed);
        let shared = Shared::new(&machine, seed);
        let mut worker = Worker::new(&shared, seed);
        worker.forgets = true;
        let found = (0..20_000).find(|_| {
            worker.step();
            !shared.sim.races().is_empty()
        });
        assert!(found.is_some(), "seed {seed} on {machine}");
        // Its own device is waited for when memory goes back to the driver; another is not.
        let race = &shared.sim.races()[0];
        assert!(matches!(race.kind, RaceKind::Reused | RaceKind::FreedUnderUse), "{race}");
    }
}

/// The schedule of the threads is the system's; what each does is its seed's.
#[test]
fn threads_soak_one_allocator() {
    for seed in 0..Machine::kinds() {
        let machine = Machine::of_seed(seed);
        let _watch = Watch { seed, machine: &machine };
        let shared = Shared::new(&machine, seed);
        thread::scope(|scope| {
            for thread in 0..4 {
                let shared = &shared;
                scope.spawn(move || {
                    let mut worker = Worker::new(shared, seed * 31 + thread);
                    worker.is_alone = false;
                    (0..400).for_each(|_| worker.step());
                });
            }
        });
        shared.finish();
    }
}
