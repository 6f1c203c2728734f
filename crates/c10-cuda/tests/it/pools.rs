//! Private pools: who gets their memory, when they go, what is counted. Cases of `allocator-cases.md` by number.

use c10_cuda::ErrorKind;
use c10_cuda::alloc::{MempoolId, PoolFilter};

use crate::oracle_trace::{Player, play};
use crate::rig::{MIB, Rig, place};

const POOL: MempoolId = MempoolId::new(0, 1);

/// The lines that tell of segments.
fn segments(lines: &[String]) -> Vec<&str> {
    lines.iter().filter(|line| line.starts_with("driver")).map(String::as_str).collect()
}

#[test]
fn the_newest_scope_that_fits_decides() {
    let lines = play(
        64,
        "",
        "pool_begin 1 all; a 1 1000 0; pool_begin 2 1; a 2 1000 1; a 3 1000 0; pool_end 2; a 4 1000 1; \
         pool_end 1; a 5 1000 0; pool_count 1; pool_live 1 1 3 4; pool_live 1 1 3",
    );
    let expected = "pool_begin 1 all
driver segment_alloc 2097152 seg0+0
alloc 1 1000 block 1024 at seg0+0
pool_begin 2 1
driver segment_alloc 2097152 seg1+0
alloc 2 1000 block 1024 at seg1+0
alloc 3 1000 block 1024 at seg0+1024
pool_end 2
driver segment_alloc 2097152 seg2+0
alloc 4 1000 block 1024 at seg2+0
pool_end 1
driver segment_alloc 2097152 seg3+0
alloc 5 1000 block 1024 at seg3+0
pool_count 1 1
pool_live 1 1 3 4 yes
pool_live 1 1 3 no";
    assert_eq!(lines.join("\n"), expected);
}

#[test]
fn freeable_pools_go_in_the_order_of_pytorchs_table() {
    let mut player = Player::new(1, 64, "");
    for pool in 1..=10 {
        player.run(&format!("pool_begin {pool} all; a {pool} 1000 0; pool_end {pool}; f {pool}"));
    }
    player.run("pool_release 1; pool_release 2; pool_release 3; pool_release 4; pool_release 5");
    player.run("pool_release 6; pool_release 7; pool_release 8; pool_release 9; pool_release 10");
    let lines = player.run("e");
    // Segment n is of pool n + 1; PyTorch's order is 5 10 2 7 4 9 1 6 3 8.
    let freed: Vec<&str> =
        segments(&lines).iter().map(|line| &line["driver segment_free 2097152 ".len()..]).collect();
    assert_eq!(
        freed,
        ["seg4+0", "seg9+0", "seg1+0", "seg6+0", "seg3+0", "seg8+0", "seg0+0", "seg5+0", "seg2+0", "seg7+0"]
    );
    assert!(player.stats().reserved_bytes_by_private_pools.values().all(|bytes| bytes.all.current == 0));
}

/// Case 7: whichever way a pool's segments go, the pool goes with the last, once.
#[test]
fn a_pool_ends_with_its_last_segment_whichever_way_that_goes() {
    // By the OOM retry of one block, by the retry of all, and by emptying the cache.
    let settings = "max_split_size_mb:21";
    let mut player = Player::new(1, 100, settings);
    player.run("pool_begin 1 all; a 1 25165824 0; a 2 25165824 0; a 3 25165824 0");
    player.run("f 1; f 2");
    // Too large for any: one segment of the pool goes for it.
    let lines = player.run("a 4 41943040 0");
    assert_eq!(segments(&lines).len(), 4, "{lines:?}");
    player.run("f 3; f 4; pool_end 1; pool_release 1");
    let count = |player: &mut Player| player.run("pool_count 1").join("");
    assert_eq!(count(&mut player), "pool_count 1 0", "its memory keeps it");
    // All of it must go for this.
    player.run("a 5 83886080 0");
    assert!(count(&mut player).starts_with("error pool_count 1"), "it went with its last segment");
    player.run("f 5; e");
    assert_eq!(player.stats().reserved_bytes.all.current, 0);
    assert_eq!(player.run("pool_begin 1 all; pool_count 1")[1], "pool_count 1 1", "the name is free again");
}

/// Case 8: scopes leave no use behind, and the pool's bytes go back.
#[test]
fn scopes_leave_no_use_behind() {
    let rig = Rig::new(64 * MIB);
    let cuda = &rig.cuda;
    cuda.create_or_incref_pool(0, POOL, None).unwrap();
    for _ in 0..10 {
        cuda.begin_allocate_to_pool(0, POOL, PoolFilter::this_thread()).unwrap();
        drop(rig.allocate(1000));
        cuda.end_allocate_to_pool(0, POOL).unwrap();
        cuda.release_pool(0, POOL).unwrap();
    }
    assert_eq!(cuda.pool_use_count(0, POOL).unwrap(), 1);
    cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 2 * MIB, "a pool that is in use keeps its memory");
    cuda.release_pool(0, POOL).unwrap();
    assert_eq!(cuda.pool_use_count(0, POOL).unwrap(), 0);
    cuda.empty_cache().unwrap();
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
    assert_eq!(cuda.pool_use_count(0, POOL).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Case 10: a user's pool does not switch off what is done when memory is short.
#[test]
fn memory_runs_short_in_a_pool_as_it_does_outside() {
    let lines = play(100, "", "a 1 83886080 0; f 1; mempool 1; use 1; a 2 62914560 0; unuse 1");
    let expected = [
        "driver segment_alloc 83886080 seg0+0",
        "driver segment_alloc_failed 62914560 -",
        "driver segment_free 83886080 seg0+0",
        "driver segment_alloc 62914560 seg1+0",
    ];
    assert_eq!(segments(&lines), expected);
}

/// Case 11: a block of a pool that other streams used comes back by its events, with no capture in sight.
#[test]
fn events_free_the_blocks_of_a_pool() {
    let lines = play(64, "", "mempool 1; use 1; a 1 1000 0; r 1 1; f 1; a 2 1000 0; s 1; a 3 1000 0");
    assert_eq!(lines[lines.len() - 3], "alloc 2 1000 block 1024 at seg0+1024");
    assert_eq!(lines[lines.len() - 1], "alloc 3 1000 block 1024 at seg0+0");
}

/// Case 16: the numbers of the error add up.
#[test]
fn out_of_memory_tells_what_private_pools_hold() {
    let rig = Rig::new(40 * MIB);
    let cuda = &rig.cuda;
    cuda.begin_allocate_to_pool(0, POOL, PoolFilter::All).unwrap();
    drop(rig.allocate(12 * MIB));
    cuda.end_allocate_to_pool(0, POOL).unwrap();
    let _live = rig.allocate(5 * MIB);
    drop(rig.allocate(2 * MIB));
    let error = cuda.allocate(30 * MIB).unwrap_err();
    let numbers = error.out_of_memory().unwrap();
    assert_eq!((numbers.allocated, numbers.private, numbers.reserved), (5 * MIB, 12 * MIB, 32 * MIB));
    assert_eq!(numbers.device_free + numbers.reserved, 40 * MIB);
    let text = error.to_string();
    assert!(
        text.contains(
            "Of the allocated memory 17.00 MiB is allocated by PyTorch, with 12.00 MiB allocated in private pools \
             (e.g., CUDA Graphs), and 15.00 MiB is reserved by PyTorch but unallocated."
        ),
        "{text}"
    );
}

#[test]
fn a_pool_may_serve_others_when_memory_is_short() {
    let lines = play(
        64,
        "",
        "pool_begin 3 all; a 7 20971520 0; pool_end 3; f 7; a 8 20971520 0; a 10 20971520 0; a 11 20971520 0; \
         pool_use_on_oom 3 1; a 9 20971520 0; f 9; snapshot 3",
    );
    assert!(
        lines.iter().any(|line| line.starts_with("oom 11 ")),
        "private memory is not for others: {lines:?}"
    );
    assert!(lines.contains(&"alloc 9 20971520 block 20971520 at seg0+0".to_owned()), "except so: {lines:?}");
    assert!(
        lines.contains(&"block seg0+0 size 20971520 inactive".to_owned()),
        "it goes back there: {lines:?}"
    );
}

/// D6: PyTorch ends in "already recording".
#[test]
fn a_pool_that_a_thread_allocates_from_may_serve_another() {
    let lines = play(
        64,
        "",
        "mempool 1 use_on_oom; use 1; a 1 20971520 0; t 1 a 2 20971520 0; t 1 a 3 20971520 0; t 1 a 4 20971520 0; \
         f 1; t 1 a 5 20971520 0",
    );
    assert!(
        lines.iter().any(|line| line.starts_with("oom 4 20971520 CUDA out of memory. Tried")),
        "{lines:?}"
    );
    assert_eq!(lines.last().unwrap(), "alloc 5 20971520 block 20971520 at seg0+0");
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    let rig = Rig::new(64 * MIB);
    let cuda = &rig.cuda;
    let refused = |result: c10_cuda::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
        cuda.check_invariants();
    };
    refused(cuda.end_allocate_to_pool(0, POOL));
    refused(cuda.release_pool(0, POOL));
    refused(cuda.create_or_incref_pool(0, MempoolId::DEFAULT, None));
    refused(cuda.create_or_incref_pool(1, POOL, None));
    refused(cuda.begin_allocate_to_pool(0, MempoolId::DEFAULT, PoolFilter::All));
    cuda.begin_allocate_to_pool(0, POOL, PoolFilter::All).unwrap();
    refused(cuda.begin_allocate_to_pool(0, POOL, PoolFilter::All));
    assert_eq!(cuda.pool_use_count(0, POOL).unwrap(), 1, "what is refused counts no use");
    let block = rig.allocate(1000);
    cuda.release_pool(0, POOL).unwrap();
    refused(cuda.release_pool(0, POOL));
    refused(cuda.create_or_incref_pool(0, POOL, None));
    cuda.empty_cache().unwrap();
    // The scope keeps the pool, empty or not.
    assert_eq!(place(&block), 0);
    drop(block);
    cuda.empty_cache().unwrap();
    assert_eq!((rig.reserved(), cuda.pool_use_count(0, POOL).unwrap()), (0, 0));
    drop(rig.allocate(1000));
    cuda.end_allocate_to_pool(0, POOL).unwrap();
    cuda.empty_cache().unwrap();
    refused(cuda.pool_use_count(0, POOL).map(|_| ()));
}

#[test]
fn pools_are_of_one_device() {
    let mut player = Player::new(2, 64, "");
    let lines = player
        .run("pool_begin 1 all; a 1 1000 0; d 1; a 2 1000 0; pool_count 1; d 0; pool_end 1; snapshot 1");
    assert!(lines[lines.len() - 7].starts_with("error pool_count 1"), "{lines:?}");
    let of_pool: Vec<_> = lines.iter().filter(|line| line.starts_with("segment")).collect();
    assert_eq!(of_pool.len(), 1, "{lines:?}");
}
