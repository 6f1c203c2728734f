//! A trace of operations is read, or its first bad line is named.

#![no_main]

#[allow(dead_code, reason = "the command uses more of it")]
#[path = "../../src/replay/ops/mod.rs"]
mod ops;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    match ops::text(bytes).and_then(ops::parse) {
        Ok(read) => assert!(read.iter().all(|op| (1..=lines).contains(&op.line))),
        Err(bad) => assert!(!bad.to_string().is_empty()),
    }
});
