//! A flag that is asked without the lock of what it speaks of, in every order that loom can think of: no error that a drop
//! met is lost, and none is returned twice.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p c10-cuda --test loom_flags --release
//! ```
#![cfg(loom)]
#![allow(unreachable_pub, dead_code, reason = "the module is a part of the library, and seen from there")]

#[path = "../src/drop_errors.rs"]
mod drop_errors;

/// What the library's modules of these names have, of loom's or for the test.
mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

mod driver {
    pub(crate) type DriverError = u8;
}

mod error {
    pub(crate) type Result<T> = std::result::Result<T, Error>;

    #[derive(Debug)]
    pub(crate) struct Error;

    impl Error {
        pub(crate) fn with_driver(_: u8, _: String) -> Self {
            Self
        }
    }
}

use loom::sync::Arc;
use loom::thread;

use drop_errors::DropErrors;

#[test]
fn an_error_is_returned_once() {
    loom::model(|| {
        let errors = Arc::new(DropErrors::default());
        let notes = [1, 2].map(|error| {
            let errors = Arc::clone(&errors);
            thread::spawn(move || errors.note::<()>(Err(error)))
        });
        let mut taken: Vec<u8> = (0..2).filter_map(|_| errors.take()).collect();
        notes.into_iter().for_each(|note| note.join().expect("it has noted"));
        // Each note is before this.
        taken.extend(errors.take());
        assert!(!taken.is_empty(), "one at least is kept");
        assert!(taken.len() == 1 || taken[0] != taken[1], "{taken:?}: one of them twice");
        assert_eq!(errors.take(), None);
    });
}
