//! A snapshot file, pickle or JSON, gzip'd or not, is read or refused within its limits; what is read has an initial
//! state or a reason why not.

#![no_main]

#[allow(dead_code, unused_imports, reason = "the command uses more of it")]
#[path = "../../src/snapshot/mod.rs"]
mod snapshot;

use libfuzzer_sys::fuzz_target;
use snapshot::{Limits, Wanted, initial_state, read_snapshot};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { input_bytes: 1 << 22, memory_bytes: 1 << 22, depth: 64 };
    if let Ok(snapshot) = read_snapshot(bytes, limits, Wanted::Stacks) {
        for device in 0..snapshot.device_count() {
            drop(initial_state(&snapshot, device));
        }
    }
});
