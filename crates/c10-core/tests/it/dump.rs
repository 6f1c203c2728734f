//! What a leak hunter reads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use c10_core::allocator::{CountingAllocator, LimitAllocator};
use c10_core::storage::StorageOptions;
use c10_core::{Device, Storage};

use crate::fake_device::{TYPE, fake};
use crate::storage::{external, host};

/// Only one test of dumps at a time: the list of what is live holds every storage for a moment.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Without what differs from run to run.
fn redacted(text: &str) -> String {
    let mut redacted = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("0x") {
        let digits = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
        redacted.push_str(before);
        redacted.push_str(if after[..digits] == *"0" { "0x0" } else { "[address]" });
        rest = &after[digits..];
    }
    // Where a storage was made is told last, over many lines while another test has backtraces captured.
    let mut is_origin = false;
    let whole = redacted + rest;
    let lines = whole.lines().filter(|line| {
        is_origin = line.contains("made at:") || is_origin && !line.starts_with("storage of");
        !is_origin
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_plain_storage() {
    let _alone = alone();
    let storage = Storage::new(48, host()).unwrap();
    storage.resize(16).unwrap();
    let _weak = storage.downgrade();
    let _second = storage.clone();
    insta::assert_snapshot!(redacted(&storage.dump().to_string()), @r"
    storage of 16 bytes (capacity 48) at [address] on cpu
      handles:   2 strong, 1 weak; version 0
      owner:     cpu_allocator with context [address]
      allocator: CpuAllocator
      flags:     resizable
    ");
}

#[test]
fn layers_are_told_from_the_outermost() {
    let _alone = alone();
    let allocator = Arc::new(LimitAllocator::new(Arc::new(CountingAllocator::new(host())), 100));
    let storage = Storage::new(8, allocator).unwrap();
    drop(storage.write().unwrap());
    let clone = storage.lazy_clone().unwrap();
    let mut dump = storage.dump();
    assert!(dump.allocator.take().is_some_and(|allocator| allocator.starts_with("LimitAllocator")));
    insta::assert_snapshot!(redacted(&dump.to_string()), @r"
    storage of 8 bytes (capacity 8) at [address] on cpu
      handles:   1 strong, 0 weak; version 1
      owner:     copy_on_write with context [address]
      around:    limit_allocator with context [address]
      around:    counting_allocator with context [address]
      around:    cpu_allocator with context [address]
      allocator: none
      flags:     resizable, copy-on-write
    ");
    // Telling changed nothing.
    assert!(storage.is_cow());
    drop(clone);
    drop(storage.write().unwrap());
    let dump = storage.dump();
    assert_eq!((dump.owners[0].deleter, dump.owners.len()), ("limit_allocator", 3));
    assert_eq!(dump.flags, ["resizable"]);
}

#[test]
fn other_states() {
    let _alone = alone();
    fake();
    let read_only = external(StorageOptions { read_only: true, ..StorageOptions::default() }).unwrap();
    let there = read_only.to_device(Device::new(TYPE, 1)).unwrap();
    there.release_data(None).unwrap();
    let both = format!("{}{}", read_only.dump(), there.dump());
    insta::assert_snapshot!(redacted(&both), @r"
    storage of 4 bytes (capacity 4) at [address] on cpu
      handles:   1 strong, 0 weak; version 0
      owner:     boxed_slice with context [address]
      allocator: none
      flags:     read-only
    storage of 4 bytes (capacity 0) at 0x0 on privateuseone:1
      handles:   1 strong, 0 weak; version 0
      owner:     delete_nothing with context 0x0
      allocator: Fake
      flags:     resizable, released
    ");
    assert_eq!(read_only.dump().address, read_only.data_ptr().addr());
}

#[cfg(feature = "leak-tracking")]
#[test]
fn live_storages_know_where_they_were_made() {
    let _alone = alone();
    use c10_core::storage::live_storages;

    let line = line!() + 1;
    let storage = Storage::new(12_345, host()).unwrap();
    let clone = storage.lazy_clone().unwrap();
    let mine = |dump: &c10_core::storage::StorageDump| dump.nbytes == 12_345;
    let live: Vec<_> = live_storages().into_iter().filter(mine).collect();
    let places: Vec<_> = live.iter().map(|dump| dump.made_at.clone().unwrap()).collect();
    assert_eq!(places.len(), 2);
    assert!(places[0].contains(&format!("dump.rs:{line}:")), "{places:?}");
    assert!(places[1].contains(&format!("dump.rs:{}:", line + 1)), "{places:?}");
    assert_eq!((live[0].use_count, live[0].weak_use_count), (1, 0));
    c10_core::storage::capture_backtraces(true);
    let traced = Storage::new(12_345, host()).unwrap();
    c10_core::storage::capture_backtraces(false);
    assert!(traced.dump().made_at.unwrap().lines().count() > 3);
    drop((storage, clone, traced));
    assert_eq!(live_storages().into_iter().filter(mine).count(), 0);
}
