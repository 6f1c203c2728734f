//! How many heap allocations small operators make. It stands alone because it counts those of the whole
//! process.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]
#![expect(unsafe_code, reason = "counts the calls of the global allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use aten::Tensor;
use c10_core::ScalarType;

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

/// The allocations of a call. Its result, and with it the memory of its elements, was there before.
fn allocations<R>(mut f: impl FnMut() -> R) -> usize {
    // What is made once: the dispatcher, the handle, the thread's memory.
    (0..3).for_each(|_| drop(f()));
    let before = COUNT.get();
    let result = black_box(f());
    let made = COUNT.get() - before;
    drop(result);
    made
}

#[test]
fn small_operators_allocate_twice_at_most() {
    let a = Tensor::from_slice(&[1.0_f32; 24], &[4, 6]).unwrap();
    let b = Tensor::from_slice(&[2.0_f32; 24], &[4, 6]).unwrap();
    let row = Tensor::from_elements(&[3.0_f32; 6]).unwrap();
    let bytes = Tensor::from_slice(&[1_u8; 24], &[4, 6]).unwrap();
    let float = ScalarType::Float32;
    let most_two = [
        ("empty", allocations(|| Tensor::empty(&[4, 6], float).unwrap())),
        ("zeros", allocations(|| Tensor::zeros(&[4, 6], float).unwrap())),
        ("add", allocations(|| a.add(&b).unwrap())),
        ("add of a number", allocations(|| a.add_scalar(1.5).unwrap())),
        ("add, broadcast", allocations(|| a.add(&row).unwrap())),
        ("mul", allocations(|| a.mul(&b).unwrap())),
        ("mul of bytes", allocations(|| bytes.mul(&bytes).unwrap())),
        ("eq", allocations(|| a.eq(&b).unwrap())),
        ("neg", allocations(|| a.neg().unwrap())),
        ("exp", allocations(|| a.exp().unwrap())),
    ];
    for (name, made) in most_two {
        assert!(made <= 2, "{name} makes {made} allocations: its storage and its tensor are 2");
    }
}

#[test]
fn views_allocate_once_and_in_place_operators_never() {
    let a = Tensor::from_slice(&[1.0_f32; 24], &[4, 6]).unwrap();
    let b = Tensor::from_slice(&[2.0_f32; 24], &[4, 6]).unwrap();
    let once = [
        ("view", allocations(|| a.view(&[24]).unwrap())),
        ("transpose", allocations(|| a.transpose(0, 1).unwrap())),
        ("narrow", allocations(|| a.narrow(0, 1, 2).unwrap())),
        ("select", allocations(|| a.select(0, 1).unwrap())),
        ("unsqueeze", allocations(|| a.unsqueeze(0).unwrap())),
        ("expand", allocations(|| a.expand(&[2, 4, 6]).unwrap())),
    ];
    for (name, made) in once {
        assert_eq!(made, 1, "{name} makes its tensor");
    }
    assert_eq!(allocations(|| a.add_(&b).unwrap().clone()), 0);
    assert_eq!(allocations(|| a.clone()), 0);
    assert_eq!(allocations(|| (a.sizes(), a.strides(), a.numel())), 0);
}
