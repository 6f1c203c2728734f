//! Two devices: copies that wait for each other's streams, and a pool that lets the other device in.

use c10_cuda::driver::{EventFlags, StreamHandle};

use super::RealRig;
use super::standin::Completion;
use crate::support::{copy, fill, free, free_async, read};

const BYTES: u64 = 100_000;

#[test]
fn copies_wait_for_the_streams_of_the_other_device() {
    for completion in [Completion::Eager, Completion::Manual] {
        let Some(rig) = RealRig::with(2, completion) else { return };
        let d = &*rig;
        let here = (d.malloc(0, BYTES).unwrap(), d.stream_create(0, 0).unwrap());
        let there = (d.malloc(1, BYTES).unwrap(), d.stream_create(1, 0).unwrap());
        let (written, copied) = (
            d.event_create(0, EventFlags::default()).unwrap(),
            d.event_create(1, EventFlags::default()).unwrap(),
        );
        // Written here, and copied by the other device's stream, behind an event of this one's.
        fill(d, here.0, 7, BYTES, here.1).unwrap();
        d.event_record(written, here.1).unwrap();
        d.stream_wait_event(there.1, written).unwrap();
        copy(d, there.0, here.0, BYTES, there.1).unwrap();
        // Overwritten here, behind the copy.
        d.event_record(copied, there.1).unwrap();
        d.stream_wait_event(here.1, copied).unwrap();
        fill(d, here.0, 9, BYTES, here.1).unwrap();
        if rig.control.is_some() && matches!(completion, Completion::Manual) {
            assert!(!d.event_query(copied).unwrap(), "nobody has waited for anything");
        }
        assert!(read(d, there.0, BYTES as usize, there.1) == [7; BYTES as usize], "{completion:?}");
        assert!(d.event_query(copied).unwrap());
        assert!(read(d, here.0, BYTES as usize, here.1) == [9; BYTES as usize], "{completion:?}");
        // Copied back by the stream that has it.
        copy(d, here.0, there.0, BYTES / 2, there.1).unwrap();
        d.event_record(copied, there.1).unwrap();
        d.stream_wait_event(here.1, copied).unwrap();
        let back = read(d, here.0, BYTES as usize, here.1);
        let (first, second) = back.split_at(BYTES as usize / 2);
        assert!(
            first.iter().all(|&byte| byte == 7) && second.iter().all(|&byte| byte == 9),
            "{completion:?}"
        );
        for event in [written, copied] {
            d.event_destroy(event).unwrap();
        }
        for (ptr, stream) in [here, there] {
            d.stream_destroy(stream).unwrap();
            free(d, ptr).unwrap();
        }
    }
}

#[test]
fn a_pool_lets_the_other_device_in() {
    let Some(rig) = RealRig::new(2) else { return };
    let d = &*rig;
    if !d.can_access_peer(1, 0).unwrap() {
        crate::support::say_skipped("the devices do not reach each other");
        return;
    }
    let (here, there) = (StreamHandle::default_of(0), StreamHandle::default_of(1));
    d.enable_peer_access(1, 0).unwrap();
    let ptr = d.malloc_async(4096, here).unwrap();
    d.stream_synchronize(here).unwrap();
    for _ in 0..2 {
        d.mem_pool_set_access(0, 1).unwrap();
    }
    d.mem_pool_set_access(0, 0).unwrap();
    fill(d, ptr, 5, 4096, there).unwrap();
    assert_eq!(read(d, ptr, 4096, there), [5; 4096]);
    assert_eq!(read(d, ptr, 4096, here), [5; 4096]);
    free_async(d, ptr, here).unwrap();
    d.stream_synchronize(here).unwrap();
}
