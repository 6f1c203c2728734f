//! What threads may see of shared values, in every order that loom can think of.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p c10-core --test loom_shared --release
//! ```
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;

use c10_core::shared::Shared;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;

/// A value that must be alone when it ends: loom looks at the accesses.
struct Watched {
    cell: UnsafeCell<u32>,
    ended: Arc<AtomicUsize>,
}

impl Watched {
    fn shared(ended: &Arc<AtomicUsize>) -> Shared<Self> {
        Shared::new(|| Self { cell: UnsafeCell::new(1), ended: Arc::clone(ended) })
    }

    fn read(&self) {
        self.cell.with(|_| ());
    }
}

// The pointers of `with` and `with_mut` are not followed: loom alone looks whether accesses are ordered.
impl Drop for Watched {
    fn drop(&mut self) {
        self.cell.with_mut(|_| ());
        self.ended.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_last_handle_ends_the_value_behind_all_uses() {
    loom::model(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let value = Watched::shared(&ended);
        let other = value.clone();
        let thread = thread::spawn(move || other.read());
        value.read();
        drop(value);
        thread.join().unwrap();
        assert_eq!(ended.load(SeqCst), 1);
    });
}

#[test]
fn a_weak_handle_gets_the_value_whole_or_not() {
    loom::model(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let value = Watched::shared(&ended);
        let weak = Shared::downgrade(&value);
        let thread = thread::spawn(move || match weak.upgrade() {
            Some(strong) => strong.read(),
            None => assert_eq!(weak.strong_count(), 0),
        });
        value.read();
        drop(value);
        thread.join().unwrap();
        assert_eq!(ended.load(SeqCst), 1);
    });
}

#[test]
fn only_a_sole_handle_is_lent() {
    loom::model(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let mut value = Watched::shared(&ended);
        let other = value.clone();
        let thread = thread::spawn(move || {
            let weak = Shared::downgrade(&other);
            other.read();
            drop(other);
            if let Some(strong) = weak.upgrade() {
                strong.read();
            }
        });
        if let Some(alone) = Shared::get_mut(&mut value) {
            alone.cell.with_mut(|_| ());
        }
        drop(value);
        thread.join().unwrap();
        assert_eq!(ended.load(SeqCst), 1);
    });
}
