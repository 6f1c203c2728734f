//! Copies and fills: every kind, and what is pageable.

use crate::rig::{INVALID_VALUE, NOT_READY, Rig, SUCCESS, call};

#[test]
fn copies_of_every_kind_move_bytes() {
    let rig = Rig::new(2);
    let second = rig.retain(1);
    let a = rig.malloc(1024);
    rig.make_current(second);
    let b = rig.malloc(1024);
    rig.make_current(rig.context);
    let bytes: Vec<u8> = (0..1024u32).map(|i| (i * 7) as u8).collect();
    rig.upload(a, &bytes);
    let peer = call!(cuMemcpyPeer(
        b => u64, second => u64, a => u64, rig.context => u64, 1024 => usize
    ));
    assert_eq!(peer, SUCCESS);
    assert_eq!(rig.download(b, 1024), bytes);
    // The ends say by themselves where they are.
    let mut back = vec![0u8; 512];
    assert_eq!(call!(cuMemcpy(back.as_mut_ptr() => *mut u8, b + 512 => u64, 512 => usize)), SUCCESS);
    assert_eq!(back, bytes[512..]);
    let stream = rig.stream();
    let copy = call!(cuMemcpyAsync(a => u64, back.as_ptr() => *const u8, 512 => usize, stream => u64));
    assert_eq!(copy, SUCCESS);
    assert_eq!(call!(cuStreamSynchronize(stream => u64)), SUCCESS);
    assert_eq!(rig.download(a, 1024), [&bytes[512..], &bytes[512..]].concat());
    rig.end_stream(stream);
    rig.free(a);
    rig.free(b);
}

#[test]
fn copies_beyond_what_is_live_are_refused() {
    let rig = Rig::new(1);
    let ptr = rig.malloc(1000);
    let mut host = vec![0u8; 2000];
    let at = host.as_mut_ptr();
    assert_eq!(call!(cuMemcpyDtoH_v2(at => *mut u8, ptr => u64, 1001 => usize)), INVALID_VALUE);
    assert_eq!(call!(cuMemcpyHtoD_v2(ptr + 1 => u64, at => *mut u8, 1000 => usize)), INVALID_VALUE);
    assert_eq!(call!(cuMemcpyHtoD_v2(at => *mut u8, at => *mut u8, 8 => usize)), INVALID_VALUE);
    assert_eq!(call!(cuMemsetD8_v2(ptr => u64, 1 => u8, 1001 => usize)), INVALID_VALUE);
    rig.free(ptr);
    assert_eq!(call!(cuMemcpyDtoH_v2(at => *mut u8, ptr => u64, 8 => usize)), INVALID_VALUE);
}

#[test]
fn fills_write_their_pattern() {
    let rig = Rig::new(1);
    let ptr = rig.malloc(300_000);
    assert_eq!(call!(cuMemsetD8_v2(ptr => u64, 9 => u8, 300_000 => usize)), SUCCESS);
    assert_eq!(
        call!(cuMemsetD32Async(ptr + 4 => u64, 0x0102_0304 => u32, 50_000 => usize, 0 => u64)),
        SUCCESS
    );
    assert_eq!(call!(cuMemsetD16_v2(ptr => u64, 0x0506 => u16, 2 => usize)), SUCCESS);
    assert_eq!(call!(cuMemsetD32_v2(ptr + 2 => u64, 1 => u32, 1 => usize)), INVALID_VALUE);
    let bytes = rig.download(ptr, 300_000);
    assert_eq!(bytes[..4], [6, 5, 6, 5]);
    assert!(bytes[4..200_004].chunks(4).all(|word| word == [4, 3, 2, 1]));
    assert!(bytes[200_004..].iter().all(|byte| *byte == 9));
    rig.free(ptr);
}

#[test]
fn pageable_memory_may_change_after_the_call() {
    let rig = Rig::manual(1);
    let (ptr, stream) = (rig.malloc(64), rig.stream());
    let mut bytes = [3u8; 64];
    let src = bytes.as_ptr();
    assert_eq!(
        call!(cuMemcpyHtoDAsync_v2(ptr => u64, src => *const u8, 64 => usize, stream => u64)),
        SUCCESS
    );
    bytes.fill(4);
    assert_eq!(call!(cuStreamQuery(stream => u64)), NOT_READY);
    let mut back = vec![0u8; 64];
    let dst = back.as_mut_ptr();
    assert_eq!(call!(cuMemcpyDtoHAsync_v2(dst => *mut u8, ptr => u64, 64 => usize, stream => u64)), SUCCESS);
    // The copy into pageable memory is over when the call is.
    assert_eq!(back, vec![3; 64]);
    rig.end_stream(stream);
    rig.free(ptr);
}
