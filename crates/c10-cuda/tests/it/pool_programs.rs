//! Random programs with pools, captures, waits and checkpoints, in the oracle's commands: the invariants hold after
//! each, whatever is refused, no capture is spoilt, nothing races, and all memory goes back in the end.

use std::fmt::Write as _;

use c10_cuda::alloc::MempoolId;
use c10_cuda::driver::{CaptureState, Driver};
use proptest::prelude::*;

use crate::oracle_trace::Player;

/// Streams of the programs, the default one among them.
const STREAMS: usize = 4;
const POOLS: u64 = 5;

#[derive(Clone, Debug)]
enum Step {
    Allocate { size: u64, stream: usize, elsewhere: bool },
    Free { slot: usize },
    Record { slot: usize, stream: usize },
    Kernel { stream: usize },
    Wait { waiting: usize, waited: usize },
    Complete,
    Empty { elsewhere: bool },
    Current { stream: usize },
    Pool { call: &'static str, pool: u64 },
    Capture { stream: usize, pool: u64, mode: &'static str },
    EndCapture,
    Restore { pool: u64 },
    At { slot: usize, size: u64, offset: u64 },
    Fraction(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || 0..STREAMS;
    let slot = || 0..64_usize;
    let size =
        prop_oneof![1..5000_u64, Just(1 << 20), 1_000_000..12_000_000_u64, Just(20 << 20), Just(50 << 20)];
    let call = prop::sample::select(vec![
        "pool_begin all",
        "pool_begin thread",
        "pool_begin 1",
        "pool_end",
        "pool_release",
        "pool_create",
        "pool_empty",
        "mempool own",
        "mempool use_on_oom",
        "mempool no_split",
        "mempool_del",
        "use",
        "unuse",
        "checkpoint",
    ]);
    let mode = prop::sample::select(vec!["global", "thread_local", "relaxed"]);
    prop_oneof![
        12 => (size.clone(), stream(), prop::bool::weighted(0.1))
            .prop_map(|(size, stream, elsewhere)| Step::Allocate { size, stream, elsewhere }),
        9 => slot().prop_map(|slot| Step::Free { slot }),
        4 => (slot(), stream()).prop_map(|(slot, stream)| Step::Record { slot, stream }),
        3 => stream().prop_map(|stream| Step::Kernel { stream }),
        3 => (stream(), stream()).prop_map(|(waiting, waited)| Step::Wait { waiting, waited }),
        1 => Just(Step::Complete),
        1 => any::<bool>().prop_map(|elsewhere| Step::Empty { elsewhere }),
        2 => stream().prop_map(|stream| Step::Current { stream }),
        8 => (call, 1..=POOLS).prop_map(|(call, pool)| Step::Pool { call, pool }),
        2 => (1..STREAMS, 1..=POOLS, mode).prop_map(|(stream, pool, mode)| Step::Capture { stream, pool, mode }),
        2 => Just(Step::EndCapture),
        1 => (1..=POOLS).prop_map(|pool| Step::Restore { pool }),
        1 => (slot(), size, 0..4096_u64).prop_map(|(slot, size, at)| Step::At { slot, size, offset: at * 512 }),
        1 => any::<bool>().prop_map(Step::Fraction),
    ]
}

/// The commands of a program so far, and what they have named.
struct Program {
    player: Player,
    next: u64,
    /// The stream whose capture is under way, and the streams that take part.
    capture: Option<usize>,
    members: Vec<usize>,
}

impl Program {
    fn live(&self, slot: usize) -> Option<u64> {
        let mut ids: Vec<u64> = self.player.live.keys().copied().collect();
        ids.sort_unstable();
        (!ids.is_empty()).then(|| ids[slot % ids.len()])
    }

    fn run(&mut self, command: &str) {
        self.player.run(command);
        // Nothing that the allocator does disturbs a capture.
        if let Some(stream) = self.capture {
            let handle = self.player.handle(&stream.to_string());
            let state = self.player.sim.capture_state(handle).unwrap();
            assert!(matches!(state, CaptureState::Active { .. }), "`{command}` has spoilt the capture");
        }
    }

    fn step(&mut self, step: &Step) {
        let mut text = String::new();
        match *step {
            Step::Allocate { size, stream, elsewhere } => {
                let thread = if elsewhere { "t 1 " } else { "" };
                write!(text, "{thread}a {} {size} {stream}", self.next).unwrap();
                self.next += 1;
            }
            Step::Free { slot } => match self.live(slot) {
                Some(id) => write!(text, "f {id}").unwrap(),
                None => return,
            },
            Step::Record { slot, stream } => match self.live(slot) {
                Some(id) => write!(text, "r {id} {stream}").unwrap(),
                None => return,
            },
            Step::Kernel { stream } => write!(text, "k {stream}").unwrap(),
            Step::Wait { waiting, waited } => {
                // What CUDA refuses in a capture spoils it, and is the program's fault.
                let is_in = |stream| self.members.contains(&stream);
                if waiting == waited
                    || self.capture.is_some()
                        && (waiting == 0 || is_in(waiting) != is_in(waited) && !is_in(waited))
                {
                    return;
                }
                if is_in(waited) && !is_in(waiting) {
                    self.members.push(waiting);
                }
                write!(text, "w {waiting} {waited}").unwrap();
            }
            Step::Complete => text.push('S'),
            Step::Empty { elsewhere } => text.push_str(if elsewhere { "t 1 e" } else { "e" }),
            Step::Current { stream } => write!(text, "c {stream}").unwrap(),
            Step::Pool { call: "checkpoint", pool } => {
                write!(text, "checkpoint C{pool} {pool}").unwrap();
            }
            Step::Pool { call, pool } => match call.split_once(' ') {
                Some((call, how)) => write!(text, "{call} {pool} {how}").unwrap(),
                None => write!(text, "{call} {pool}").unwrap(),
            },
            Step::Capture { stream, pool, mode } => {
                if self.capture.is_some() {
                    return;
                }
                let lines = self.player.run(&format!("capture_begin {stream} {pool} {mode}"));
                if !lines[0].starts_with("error") {
                    (self.capture, self.members) = (Some(stream), vec![stream]);
                }
                return;
            }
            Step::EndCapture => return self.end_capture(),
            Step::Restore { pool } => {
                write!(text, "restore C{pool} {}", self.next).unwrap();
                self.next += 1000;
            }
            Step::At { slot, size, offset } => match self.live(slot) {
                Some(id) => {
                    write!(text, "at {} {size} 0 {id} {offset}", self.next).unwrap();
                    self.next += 1;
                }
                None => return,
            },
            Step::Fraction(low) => text.push_str(if low { "m 0.6" } else { "m 1" }),
        }
        self.run(&text);
    }

    /// Joins all streams, and ends the capture.
    fn end_capture(&mut self) {
        let Some(stream) = self.capture.take() else { return };
        for member in std::mem::take(&mut self.members) {
            if member != stream {
                self.player.run(&format!("w {stream} {member}"));
            }
        }
        let lines = self.player.run(&format!("capture_end {stream}"));
        let last = lines.last().unwrap();
        // The program may have ended the capture's scope itself.
        let ended = last.starts_with(&format!("capture_end {stream} nodes "))
            || last.contains("end_allocate_to_pool");
        assert!(ended, "{lines:?}");
    }

    /// Ends everything that is open, and looks whether all memory went back.
    fn finish(mut self) {
        self.end_capture();
        self.player.live.clear();
        self.player.run("c 0; S; m 1");
        let cuda = self.player.cuda.clone();
        for pool in 1..=POOLS {
            let id = MempoolId::new(0, pool);
            let _ = cuda.end_allocate_to_pool(0, id);
            while cuda.release_pool(0, id).is_ok() {}
        }
        cuda.empty_cache().unwrap();
        cuda.check_invariants();
        let info = self.player.sim.memory_info(0).unwrap();
        assert_eq!(info.free, info.total, "all memory goes back");
        for pool in 1..=POOLS {
            assert!(cuda.pool_use_count(0, MempoolId::new(0, pool)).is_err(), "pool {pool} has ended");
        }
        let races = self.player.sim.races();
        assert!(races.is_empty(), "{races:?}");
    }
}

fn settings() -> impl Strategy<Value = String> {
    let options = [
        "graph_capture_record_stream_reuse:True",
        "expandable_segments:True",
        "max_split_size_mb:30",
        "garbage_collection_threshold:0.5",
    ];
    prop::sample::subsequence(options.to_vec(), 0..=3).prop_map(|chosen| chosen.join(","))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn programs_keep_the_rules(settings in settings(), steps in prop::collection::vec(step(), 1..150)) {
        let player = Player::new(1, 96, &settings);
        let mut program = Program { player, next: 1, capture: None, members: Vec::new() };
        steps.iter().for_each(|step| program.step(step));
        program.finish();
    }
}
