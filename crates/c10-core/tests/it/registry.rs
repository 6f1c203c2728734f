//! The registry of allocators: priorities, defaults, readers beside writers.

use std::sync::Arc;
use std::thread;

use c10_core::allocator::{
    AllocatorRegistry, CountingAllocator, CpuAllocator, get_allocator, get_pinned_allocator, set_allocator,
    set_pinned_allocator,
};
use c10_core::{DeviceType, ErrorKind};

fn marked() -> (Arc<CountingAllocator>, impl Fn(&AllocatorRegistry) -> bool) {
    let allocator = Arc::new(CountingAllocator::new(Arc::new(CpuAllocator)));
    let probe = allocator.clone();
    (allocator, move |registry: &AllocatorRegistry| {
        let before = probe.counts().allocations.allocated;
        drop(registry.get(DeviceType::Cuda).unwrap().allocate(8).unwrap());
        probe.counts().allocations.allocated == before + 1
    })
}

#[test]
fn a_higher_or_equal_priority_replaces() {
    let registry = AllocatorRegistry::new();
    let (a, is_a) = marked();
    let (b, is_b) = marked();
    let (c, is_c) = marked();
    assert!(registry.set(DeviceType::Cuda, a, 1));
    assert!(is_a(&registry));
    assert!(!registry.set(DeviceType::Cuda, b.clone(), 0));
    assert!(is_a(&registry));
    assert!(registry.set(DeviceType::Cuda, b, 1));
    assert!(is_b(&registry));
    assert!(registry.set(DeviceType::Cuda, c.clone(), 255));
    assert!(is_c(&registry));
    assert!(!registry.set(DeviceType::Cuda, c, 254));
}

#[test]
fn a_replaced_allocator_can_still_be_used() {
    let registry = AllocatorRegistry::new();
    let (a, _) = marked();
    registry.set(DeviceType::Cpu, a.clone(), 0);
    let old = registry.get(DeviceType::Cpu).unwrap();
    let ptr = old.allocate(10).unwrap();
    registry.set(DeviceType::Cpu, Arc::new(CpuAllocator), 0);
    drop(old.allocate(10).unwrap());
    assert_eq!(a.counts().allocations.current, 1);
    drop(registry);
    assert_eq!(Arc::strong_count(&a), 1, "the table's end frees its records");
    drop(ptr);
    assert_eq!(a.counts().allocations.current, 0);
}

#[test]
fn an_empty_slot_says_so() {
    let registry = AllocatorRegistry::new();
    for device_type in DeviceType::ALL {
        assert_eq!(registry.get(device_type).unwrap_err().kind(), ErrorKind::DeviceUnavailable);
    }
    insta::assert_snapshot!(
        registry.get(DeviceType::PrivateUse1).unwrap_err().to_string(),
        @"no allocator is registered for the device type privateuseone"
    );
    assert_eq!(format!("{registry:?}"), "{}");
}

#[test]
fn the_host_has_a_default() {
    let registry = AllocatorRegistry::with_host_default();
    assert!(registry.get(DeviceType::Cuda).is_err());
    insta::assert_snapshot!(format!("{registry:?}"), @"{}");
    assert!(registry.get(DeviceType::Cpu).unwrap().allocate(10).is_ok());
    insta::assert_snapshot!(format!("{registry:?}"), @r#"{"cpu": (HostAllocator, 0)}"#);
    let (a, _) = marked();
    assert!(registry.set(DeviceType::Cpu, a.clone(), 0));
    drop(registry.get(DeviceType::Cpu).unwrap().allocate(10).unwrap());
    assert_eq!(a.counts().allocations.allocated, 1);

    let registry = AllocatorRegistry::with_host_default();
    let (a, _) = marked();
    assert!(registry.set(DeviceType::Cpu, a.clone(), 0));
    drop(registry.get(DeviceType::Cpu).unwrap().allocate(10).unwrap());
    assert_eq!(a.counts().allocations.allocated, 1, "what was set is not replaced by the default");
}

#[test]
fn the_process_has_one_table_for_devices_and_one_for_pinned_memory() {
    assert!(get_allocator(DeviceType::Cpu).is_ok());
    assert!(get_pinned_allocator(DeviceType::Cpu).is_err());
    // Types that no other test of this process uses.
    let (a, _) = marked();
    assert!(set_allocator(DeviceType::Xpu, a, 0));
    assert!(get_allocator(DeviceType::Xpu).is_ok());
    assert!(get_pinned_allocator(DeviceType::Xpu).is_err());
    let (b, _) = marked();
    assert!(set_pinned_allocator(DeviceType::Mps, b, 3));
    assert!(get_pinned_allocator(DeviceType::Mps).is_ok());
    assert!(get_allocator(DeviceType::Mps).is_err());
}

#[test]
fn readers_and_writers_at_once() {
    let registry = AllocatorRegistry::with_host_default();
    thread::scope(|scope| {
        for id in 0..2_u8 {
            let registry = &registry;
            scope.spawn(move || {
                for priority in 0..100 {
                    let (a, _) = marked();
                    registry.set(DeviceType::Cpu, a, priority + id);
                }
            });
            scope.spawn(move || {
                for _ in 0..2_000 {
                    drop(registry.get(DeviceType::Cpu).unwrap().allocate(8).unwrap());
                }
            });
        }
    });
    assert!(!registry.set(DeviceType::Cpu, Arc::new(CpuAllocator), 99), "priority 100 won");
}
