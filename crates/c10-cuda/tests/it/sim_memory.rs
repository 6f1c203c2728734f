//! Placement, capacity and scripted addresses of the simulated device.
#![expect(unsafe_code, reason = "calls the raw layer; frees only what nothing uses")]

use c10_cuda::driver::sim::{MAX_DEVICES, SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver, Status};

const MIB: u64 = 1 << 20;
const BASE: u64 = 1 << 52;

fn free(sim: &SimDriver, at: u64) -> Result<(), Status> {
    // SAFETY: no work uses the memory.
    unsafe { sim.free(DevicePtr(at)) }.map_err(|e| e.status)
}

#[test]
fn the_lowest_range_that_fits_is_taken_in_units_of_two_mib() {
    let sim = SimDriver::new(SimConfig::with_devices(2, 64 * MIB));
    let malloc = |device, bytes| sim.malloc(device, bytes).unwrap().0;
    assert_eq!(malloc(0, 1), BASE);
    assert_eq!(malloc(0, 3 * MIB), BASE + 2 * MIB);
    assert_eq!(malloc(0, 2 * MIB), BASE + 6 * MIB);
    assert_eq!(malloc(1, 2 * MIB), BASE + (1 << 47));
    free(&sim, BASE).unwrap();
    assert_eq!(malloc(0, 4 * MIB), BASE + 8 * MIB, "the hole is too small");
    free(&sim, BASE + 2 * MIB).unwrap();
    assert_eq!(malloc(0, 6 * MIB), BASE, "the holes have become one");
    assert_eq!(free(&sim, BASE + 2 * MIB), Err(Status::InvalidValue));
}

#[test]
fn capacity_counts_whole_units_and_is_given_back() {
    let sim = SimDriver::new(SimConfig::with_bytes(5 * MIB));
    let a = sim.malloc(0, 2 * MIB + 1).unwrap();
    assert_eq!(sim.memory_info(0).unwrap().free, MIB);
    assert_eq!(sim.malloc(0, 1).unwrap_err().status, Status::OutOfMemory);
    free(&sim, a.0).unwrap();
    assert_eq!(sim.memory_info(0).unwrap().free, 5 * MIB);
    for (bytes, status) in [(0, Status::InvalidValue), (u64::MAX, Status::OutOfMemory)] {
        assert_eq!(sim.malloc(0, bytes).unwrap_err().status, status);
    }
    assert_eq!(sim.malloc(1, 1).unwrap_err().status, Status::InvalidDevice);
}

#[test]
fn scripted_addresses_are_taken_in_order_wherever_they_lie() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB));
    let far = DevicePtr(0x7f12_3456_7200);
    let near = DevicePtr(BASE + 2 * MIB);
    sim.script_malloc_addresses(0, vec![far, near, DevicePtr(near.0 + 512)]);
    assert_eq!(sim.malloc(0, 700).unwrap(), far);
    assert_eq!(sim.malloc(0, 1024).unwrap(), near);
    assert_eq!(sim.malloc(0, 1).unwrap_err().status, Status::InvalidValue, "it would overlap");
    sim.script_malloc_addresses(0, vec![]);
    assert_eq!(sim.malloc(0, 4 * MIB).unwrap().0, BASE + 4 * MIB, "what a script took is not free");
    assert_eq!(sim.malloc(0, 2 * MIB).unwrap().0, BASE);
    assert_eq!(sim.memory_info(0).unwrap().free, (64 - 10) * MIB);
    for at in [far.0, near.0, BASE, BASE + 4 * MIB] {
        free(&sim, at).unwrap();
    }
    assert_eq!(sim.memory_info(0).unwrap().free, 64 * MIB);
    assert_eq!(sim.malloc(0, 64 * MIB).unwrap().0, BASE, "all of it is one range again");
}

#[test]
fn reservations_have_a_region_of_their_own_that_ends() {
    let sim = SimDriver::new(SimConfig { reservable_bytes: 8 * MIB, ..SimConfig::with_bytes(64 * MIB) });
    let region = BASE + (1 << 46);
    let first = sim.reserve(0, 6 * MIB).unwrap();
    assert_eq!((first.base.0, first.bytes), (region, 6 * MIB));
    assert_eq!(sim.reserve(0, 4 * MIB).unwrap_err().status, Status::OutOfMemory);
    assert_eq!(sim.reserve(0, 2 * MIB).unwrap().base.0, region + 6 * MIB);
    assert_eq!(sim.malloc(0, 1).unwrap().0, BASE);
    assert_eq!(sim.memory_info(0).unwrap().free, 62 * MIB, "addresses cost no memory");
}

#[test]
fn scripted_reservations_hold_off_whatever_else_wants_the_place() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB));
    sim.script_reserve_addresses(0, vec![DevicePtr(BASE), DevicePtr(BASE + 1)]);
    let held = sim.reserve(0, 4 * MIB).unwrap();
    assert_eq!(held.base.0, BASE);
    assert_eq!(sim.reserve(0, 2 * MIB).unwrap_err().status, Status::InvalidValue, "not a whole unit");
    sim.script_reserve_addresses(0, vec![]);
    assert_eq!(sim.malloc(0, 1).unwrap().0, BASE + 4 * MIB);
    sim.script_malloc_addresses(0, vec![DevicePtr(BASE + 2 * MIB)]);
    assert_eq!(sim.malloc(0, 1).unwrap_err().status, Status::InvalidValue);
    sim.script_malloc_addresses(0, vec![]);
    // SAFETY: nobody uses the addresses.
    unsafe { sim.free_range(held) }.unwrap();
    assert_eq!(sim.malloc(0, 4 * MIB).unwrap().0, BASE);
}

#[test]
fn addresses_stay_exact_in_json_and_apart_for_every_device() {
    let sim = SimDriver::new(SimConfig::with_devices(MAX_DEVICES, 4 * MIB));
    let bases: Vec<u64> = (0..sim.device_count()).map(|d| sim.malloc(d, 1).unwrap().0).collect();
    assert!(bases.iter().all(|&base| (base as f64) as u64 == base && base < 1 << 53));
    assert!(bases.windows(2).all(|w| w[1] - w[0] == 1 << 47));
    let none = SimDriver::new(SimConfig::with_devices(0, 0));
    assert_eq!(none.malloc(0, 1).unwrap_err().status, Status::InvalidDevice);
    assert!(
        std::panic::catch_unwind(|| SimDriver::new(SimConfig::with_devices(MAX_DEVICES + 1, 1))).is_err()
    );
}
