//! How many heap allocations small operators make. It stands alone because it counts those of the whole
//! process.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]
#![expect(unsafe_code, reason = "counts the calls of the global allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use aten::Tensor;
use c10_core::ScalarType;
use c10_core::allocator::HostAllocator;

/// The system's allocator, which counts what each thread asks for.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(ptr, layout) };
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// The allocations of a call, where `kept` results of calls before it are there still.
fn allocations_after<R>(kept: usize, mut f: impl FnMut() -> R) -> usize {
    // What is made once: the dispatcher, the handle, the thread's memory.
    (0..3).for_each(|_| drop(f()));
    let kept: Vec<R> = (0..kept).map(|_| f()).collect();
    let before = COUNT.get();
    let result = black_box(f());
    let made = COUNT.get() - before;
    drop((result, kept));
    made
}

/// The allocations of a call whose result is new, with nothing of results that have ended to be used again.
fn allocations<R>(f: impl FnMut() -> R) -> usize {
    // More than a thread keeps.
    allocations_after(2000, f)
}

/// The allocations of a call that comes after another one whose result has ended.
fn allocations_again<R>(f: impl FnMut() -> R) -> usize {
    allocations_after(0, f)
}

#[test]
fn small_operators_allocate_storage_tensor_and_elements() {
    let a = Tensor::from_slice(&[1.0_f32; 24], &[4, 6]).unwrap();
    let b = Tensor::from_slice(&[2.0_f32; 24], &[4, 6]).unwrap();
    let row = Tensor::from_elements(&[3.0_f32; 6]).unwrap();
    let bytes = Tensor::from_slice(&[1_u8; 24], &[4, 6]).unwrap();
    let float = ScalarType::Float32;
    let cases: [(&str, &dyn Fn() -> Tensor); 10] = [
        ("empty", &|| Tensor::empty(&[4, 6], float).unwrap()),
        ("zeros", &|| Tensor::zeros(&[4, 6], float).unwrap()),
        ("add", &|| a.add(&b).unwrap()),
        ("add of a number", &|| a.add_scalar(1.5).unwrap()),
        ("add, broadcast", &|| a.add(&row).unwrap()),
        ("mul", &|| a.mul(&b).unwrap()),
        ("mul of bytes", &|| bytes.mul(&bytes).unwrap()),
        ("eq", &|| a.eq(&b).unwrap()),
        ("neg", &|| a.neg().unwrap()),
        ("exp", &|| a.exp().unwrap()),
    ];
    for (name, call) in cases {
        assert_eq!(allocations_again(call), 0, "{name} uses again what has ended");
        let made = allocations(call);
        assert!(made <= 3, "{name} makes {made} allocations: its elements, its storage and its tensor are 3");
    }
}

#[test]
fn views_allocate_once_and_in_place_operators_never() {
    let a = Tensor::from_slice(&[1.0_f32; 24], &[4, 6]).unwrap();
    let b = Tensor::from_slice(&[2.0_f32; 24], &[4, 6]).unwrap();
    let cases: [(&str, &dyn Fn() -> Tensor); 6] = [
        ("view", &|| a.view(&[24]).unwrap()),
        ("transpose", &|| a.transpose(0, 1).unwrap()),
        ("narrow", &|| a.narrow(0, 1, 2).unwrap()),
        ("select", &|| a.select(0, 1).unwrap()),
        ("unsqueeze", &|| a.unsqueeze(0).unwrap()),
        ("expand", &|| a.expand(&[2, 4, 6]).unwrap()),
    ];
    for (name, call) in cases {
        assert_eq!(allocations_again(call), 0, "{name} uses again what has ended");
        assert_eq!(allocations(call), 1, "{name} makes its tensor");
    }
    assert_eq!(allocations(|| a.add_(&b).unwrap().clone()), 0);
    assert_eq!(allocations(|| a.clone()), 0);
    assert_eq!(allocations(|| (a.sizes(), a.strides(), a.numel())), 0);
}

#[test]
fn an_emptied_cache_keeps_no_tensors() {
    let one = Tensor::from_elements(&[1.0_f32]).unwrap();
    let add = || one.add(&one).unwrap();
    assert_eq!(allocations_again(add), 0);
    let before = COUNT.get();
    drop((0..10).map(|_| add()).collect::<Vec<_>>());
    HostAllocator::empty_cache();
    let kept = COUNT.get();
    drop((0..10).map(|_| add()).collect::<Vec<_>>());
    assert!(COUNT.get() - kept >= 10, "of the elements of each, after {}", kept - before);
}
