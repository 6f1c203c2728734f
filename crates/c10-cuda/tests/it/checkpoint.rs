//! Checkpoints of a pool's state, and allocation at an address.

use c10_core::DataPtr;
use c10_cuda::alloc::{MemPool, MemPoolOptions, MempoolId, PoolFilter};
use c10_cuda::driver::DevicePtr;
use c10_cuda::{CachingAllocator, ErrorKind};

use crate::oracle_trace::{Player, play};
use crate::rig::{BASE, MIB, Rig, address, place};

const POOL: MempoolId = MempoolId::new(0, 1);

#[test]
fn a_pool_comes_back_as_it_was() {
    let lines = play(
        64,
        "",
        "pool_begin 1 all; a 1 5000 0; a 2 3000000 0; a 3 1000 0; f 1; checkpoint before 1; a 4 5000 0; f 3; a 5 7000 0; \
         restore before 10; snapshot 1; f 10; f 11; snapshot 1",
    );
    let expected = "restore before 10
freed 2
freed 4
freed 5
restored 10 at seg0+5120
restored 11 at seg1+0
snapshot 1
segment seg0+0 device 0 pool 1 stream 0 small total 2097152 allocated 1024 active 1024 requested 1024
block seg0+0 size 5120 inactive
block seg0+5120 size 1024 requested 1024 active_allocated
block seg0+6144 size 2091008 inactive
segment seg1+0 device 0 pool 1 stream 0 large total 20971520 allocated 3000320 active 3000320 requested 3000320
block seg1+0 size 3000320 requested 3000320 active_allocated
block seg1+3000320 size 17971200 inactive";
    let lines = lines.join("\n");
    assert!(lines.contains(expected), "{lines}");
    assert!(lines.ends_with("block seg1+0 size 20971520 inactive"), "{lines}");
}

#[test]
fn an_expandable_segment_may_have_grown_since() {
    let lines = play(
        128,
        "expandable_segments:True",
        "pool_begin 1 all; a 1 1048576 0; a 3 1048576 0; f 1; checkpoint A 1; a 4 1000000 0; a 5 1048576 0; \
         restore A 10; snapshot 1; f 10; a 6 2097152 0",
    );
    let lines = lines.join("\n");
    let expected = "block seg0+0 size 1048576 inactive
block seg0+1048576 size 1048576 requested 1048576 active_allocated
block seg0+2097152 size 2097152 inactive";
    assert!(lines.contains(expected), "{lines}");
}

/// D8: in PyTorch a restore that fails on the way leaves the allocator broken.
#[test]
fn d8_a_restore_is_checked_whole() {
    let mut player = Player::new(1, 64, "");
    player.run(
        "mempool 1 use_on_oom; use 1; a 1 20971520 0; a 2 20971520 0; f 1; f 2; unuse 1; checkpoint A 1; \
         a 3 20971520 0; a 4 10485760 0; a 5 10485760 0; r 4 1; r 3 1",
    );
    let before = player.run("snapshot");
    let lines = player.run("restore A 20");
    assert!(lines[0].starts_with("error restore A 20"), "{lines:?}");
    assert_eq!(player.run("snapshot"), before, "nothing has changed");
    let lines = player.run("f 3; f 4; f 5; S; a 6 20971520 0; a 7 20971520 0; f 6; f 7");
    assert!(!lines.iter().any(|line| line.starts_with("error")), "{lines:?}");
}

fn pool(rig: &Rig) {
    rig.cuda.begin_allocate_to_pool(0, POOL, PoolFilter::All).unwrap();
}

#[test]
fn every_owner_of_the_pool_is_needed_and_others_are_left_alone() {
    let rig = Rig::new(64 * MIB);
    let outside = rig.allocate(1000);
    pool(&rig);
    let kept = rig.allocate(1000);
    let state = rig.cuda.checkpoint_pool(0, POOL).unwrap();
    assert_eq!(state.live(), [DevicePtr(address(&kept))]);
    let more = rig.allocate(2000);
    let mut owners = vec![kept, outside];
    let snapshot = |rig: &Rig| rig.cuda.snapshot(false).segments;
    let before = snapshot(&rig);
    let error = rig.cuda.restore_pool(0, &state, &mut owners).unwrap_err();
    assert_eq!((error.kind(), owners.len()), (ErrorKind::InvalidArgument, 2));
    assert_eq!(snapshot(&rig), before);

    owners.push(more);
    let restored = rig.cuda.restore_pool(0, &state, &mut owners).unwrap();
    assert_eq!((restored.freed.len(), restored.created.len(), owners.len()), (2, 1, 1));
    assert_eq!(place(&owners[0]), 0, "what is of no pool is kept");
    assert_eq!(restored.created[0].as_ptr().addr() as u64, state.live()[0].0);
    drop((restored, owners));
    assert_eq!(rig.stats().allocated_bytes.all.current, 0);
    rig.cuda.check_invariants();
}

#[test]
fn states_that_do_not_fit_are_refused() {
    let rig = Rig::new(64 * MIB);
    let refused = |result: c10_cuda::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
        rig.cuda.check_invariants();
    };
    refused(rig.cuda.checkpoint_pool(0, POOL).map(|_| ()));
    pool(&rig);
    let block = rig.allocate(1000);
    rig.cuda.record_stream(&block, rig.stream()).unwrap();
    let state = rig.cuda.checkpoint_pool(0, POOL).unwrap();
    drop(block);
    refused(rig.cuda.checkpoint_pool(0, POOL).map(|_| ()));
    refused(rig.cuda.restore_pool(0, &state, &mut Vec::new()).map(|_| ()));
    rig.sim.complete_all();
    drop(rig.allocate(10));
    drop(rig.cuda.restore_pool(0, &state, &mut Vec::new()).unwrap());
    // A block of a raw call has no owner to end.
    let raw = rig.cuda.raw_alloc(1000).unwrap();
    refused(rig.cuda.restore_pool(0, &state, &mut Vec::new()).map(|_| ()));
    crate::alloc_raw::delete(&rig.cuda, raw).unwrap();
    rig.cuda.end_allocate_to_pool(0, POOL).unwrap();
    rig.cuda.release_pool(0, POOL).unwrap();
    refused(rig.cuda.restore_pool(0, &state, &mut Vec::new()).map(|_| ()));
    rig.cuda.empty_cache().unwrap();
    refused(rig.cuda.restore_pool(0, &state, &mut Vec::new()).map(|_| ()));
    pool(&rig);
    refused(rig.cuda.restore_pool(0, &state, &mut Vec::new()).map(|_| ()));
}

#[test]
fn a_block_can_be_had_at_an_address() {
    let rig = Rig::new(64 * MIB);
    let stream = rig.runtime.current_stream(0).unwrap();
    let at = |bytes, offset| rig.cuda.allocate_at(bytes, DevicePtr(BASE + offset), stream);
    let first = rig.allocate(1000);
    let there: DataPtr = at(2000, 4096).unwrap();
    assert_eq!(place(&there), 4096);
    for (bytes, offset) in
        [(2000, 4608), (2000, 3072), (1000, 1000), (2_000_000, 8192), (100, 2 * MIB), (512, 0)]
    {
        assert_eq!(at(bytes, offset).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bytes} at {offset}");
    }
    assert_eq!(at(1 << 60, 1024).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert!(at(0, 4608).unwrap().is_null());
    let between = at(3072, 1024).unwrap();
    assert_eq!(place(&between), 1024);
    assert_eq!(rig.memory_calls(), ["+2097152"], "the driver is not asked");
    drop((first, there, between));
    assert_eq!(rig.stats().inactive_split.all.current, 0);
    rig.cuda.check_invariants();
}

#[test]
fn what_is_before_an_address_is_split_off_everywhere_and_what_follows_where_blocks_are_split() {
    let rig = Rig::new(256 * MIB);
    let (stream, options) = (rig.stream(), MemPoolOptions { no_split: true, ..MemPoolOptions::default() });
    let pool = MemPool::new(&rig.cuda, 0, options).unwrap();
    let _use = pool.enter().unwrap();
    let whole = rig.cuda.allocate_on(1000, stream).unwrap();
    let begin = address(&whole);
    drop(whole);
    let at = |cuda: &CachingAllocator, bytes, address| cuda.allocate_at(bytes, DevicePtr(address), stream);
    let split = |rig: &Rig| {
        let stats = rig.stats();
        (stats.inactive_split.all.current, stats.inactive_split_bytes.all.current)
    };
    let rest = at(&rig.cuda, 1000, begin + 512).unwrap();
    assert_eq!((address(&rest), split(&rig)), (begin + 512, (1, 512)), "the rest is handed out whole");
    drop(rest);
    rig.cuda.check_invariants();

    let rig = Rig::with(256 * MIB, "max_split_size_mb:20");
    let stream = rig.stream();
    let large = rig.cuda.allocate_on(60 * MIB, stream).unwrap();
    let begin = address(&large);
    drop(large);
    for (bytes, offset, free) in
        [(2 * MIB, 0, (1, 58 * MIB)), (2 * MIB, 4 * MIB, (2, 58 * MIB)), (30 * MIB, MIB, (1, MIB))]
    {
        let part = rig.cuda.allocate_at(bytes, DevicePtr(begin + offset), stream).unwrap();
        let free = (free.0, free.1 as i64);
        assert_eq!((address(&part), split(&rig)), (begin + offset, free), "{bytes} bytes {offset} bytes on");
        drop(part);
        assert_eq!(split(&rig), (0, 0));
    }
    rig.cuda.check_invariants();
}

#[test]
fn uses_that_are_over_are_seen_before_a_request_at_an_address_is_refused() {
    let rig = Rig::new(64 * MIB);
    let used = rig.allocate(1000);
    rig.cuda.record_stream(&used, rig.stream()).unwrap();
    drop(used);
    rig.sim.complete_all();
    let blocks = || rig.stats().active.all.current;
    assert_eq!(blocks(), 1);
    let refused = rig.cuda.allocate_at(1 << 60, DevicePtr(BASE), rig.runtime.current_stream(0).unwrap());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(blocks(), 0);
}
