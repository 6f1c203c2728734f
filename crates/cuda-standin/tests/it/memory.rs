//! Memory of devices and of the host: addresses, ends of lives, what an address is.

use crate::rig::{INVALID_VALUE, OUT_OF_MEMORY, Rig, SUCCESS, call};

const HOST_MEMORY_ALREADY_REGISTERED: u32 = 712;
const HOST_MEMORY_NOT_REGISTERED: u32 = 713;

#[test]
fn memory_is_freed_once() {
    let rig = Rig::new(1);
    let ptr = rig.malloc(1000);
    assert_eq!(call!(cuMemFree_v2(ptr + 512 => u64)), INVALID_VALUE);
    rig.free(ptr);
    assert_eq!(call!(cuMemFree_v2(ptr => u64)), INVALID_VALUE);
    assert_eq!(call!(cuMemAlloc_v2(&mut 0 => *mut u64, 0 => usize)), INVALID_VALUE);
    assert_eq!(call!(cuMemAlloc_v2(&mut 0 => *mut u64, 65 << 20 => usize)), OUT_OF_MEMORY);
    let (mut free, mut total) = (0, 0);
    assert_eq!(call!(cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize)), SUCCESS);
    assert_eq!((free, total), (64 << 20, 64 << 20));
}

#[test]
fn memory_in_stream_order_is_freed_either_way() {
    let rig = Rig::manual(1);
    let stream = rig.stream();
    let mut ptrs = [0; 2];
    for ptr in &mut ptrs {
        assert_eq!(call!(cuMemAllocAsync(ptr => *mut u64, 4096 => usize, stream => u64)), SUCCESS);
    }
    assert_eq!(rig.live(), 3);
    assert_eq!(call!(cuMemFreeAsync(ptrs[0] => u64, stream => u64)), SUCCESS);
    assert_eq!(call!(cuMemFreeAsync(ptrs[0] => u64, stream => u64)), INVALID_VALUE);
    rig.free(ptrs[1]);
    // Memory that has no stream's order cannot be freed in one.
    let plain = rig.malloc(64);
    assert_eq!(call!(cuMemFreeAsync(plain => u64, stream => u64)), INVALID_VALUE);
    rig.free(plain);
    rig.end_stream(stream);
}

#[test]
fn host_memory_is_the_programs_to_use() {
    let rig = Rig::new(1);
    let mut at = std::ptr::null_mut::<u8>();
    assert_eq!(call!(cuMemHostAlloc(&mut at => *mut *mut u8, 4096 => usize, 1 => u32)), SUCCESS);
    // SAFETY: the library gave 4096 bytes.
    unsafe {
        at.write_bytes(7, 4096);
    }
    let ptr = rig.malloc(4096);
    assert_eq!(call!(cuMemcpyHtoD_v2(ptr => u64, at => *mut u8, 4096 => usize)), SUCCESS);
    assert_eq!(rig.download(ptr, 4096), vec![7; 4096]);
    let mut flags = 0;
    assert_eq!(call!(cuMemHostGetFlags(&mut flags => *mut u32, at => *mut u8)), SUCCESS);
    assert_eq!(flags, 1);
    assert_eq!(call!(cuMemFreeHost(at => *mut u8)), SUCCESS);
    assert_eq!(call!(cuMemFreeHost(at => *mut u8)), INVALID_VALUE);
    rig.free(ptr);
}

#[test]
fn host_memory_is_registered_once() {
    let _rig = Rig::new(1);
    let mut own = vec![0u8; 4096];
    let at = own.as_mut_ptr();
    assert_eq!(call!(cuMemHostUnregister(at => *mut u8)), HOST_MEMORY_NOT_REGISTERED);
    assert_eq!(call!(cuMemHostRegister_v2(at => *mut u8, 4096 => usize, 0 => u32)), SUCCESS);
    let again = call!(cuMemHostRegister_v2(at => *mut u8, 64 => usize, 0 => u32));
    assert_eq!(again, HOST_MEMORY_ALREADY_REGISTERED);
    assert_eq!(call!(cuMemFreeHost(at => *mut u8)), INVALID_VALUE);
    assert_eq!(call!(cuMemHostUnregister(at => *mut u8)), SUCCESS);
}

#[test]
fn an_address_says_what_it_is() {
    let rig = Rig::new(2);
    let second = rig.retain(1);
    rig.make_current(second);
    let ptr = rig.malloc(10_000);
    rig.make_current(rig.context);
    let (mut kind, mut ordinal, mut context, mut start) = (0u32, 0i32, 0u64, 0u64);
    let ask = |attribute: u32, value: *mut u8, at: u64| call!(cuPointerGetAttribute(value => *mut u8, attribute => u32, at => u64));
    assert_eq!(ask(2, (&raw mut kind).cast(), ptr + 99), SUCCESS);
    assert_eq!(ask(9, (&raw mut ordinal).cast(), ptr + 99), SUCCESS);
    assert_eq!(ask(1, (&raw mut context).cast(), ptr + 99), SUCCESS);
    assert_eq!(ask(11, (&raw mut start).cast(), ptr + 99), SUCCESS);
    assert_eq!((kind, ordinal, context, start), (2, 1, second, ptr));
    // Behind the end it is nobody's.
    assert_eq!(ask(2, (&raw mut kind).cast(), ptr + 10_000), INVALID_VALUE);
    let (mut base, mut bytes) = (0u64, 0usize);
    let range =
        call!(cuMemGetAddressRange_v2(&mut base => *mut u64, &mut bytes => *mut usize, ptr + 5 => u64));
    assert_eq!((range, base, bytes), (SUCCESS, ptr, 10_000));
    rig.free(ptr);
    assert_eq!(ask(2, (&raw mut kind).cast(), ptr), INVALID_VALUE);
}
