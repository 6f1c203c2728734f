//! The driver's memory pools as the allocator (`backend:cudaMallocAsync`).
#![expect(unsafe_code, reason = "gives raw memory back that nothing uses")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use c10_core::{DataPtr, Stream};
use c10_cuda::driver::sim::{CALL_NAMES, Completion, FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{Checked, DevicePtr, Driver, Status};
use c10_cuda::{CachingAllocator, Config, ErrorKind, OutOfMemory};

use crate::machine::STRANGE;
use crate::oracle_trace::{Player, play};
use crate::support::MIB;

const CONF: &str = "backend:cudaMallocAsync";

fn config() -> Config {
    Config::parse(CONF).unwrap()
}

/// What PyTorch did is what this does: commands, and the answers of `torch_replay` behind a line of dashes.
#[test]
fn the_calls_are_pytorchs() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/async_backend");
    let mut seen = 0;
    for entry in golden.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (commands, expected) = text.split_once("---\n").unwrap();
        let devices = if commands.starts_with("# devices 2") { 2 } else { 1 };
        let answers = Player::new(devices, 64, CONF).run(commands);
        let answers: Vec<_> = answers.iter().filter(|line| !line.starts_with("device ")).collect();
        for (line, (ours, theirs)) in answers.iter().zip(expected.lines()).enumerate() {
            assert_eq!(*ours, theirs, "{}: answer {line}", path.display());
        }
        assert_eq!(answers.len(), expected.lines().count(), "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 8);
}
