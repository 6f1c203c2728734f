//! The caching host allocator under loom. It stands alone because it counts the host bytes of the whole process,
//! which models that run beside it would change.
//!
//! `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p c10-core --test loom_caching --release`
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use c10_core::allocator::{Allocator, CachingCpuAllocator, CachingCpuConfig, CpuAllocator};
use loom::thread;

#[test]
fn the_cache_may_end_while_others_free() {
    loom::model(|| {
        let before = CpuAllocator::live_bytes();
        let allocator = CachingCpuAllocator::new(CachingCpuConfig { max_cached_bytes: 1 << 20 });
        let ptr = allocator.allocate(8).unwrap();
        let free = thread::spawn(move || drop(ptr));
        drop(allocator);
        free.join().unwrap();
        assert_eq!(CpuAllocator::live_bytes(), before);
    });
}
