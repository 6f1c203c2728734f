//! Virtual memory: reserve, create, map, give access, and back.

use crate::rig::{INVALID_VALUE, Rig, SUCCESS, call};

pub(crate) const UNIT: usize = 2 << 20;

/// `CUmemAllocationProp` of memory of a device.
#[repr(C)]
struct Prop {
    kind: u32,
    handle_types: u32,
    location: [i32; 2],
    meta: u64,
    flags: u64,
}

/// `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location: [i32; 2],
    flags: u32,
}

/// Physical memory of a device: the result, and the handle.
pub(crate) fn create(device: i32, bytes: usize, handle_types: u32) -> (u32, u64) {
    let prop = Prop { kind: 1, handle_types, location: [1, device], meta: 0, flags: 0 };
    let mut handle = 0;
    let made = call!(cuMemCreate(&mut handle => *mut u64, bytes => usize, &prop => *const Prop, 0 => u64));
    (made, handle)
}

/// Maps a unit of physical memory in a range of its own, with access for device 0.
pub(crate) fn map(handle: u64) -> u64 {
    let mut base = 0u64;
    let reserved =
        call!(cuMemAddressReserve(&mut base => *mut u64, UNIT => usize, 0 => usize, 0 => u64, 0 => u64));
    assert_eq!(reserved, SUCCESS);
    assert_eq!(call!(cuMemMap(base => u64, UNIT => usize, 0 => usize, handle => u64, 0 => u64)), SUCCESS);
    let access = Access { location: [1, 0], flags: 3 };
    let set = call!(cuMemSetAccess(base => u64, UNIT => usize, &access => *const Access, 1 => usize));
    assert_eq!(set, SUCCESS);
    base
}

#[test]
fn memory_is_mapped_used_and_given_back() {
    let rig = Rig::new(1);
    let prop = Prop { kind: 1, handle_types: 0, location: [1, 0], meta: 0, flags: 0 };
    let mut unit = 0usize;
    let asked = call!(cuMemGetAllocationGranularity(&mut unit => *mut usize, &prop => *const Prop, 0 => u32));
    assert_eq!((asked, unit), (SUCCESS, UNIT));
    let mut base = 0u64;
    let reserved =
        call!(cuMemAddressReserve(&mut base => *mut u64, 4 * UNIT => usize, 0 => usize, 0 => u64, 0 => u64));
    assert_eq!(reserved, SUCCESS);
    let (made, handle) = create(0, 2 * UNIT, 0);
    assert_eq!(made, SUCCESS);
    assert_eq!(call!(cuMemMap(base => u64, 2 * UNIT => usize, 0 => usize, handle => u64, 0 => u64)), SUCCESS);
    let access = Access { location: [1, 0], flags: 3 };
    let set = || call!(cuMemSetAccess(base => u64, 2 * UNIT => usize, &access => *const Access, 1 => usize));
    assert_eq!(set(), SUCCESS);
    let mut flags = 0u64;
    let location = [1i32, 0];
    assert_eq!(
        call!(cuMemGetAccess(&mut flags => *mut u64, location.as_ptr() => *const i32, base => u64)),
        SUCCESS
    );
    assert_eq!(flags, 3);
    rig.upload(base + 100, &[5; 64]);
    assert_eq!(rig.download(base + 100, 64), [5; 64]);
    let mut byte = 0u8;
    let beyond = call!(cuMemcpyDtoH_v2(&mut byte => *mut u8, base + 2 * UNIT as u64 => u64, 1 => usize));
    assert_eq!(beyond, INVALID_VALUE);
    let mut held = 0;
    assert_eq!(call!(cuMemRetainAllocationHandle(&mut held => *mut u64, base + 5 => u64)), SUCCESS);
    assert_eq!(held, handle);
    assert_eq!(rig.live(), 3);
    for _ in 0..2 {
        assert_eq!(call!(cuMemRelease(handle => u64)), SUCCESS);
    }
    assert_eq!(call!(cuMemRelease(handle => u64)), INVALID_VALUE);
    // It lives on while it is mapped.
    assert_eq!(rig.download(base + 100, 64), [5; 64]);
    assert_ne!(call!(cuMemAddressFree(base => u64, 4 * UNIT => usize)), SUCCESS);
    assert_eq!(call!(cuMemUnmap(base => u64, 2 * UNIT => usize)), SUCCESS);
    assert_eq!(call!(cuMemUnmap(base => u64, 2 * UNIT => usize)), INVALID_VALUE);
    assert_eq!(call!(cuMemAddressFree(base => u64, UNIT => usize)), INVALID_VALUE);
    assert_eq!(call!(cuMemAddressFree(base => u64, 4 * UNIT => usize)), SUCCESS);
    let (mut free, mut total) = (0usize, 0usize);
    assert_eq!(call!(cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize)), SUCCESS);
    assert_eq!(free, total);
}

#[test]
fn sizes_that_are_no_units_are_refused() {
    let _rig = Rig::new(1);
    assert_eq!(create(0, UNIT + 1, 0).0, INVALID_VALUE);
    assert_ne!(create(5, UNIT, 0).0, SUCCESS);
    let reserved =
        call!(cuMemAddressReserve(&mut 0 => *mut u64, 100 => usize, 0 => usize, 0 => u64, 0 => u64));
    assert_eq!(reserved, INVALID_VALUE);
}

#[test]
fn addresses_of_a_graph_that_is_gone_can_be_mapped() {
    let rig = Rig::new(1);
    let stream = rig.stream();
    let (mut ptr, mut graph) = (0u64, 0u64);
    assert_eq!(call!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), SUCCESS);
    assert_eq!(call!(cuMemAllocAsync(&mut ptr => *mut u64, 4096 => usize, stream => u64)), SUCCESS);
    assert_eq!(call!(cuMemFreeAsync(ptr => u64, stream => u64)), SUCCESS);
    assert_eq!(call!(cuStreamEndCapture(stream => u64, &mut graph => *mut u64)), SUCCESS);
    assert_eq!(call!(cuGraphDestroy(graph => u64)), SUCCESS);
    let (made, handle) = create(0, UNIT, 0);
    assert_eq!(made, SUCCESS);
    let base = map(handle);
    assert_eq!(base, ptr, "the addresses are given out anew");
    assert_eq!(call!(cuMemsetD8Async(base => u64, 1u8 => u8, UNIT => usize, stream => u64)), SUCCESS);
    assert_eq!(rig.download(base, UNIT), vec![1; UNIT]);
    assert_eq!(call!(cuMemUnmap(base => u64, UNIT => usize)), SUCCESS);
    assert_eq!(call!(cuMemRelease(handle => u64)), SUCCESS);
    assert_eq!(call!(cuMemAddressFree(base => u64, UNIT => usize)), SUCCESS);
    rig.end_stream(stream);
}
