//! Memory whose bytes lie outside a simulated machine, where another has them too.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::{Arc, Mutex};

use c10_cuda::driver::sim::{SharedBytes, SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver, PhysHandle, Status, StreamHandle};

use crate::support::{MIB, fill, free, read, unmap, upload};

const S0: StreamHandle = StreamHandle::default_of(0);

/// Bytes that two machines have in common.
#[derive(Debug)]
struct Common(Mutex<Vec<u8>>);

impl SharedBytes for Common {
    fn read_at(&self, offset: u64, out: &mut [u8]) {
        let bytes = self.0.lock().unwrap();
        out.copy_from_slice(&bytes[offset as usize..][..out.len()]);
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) {
        self.0.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

#[test]
fn machines_share_the_bytes_of_memory() {
    let [one, two] = [(); 2].map(|()| SimDriver::new(SimConfig::with_bytes(64 * MIB)));
    let ptr = one.malloc(0, 40_001).unwrap();
    fill(&*one, ptr, 7, 100, S0).unwrap();
    fill(&*one, ptr.offset(40_000), 8, 1, S0).unwrap();
    one.stream_synchronize(S0).unwrap();
    let common = Arc::new(Common(vec![0; 40_001].into()));
    assert_eq!(one.share_bytes(ptr, common.clone()).unwrap(), 40_001);
    let free_before = two.memory_info(0).unwrap();
    let there = two.malloc_shared(0, 40_001, common.clone()).unwrap();
    assert_eq!(two.memory_info(0).unwrap(), free_before, "the memory is the other's");
    assert_eq!(read(&*two, there, 100, S0), [7; 100]);
    assert_eq!(read(&*two, there.offset(40_000), 1, S0), [8]);
    // Each sees what the other writes.
    fill(&*two, there.offset(1), 9, 40_000, S0).unwrap();
    two.stream_synchronize(S0).unwrap();
    let seen = read(&*one, ptr, 40_001, S0);
    assert!(seen[0] == 7 && seen[1..].iter().all(|byte| *byte == 9));
    upload(&*one, ptr, &[1, 2, 3], S0).unwrap();
    one.stream_synchronize(S0).unwrap();
    assert_eq!(read(&*two, there, 3, S0), [1, 2, 3]);
    // Moved on, the contents go along.
    let next = Arc::new(Common(vec![0; 40_001].into()));
    one.share_bytes(ptr, next.clone()).unwrap();
    assert_eq!(next.0.lock().unwrap()[..4], [1, 2, 3, 9]);
    free(&*two, there).unwrap();
    assert_eq!(two.memory_info(0).unwrap(), free_before);
    assert_eq!(two.share_bytes(there, common.clone()), Err(Status::InvalidValue));
    assert_eq!(two.malloc_shared(0, 0, common.clone()), Err(Status::InvalidValue));
    assert_eq!(two.malloc_shared(1, 1, common), Err(Status::InvalidDevice));
}

#[test]
fn machines_share_the_bytes_of_physical_memory() {
    let [one, two] = [(); 2].map(|()| SimDriver::new(SimConfig::with_bytes(64 * MIB)));
    let common = Arc::new(Common(vec![0; 2 * MIB as usize].into()));
    let mapped = |d: &SimDriver, memory: PhysHandle| -> DevicePtr {
        let range = d.reserve(0, 2 * MIB).unwrap();
        d.map(range.base, memory).unwrap();
        d.set_access(range.base, 2 * MIB, &[0]).unwrap();
        d.release(memory).unwrap();
        range.base
    };
    let memory = one.create(0, 2 * MIB).unwrap();
    assert_eq!(one.share_physical(memory, common.clone()).unwrap(), 2 * MIB);
    let a = mapped(&one, memory);
    assert_eq!(one.share_physical(memory, common.clone()), Err(Status::InvalidHandle), "it is released");
    assert_eq!(two.create_shared(0, 1, common.clone()), Err(Status::InvalidValue));
    let b = mapped(&two, two.create_shared(0, 2 * MIB, common).unwrap());
    fill(&*one, a, 5, 2 * MIB, S0).unwrap();
    one.stream_synchronize(S0).unwrap();
    assert_eq!(read(&*two, b.offset(2 * MIB - 4), 4, S0), [5; 4]);
    assert_eq!(two.memory_info(0).unwrap().free, 64 * MIB);
    unmap(&*two, b, 2 * MIB).unwrap();
    assert_eq!(two.memory_info(0).unwrap().free, 64 * MIB);
}
