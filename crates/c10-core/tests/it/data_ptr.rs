#![expect(unsafe_code, reason = "makes DataPtrs from contexts of its own, to see when deleters run")]
//! `DataPtr`: who frees, when, how often; and what a wrapped one still knows.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use c10_core::data_ptr::{DELETE_NOTHING, DeleterEntry, Wrapping, same_deleter};
use c10_core::{DataPtr, Device};

/// A context that counts the runs of its deleter.
#[derive(Debug)]
struct Runs(AtomicUsize);

unsafe fn count_run(context: *mut c_void) {
    // SAFETY: every context of `COUNT` in this file is an `Arc<Runs>` turned raw.
    let runs = unsafe { Arc::from_raw(context.cast::<Runs>()) };
    runs.0.fetch_add(1, SeqCst);
}

unsafe fn count_ten(context: *mut c_void) {
    // SAFETY: as for `count_run`.
    let runs = unsafe { Arc::from_raw(context.cast::<Runs>()) };
    runs.0.fetch_add(10, SeqCst);
}

static COUNT: DeleterEntry = DeleterEntry::new("count", count_run);
static COUNT_TEN: DeleterEntry = DeleterEntry::new("count_ten", count_ten);

fn counted() -> (DataPtr, Arc<Runs>) {
    let runs = Arc::new(Runs(AtomicUsize::new(0)));
    let context = Arc::into_raw(Arc::clone(&runs)).cast_mut().cast();
    // SAFETY: nothing reads the address, and the deleter takes back the count that the context is.
    let ptr = unsafe { DataPtr::new(16 as *mut u8, context, &COUNT, Device::CPU) };
    (ptr, runs)
}

impl Runs {
    fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

#[test]
fn layout_has_a_niche() {
    assert_eq!((size_of::<DataPtr>(), size_of::<Option<DataPtr>>()), (32, 32));
}

#[test]
fn default_is_null_on_the_host() {
    let ptr = DataPtr::default();
    assert!(ptr.is_null() && ptr.as_ptr().is_null() && ptr.context().is_null());
    assert_eq!(ptr.device(), Device::CPU);
    assert!(same_deleter(ptr.deleter(), &DELETE_NOTHING));
    assert_eq!(DataPtr::null(Device::cuda(3)).device(), Device::cuda(3));
}

#[test]
fn the_deleter_runs_once_at_the_end() {
    let (ptr, runs) = counted();
    assert_eq!(runs.get(), 0);
    let moved = ptr;
    drop(moved);
    assert_eq!(runs.get(), 1);
}

#[test]
fn ownership_is_in_the_context_alone() {
    let runs = Arc::new(Runs(AtomicUsize::new(0)));
    let context = Arc::into_raw(Arc::clone(&runs)).cast_mut().cast();
    // SAFETY: the address is null and not read.
    let no_address = unsafe { DataPtr::new(std::ptr::null_mut(), context, &COUNT, Device::CPU) };
    assert!(!no_address.is_null());
    drop(no_address);
    assert_eq!(runs.get(), 1, "it runs on a context without an address");
    // SAFETY: with a null context no deleter runs; the address is not read.
    let no_context = unsafe { DataPtr::new(16 as *mut u8, std::ptr::null_mut(), &COUNT, Device::CPU) };
    assert!(!no_context.is_null());
    drop(no_context);
    assert_eq!(runs.get(), 1, "it does not run without a context");
}

#[test]
fn clear_frees_and_keeps_the_device() {
    let (mut ptr, runs) = counted();
    // SAFETY: nothing reaches the memory.
    unsafe { ptr.unsafe_set_device(Device::cuda(1)) };
    ptr.clear();
    assert_eq!(runs.get(), 1);
    assert!(ptr.is_null());
    assert_eq!(ptr.device(), Device::cuda(1));
    ptr.clear();
    drop(ptr);
    assert_eq!(runs.get(), 1);
}

#[test]
fn release_context_hands_over_the_duty() {
    let (mut ptr, runs) = counted();
    let (deleter, address) = (ptr.deleter(), ptr.as_ptr());
    let context = ptr.release_context();
    assert_eq!(ptr.as_ptr(), address);
    drop(ptr);
    assert_eq!(runs.get(), 0);
    // SAFETY: the context was just released, and its deleter has not run.
    unsafe { (deleter.run)(context) };
    assert_eq!(runs.get(), 1);
}

#[test]
fn move_context_leaves_a_borrow() {
    let (mut ptr, runs) = counted();
    // SAFETY: the memory is never reached.
    let owner = unsafe { ptr.move_context() };
    assert_eq!(ptr.as_ptr(), owner.as_ptr());
    assert!(ptr.context().is_null() && same_deleter(ptr.deleter(), &DELETE_NOTHING));
    assert!(same_deleter(owner.deleter(), &COUNT));
    drop(ptr);
    assert_eq!(runs.get(), 0);
    drop(owner);
    assert_eq!(runs.get(), 1);
}

#[test]
fn deleters_are_exchanged_only_where_expected() {
    let (mut ptr, runs) = counted();
    // SAFETY: `COUNT_TEN` takes the same context as `COUNT`.
    assert!(!unsafe { ptr.compare_exchange_deleter(&DELETE_NOTHING, &COUNT_TEN) });
    // SAFETY: as above.
    assert!(unsafe { ptr.compare_exchange_deleter(&COUNT, &COUNT_TEN) });
    drop(ptr);
    assert_eq!(runs.get(), 10);

    let (mut ptr, runs) = counted();
    // SAFETY: as above.
    let old = unsafe { ptr.replace_deleter(&COUNT_TEN) };
    assert!(same_deleter(old, &COUNT));
    // SAFETY: the context of both deleters is a `Runs`.
    let context = unsafe { ptr.cast_context::<Runs>(&COUNT_TEN) };
    assert!(context.is_some());
    // SAFETY: as above.
    assert!(unsafe { ptr.cast_context::<Runs>(&COUNT) }.is_none());
    drop(ptr);
    assert_eq!(runs.get(), 10);
}

#[test]
fn reset_only_where_nothing_is_owned() {
    let (mut ptr, runs) = counted();
    // SAFETY: nothing reads the new address.
    assert!(!unsafe { ptr.unsafe_reset_data_and_context(32 as *mut u8) });
    assert_eq!(ptr.as_ptr(), 16 as *mut u8);
    drop(ptr);
    assert_eq!(runs.get(), 1);
    let mut ptr = DataPtr::default();
    // SAFETY: as above.
    assert!(unsafe { ptr.unsafe_reset_data_and_context(32 as *mut u8) });
    assert_eq!((ptr.as_ptr(), ptr.context()), (32 as *mut u8, 32 as *mut c_void));
}

#[test]
fn closures_and_boxes_free_on_other_threads() {
    let runs = Arc::new(Runs(AtomicUsize::new(0)));
    let inner = Arc::clone(&runs);
    // SAFETY: nothing reads the address.
    let ptr = unsafe {
        DataPtr::from_closure(16 as *mut u8, Device::cuda(0), move || {
            inner.0.fetch_add(1, SeqCst);
        })
    };
    std::thread::spawn(move || drop(ptr)).join().unwrap();
    assert_eq!(runs.get(), 1);
    assert_eq!(Arc::strong_count(&runs), 1);

    let ptr = DataPtr::from_boxed_slice(vec![1, 2, 3].into());
    // SAFETY: the slice has three bytes and is owned by `ptr`.
    assert_eq!(unsafe { std::slice::from_raw_parts(ptr.as_ptr(), 3) }, [1, 2, 3]);
    std::thread::spawn(move || drop(ptr)).join().unwrap();
    drop(DataPtr::from_boxed_slice(Box::default()));
}

#[test]
fn debug_names_the_deleter() {
    let ptr = DataPtr::null(Device::cuda(0));
    insta::assert_snapshot!(
        format!("{ptr:?}"),
        @r#"DataPtr { data: 0x0, context: 0x0, deleter: "delete_nothing", device: cuda:0 }"#
    );
    insta::assert_snapshot!(format!("{COUNT:?}"), @r#"Deleter("count")"#);
    insta::assert_snapshot!(format!("{NOTE:?}"), @r#"Wrapping("note")"#);
}

/// Says, when it is dropped, how often the memory had been freed by then.
#[derive(Debug)]
struct Note {
    memory: Arc<Runs>,
    seen: Arc<AtomicUsize>,
}

impl Drop for Note {
    fn drop(&mut self) {
        self.seen.store(100 + self.memory.get(), SeqCst);
    }
}

static NOTE: Wrapping<Note> = Wrapping::new("note");
static OTHER: Wrapping<Note> = Wrapping::new("other");

fn noted() -> (DataPtr, Arc<Runs>, Arc<AtomicUsize>) {
    let (ptr, runs) = counted();
    let seen = Arc::new(AtomicUsize::new(0));
    let note = Note { memory: Arc::clone(&runs), seen: Arc::clone(&seen) };
    (NOTE.wrap(ptr, note), runs, seen)
}

#[test]
fn a_wrapped_pointer_frees_the_memory_and_then_what_it_holds() {
    let (ptr, runs, seen) = noted();
    assert_eq!((ptr.as_ptr(), ptr.device()), (16 as *mut u8, Device::CPU));
    assert!(NOTE.held(&ptr).is_some());
    assert!(OTHER.held(&ptr).is_none());
    drop(ptr);
    assert_eq!((runs.get(), seen.load(SeqCst)), (1, 101));
}

#[test]
fn the_root_is_found_through_any_number_of_layers() {
    let (mut ptr, runs) = counted();
    assert!(ptr.inner().is_none());
    assert!(std::ptr::eq(ptr.root(), &raw const ptr));
    let context = ptr.context();
    static UNIT: Wrapping<u64> = Wrapping::new("unit");
    for layer in 0..5 {
        ptr = UNIT.wrap(ptr, layer);
    }
    assert_eq!(UNIT.held(&ptr), Some(&4));
    assert_eq!(UNIT.held(ptr.inner().unwrap()), Some(&3));
    assert!(same_deleter(ptr.root().deleter(), &COUNT));
    assert_eq!(ptr.root().context(), context);
    let (inner, held) = UNIT.unwrap(ptr).unwrap();
    assert_eq!(held, 4);
    drop(inner);
    assert_eq!(runs.get(), 1);
}

#[test]
fn unwrap_refuses_what_is_not_its_own() {
    let (ptr, runs, seen) = noted();
    let ptr = OTHER.unwrap(ptr).unwrap_err();
    let (inner, note) = NOTE.unwrap(ptr).unwrap();
    drop(note);
    assert_eq!(seen.load(SeqCst), 100, "the memory was still live");
    assert!(same_deleter(inner.deleter(), &COUNT));
    drop(inner);
    assert_eq!(runs.get(), 1);
}

#[test]
fn a_layer_without_its_context_has_no_inner() {
    let (mut ptr, runs, _) = noted();
    // SAFETY: the memory is never reached.
    let owner = unsafe { ptr.move_context() };
    assert!(ptr.inner().is_none() && owner.inner().is_some());
    let mut owner = owner;
    let deleter = owner.deleter();
    let context = owner.release_context();
    assert!(owner.inner().is_none(), "the deleter is still there, the context is not");
    let owner = NOTE.unwrap(owner).unwrap_err();
    drop(owner);
    assert_eq!(runs.get(), 0);
    // SAFETY: the context was released, and its deleter has not run.
    unsafe { (deleter.run)(context) };
    assert_eq!(runs.get(), 1);
}

/// Equal constants may be merged, and so may functions: seen with link-time optimisation in one unit.
#[test]
fn wrappings_in_constants_tell_their_types_apart() {
    const WORD: &Wrapping<usize> = &Wrapping::new("same");
    const REFERENCE: &Wrapping<&'static u64> = &Wrapping::new("same");
    let word = WORD.wrap(DataPtr::from_boxed_slice(vec![7; 3].into()), 0x1234);
    assert!(!same_deleter(WORD.deleter(), REFERENCE.deleter()));
    assert!(REFERENCE.held(&word).is_none());
    assert!(REFERENCE.unwrap(word).is_err());
}
