//! A program of two bytes an operation, over an allocator of two streams: the invariants hold, and all memory goes
//! back. The first byte decides the settings.

#![no_main]

use c10_core::{DeviceType, Stream};
use c10_cuda::driver::Driver;
use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config};
use libfuzzer_sys::fuzz_target;

const SETTINGS: [&str; 5] = [
    "",
    "max_split_size_mb:20,garbage_collection_threshold:0.5",
    "roundup_power2_divisions:4",
    "expandable_segments:True",
    "expandable_segments:True,max_split_size_mb:30",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, program)) = bytes.split_first() else { return };
    let settings = SETTINGS[usize::from(*first) % SETTINGS.len()];
    let sim = SimDriver::new(SimConfig::with_bytes(128 << 20));
    let cuda = CachingAllocator::new(sim.clone(), Config::parse(settings).expect("settings")).expect("supported");
    let side = cuda.runtime().stream_from_pool(0, 0).expect("a stream");
    let streams = [Stream::default_of(DeviceType::Cuda, 0), side];
    let mut held = Vec::new();
    for step in program.chunks_exact(2) {
        let [operation, number] = [step[0], step[1]];
        let stream = streams[usize::from(operation >> 7)];
        let at = usize::from(number) % held.len().max(1);
        match operation & 0x7f {
            0..=63 => {
                // Sizes of every class, 2^0 to 2^27, and a little beside.
                let bytes = (1_u64 << (number % 28)) + u64::from(operation & 3) - 1;
                held.extend(cuda.allocate_on(bytes, stream));
            }
            64..=95 if !held.is_empty() => drop(held.swap_remove(at)),
            96..=107 if !held.is_empty() => cuda.record_stream(&held[at], stream).expect("it is ours"),
            108..=115 => sim.complete_all(),
            116 => cuda.empty_cache().expect("no call fails"),
            117 => cuda.set_memory_fraction(f64::from(number) / 255.0, 0).expect("a fraction"),
            _ => {}
        }
        cuda.check_invariants();
    }
    held.clear();
    cuda.empty_cache().expect("no call fails");
    cuda.check_invariants();
    let info = sim.memory_info(0).expect("the device is there");
    assert_eq!(info.free, info.total);
});
