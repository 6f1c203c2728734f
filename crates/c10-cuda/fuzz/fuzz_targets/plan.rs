//! Whatever is read as a plan prints as the very same file.

#![no_main]

use c10_cuda::plan::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(plan) = Plan::parse(bytes) {
        assert_eq!(plan.to_string().as_bytes(), bytes);
        assert!(plan.bound() <= plan.height());
    }
});
