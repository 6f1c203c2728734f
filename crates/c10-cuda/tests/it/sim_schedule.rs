//! Seeded schedules: the seed alone decides, and every order that it gives is one that streams allow.

use std::sync::Arc;

use c10_cuda::driver::sim::{Completion, SimConfig, SimDriver};
use c10_cuda::driver::{Driver, EventFlags, StreamHandle};

use crate::support::{MIB, fill, free, launch, range, read};

fn machine(seed: u64) -> Arc<SimDriver> {
    SimDriver::new(SimConfig::with_bytes(64 * MIB).completion(Completion::Seeded(seed)).log_calls(1000))
}

/// Three streams that wait for each other now and then; gives the work as it ran.
fn program(sim: &SimDriver) -> Vec<String> {
    let ptr = sim.malloc(0, 64).expect("it fits");
    let streams = [(); 3].map(|()| sim.stream_create(0, 0).expect("a stream"));
    let event = sim.event_create(0, EventFlags::default()).expect("an event");
    for round in 0..4 {
        for (index, &stream) in streams.iter().enumerate() {
            fill(sim, ptr.offset(index as u64), round, 1, stream).expect("issued");
            if round == 2 {
                sim.event_record(event, stream).expect("recorded");
                sim.stream_wait_event(streams[(index + 1) % 3], event).expect("waits");
            }
        }
    }
    sim.device_synchronize(0).expect("it ends");
    sim.take_work().iter().map(ToString::to_string).collect()
}

#[test]
fn the_same_seed_gives_the_same_order_and_others_give_others() {
    let orders: Vec<_> = (0..8).map(|seed| program(&machine(seed))).collect();
    for (seed, order) in (0..).zip(&orders) {
        assert_eq!(&program(&machine(seed)), order, "seed {seed}");
        let mut sorted = order.clone();
        sorted.sort();
        let mut first = orders[0].clone();
        first.sort();
        assert_eq!(sorted, first, "the same work, in another order");
    }
    assert!(orders.iter().any(|order| order != &orders[0]));
}

#[test]
fn a_short_log_reads_well() {
    let sim = machine(5);
    let ptr = sim.malloc(0, 3 * MIB).unwrap();
    let (a, b) = (sim.stream_create(0, 0).unwrap(), sim.stream_create(0, -2).unwrap());
    let event = sim.event_create(0, EventFlags::default()).unwrap();
    launch(&*sim, a, "relu", &[range(ptr, 4)], &[range(ptr, 4)], |_| ()).unwrap();
    sim.event_record(event, a).unwrap();
    sim.stream_wait_event(b, event).unwrap();
    fill(&*sim, ptr, 0, 4, b).unwrap();
    assert!(sim.malloc(0, 63 * MIB).is_err());
    sim.stream_synchronize(b).unwrap();
    sim.event_destroy(event).unwrap();
    sim.stream_destroy(b).unwrap();
    sim.stream_create(0, 0).unwrap();
    free(&*sim, ptr).unwrap();
    let calls: Vec<_> = sim.take_calls().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(calls.join("\n"), @r#"
    malloc device 0 at 0x10000000000000 bytes 3145728
    stream_create device 0 stream 2
    stream_create device 0 stream 3
    event_create device 0 event 1
    launch device 0 stream 2
    event_record device 0 event 1 stream 2
    stream_wait_event device 0 event 1 stream 3
    fill device 0 stream 3 at 0x10000000000000 bytes 4
    malloc device 0 bytes 66060288: out of memory
    stream_synchronize device 0 stream 3
    event_destroy device 0 event 1
    stream_destroy device 0 stream 3
    stream_create device 0 stream 3.1
    free device 0 at 0x10000000000000 bytes 3145728
    "#);
    let work: Vec<_> = sim.take_work().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(work.join("\n"), @r#"
    device 0 stream 2 #1 relu until 2500 ns
    device 0 stream 2 #2 record until 2500 ns
    device 0 stream 3 #1 wait until 2500 ns
    device 0 stream 3 #2 fill until 4500 ns
    "#);
    assert!(sim.take_calls().is_empty());
}

#[test]
fn the_log_keeps_the_newest_calls() {
    let sim = machine(0);
    sim.log_calls(2);
    for bytes in 1..=4 {
        sim.malloc(0, bytes).unwrap();
    }
    let sizes: Vec<_> = sim.take_calls().iter().map(|call| call.bytes).collect();
    assert_eq!(sizes, [3, 4]);
    sim.log_calls(0);
    sim.malloc(0, 1).unwrap();
    assert!(sim.take_calls().is_empty());
    assert_eq!(sim.call_count("malloc"), 5);
}

/// Waits alone make the sum right: each stream adds to what the one before it left.
#[test]
fn waits_hold_under_every_seed() {
    for seed in 0..200 {
        let sim = machine(seed);
        let ptr = sim.malloc(0, 1).unwrap();
        let streams = [(); 4].map(|()| sim.stream_create(0, 0).unwrap());
        let event = sim.event_create(0, EventFlags::default()).unwrap();
        fill(&*sim, ptr, 0, 1, streams[0]).unwrap();
        for step in 0..12 {
            let (from, to) = (streams[step % 4], streams[(step * 3 + 1) % 4]);
            let access = [range(ptr, 1)];
            sim.event_record(event, from).unwrap();
            streams.iter().for_each(|&s| sim.stream_wait_event(s, event).unwrap());
            launch(&*sim, to, "add", &access, &access, |memory| {
                let mut value = [0];
                memory.read(0, 0, &mut value);
                memory.write(0, 0, &[value[0] + 1]);
            })
            .unwrap();
            sim.event_record(event, to).unwrap();
            streams.iter().for_each(|&s| sim.stream_wait_event(s, event).unwrap());
        }
        assert_eq!(read(&*sim, ptr, 1, streams[2]), [12], "seed {seed}");
    }
}

#[test]
fn many_threads_may_use_one_machine() {
    let sim = machine(9);
    std::thread::scope(|s| {
        for thread in 0..4u8 {
            let sim = &*sim;
            s.spawn(move || {
                let stream = sim.stream_create(0, 0).unwrap();
                let event = sim.event_create(0, EventFlags::default()).unwrap();
                for round in 0..100u32 {
                    let ptr = sim.malloc(0, 1 + u64::from(round)).unwrap();
                    fill(sim, ptr, thread, 1, stream).unwrap();
                    sim.event_record(event, stream).unwrap();
                    sim.stream_wait_event(StreamHandle::default_of(0), event).unwrap();
                    sim.event_synchronize(event).unwrap();
                    let mut byte = [0];
                    sim.peek(ptr, &mut byte).unwrap();
                    assert_eq!(byte, [thread]);
                    free(sim, ptr).unwrap();
                }
                sim.event_destroy(event).unwrap();
                sim.stream_destroy(stream).unwrap();
            });
        }
    });
    sim.device_synchronize(0).unwrap();
    assert!(sim.take_faults().is_empty());
    assert_eq!((sim.pending(), sim.memory_info(0).unwrap().free), (0, 64 * MIB));
}
