//! The line of a program that a storage comes from, in backtraces of builds of every kind.

use c10_core::Storage;
use c10_core::storage::{MadeIn, StorageDump};

/// A dump that tells this of where the storage was made.
fn told(made_at: Option<&str>) -> StorageDump {
    let dump = Storage::from_bytes(Box::from(*b"abc")).unwrap().dump();
    StorageDump { made_at: made_at.map(str::to_owned), ..dump }
}

fn in_program(dump: &StorageDump) -> MadeIn {
    dump.made_in(|file| file.ends_with("src/main.rs"))
}

/// One function has many frames' places when it was built with optimisation, and names of functions are short.
const OPTIMISED: &str = "crates/aten/src/empty.rs:40:9
   0: here
             at ./crates/c10-core/src/storage/origin_tracked.rs:58:60
   1: of_type
             at ./crates/c10-core/src/storage/mod.rs:92:79
      empty
             at ./crates/aten/src/empty.rs:40:9
   2: hunt<program::main::{closure_env#0}>
             at ./src/main.rs:48:26
      main
             at ./src/main.rs:19:19
   3: call_once<fn() -> (), ()>
             at /rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/ops/function.rs:250:5
   4: __libc_start_call_main
             at ./csu/../sysdeps/nptl/libc_start_call_main.h:58:16";

/// The program has no lines, the libraries that were built before it have.
const WITHOUT_LINES: &str = "crates/aten/src/empty.rs:40:9
   0: c10_core::storage::Storage::of_type
   1: program::main
   2: core::ops::function::FnOnce::call_once
             at /rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/ops/function.rs:250:5
   3: core::ops::function::FnOnce::call_once
             at /toolchain/lib/rustlib/src/rust/library/core/src/ops/function.rs:250:5
   4: __libc_start_call_main
             at ./csu/../sysdeps/nptl/libc_start_call_main.h:58:16";

#[test]
fn the_innermost_place_of_the_program_is_told() {
    let dump = told(Some(OPTIMISED));
    assert_eq!(in_program(&dump), MadeIn::Place("./src/main.rs:48:26".to_owned()));
    // The caller's own place, before the backtrace, is the innermost.
    let aten = dump.made_in(|file| file.ends_with("empty.rs"));
    assert_eq!(aten.to_string(), "crates/aten/src/empty.rs:40:9");
    assert_eq!(in_program(&told(Some("src/main.rs:7:5"))).to_string(), "src/main.rs:7:5");
}

#[test]
fn files_are_asked_for_without_their_numbers() {
    let dump = told(Some("C:\\a:1\\src/main.rs:7:5\n   0: f\n             at D:/src/lib.rs:3"));
    let files = std::cell::RefCell::new(Vec::new());
    assert_eq!(
        dump.made_in(|file| {
            files.borrow_mut().push(file.to_owned());
            false
        }),
        MadeIn::Elsewhere
    );
    assert_eq!(*files.borrow(), ["C:\\a:1\\src/main.rs", "D:/src/lib.rs"]);
}

#[test]
fn why_no_place_is_known() {
    assert_eq!(in_program(&told(None)), MadeIn::NotCaptured);
    assert_eq!(in_program(&told(Some("crates/aten/src/empty.rs:40:9"))), MadeIn::NotCaptured);
    assert_eq!(in_program(&told(Some(&OPTIMISED.replace("main.rs", "worker.rs")))), MadeIn::Elsewhere);
    let without_lines = in_program(&told(Some(WITHOUT_LINES)));
    assert_eq!(without_lines, MadeIn::NoLines);
    assert!(without_lines.to_string().contains("debug = \"line-tables-only\""));
}

#[cfg(feature = "leak-tracking")]
#[test]
fn a_backtrace_of_this_build_leads_here() {
    use crate::dump::alone;
    use crate::storage::host;
    use c10_core::storage::capture_backtraces;

    let _alone = alone();
    capture_backtraces(true);
    let line = line!() + 1;
    let plain = Storage::new(77, host()).unwrap();
    let clone = plain.lazy_clone().unwrap();
    let inlined = Some(77).map(|size| Storage::new(size, host()).unwrap()).unwrap();
    capture_backtraces(false);
    for (storage, line) in [plain, clone, inlined].iter().zip(line..) {
        let mut dump = storage.dump();
        // Its first line is what the compiler told, which needs no backtrace.
        let (_, backtrace) = dump.made_at.as_deref().unwrap().split_once('\n').unwrap();
        dump.made_at = Some(format!("unknown.rs:1:1\n{backtrace}"));
        let made_in = dump.made_in(|file| file.ends_with("it/made_in.rs"));
        assert!(made_in.to_string().contains(&format!("it/made_in.rs:{line}:")), "{made_in}: {dump}");
        assert_eq!(dump.made_in(|file| file.ends_with("none.rs")), MadeIn::Elsewhere);
    }
}
