//! A text of settings is refused and changes nothing, or gives settings that an allocator works under.

#![no_main]

use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config, ErrorKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut config = Config::default();
    match config.set(text) {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert_eq!(config, Config::default());
        }
        Ok(()) => {
            let driver = SimDriver::new(SimConfig::with_bytes(256 << 20));
            let Ok(cuda) = CachingAllocator::new(driver, config) else { return };
            for bytes in [1, 4096, 3 << 20, 40 << 20, 1 << 62] {
                drop(cuda.allocate(bytes));
            }
            cuda.check_invariants();
        }
    }
});
