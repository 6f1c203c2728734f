//! The shared object, as programs load it: from C by the header, and by PyTorch's pluggable allocator.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The shared object that was built with these tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let folders = [tests.parent().unwrap(), tests.parent().unwrap().parent().unwrap()];
    let name = format!("{}tensorplay_cuda{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let found = folders.iter().map(|folder| folder.join(&name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} stands beside the tests"))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Says why a test did nothing, past libtest, which keeps what tests print.
fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The same for the want of a driver, which fails where a driver is expected.
fn skip_driver(why: &str, printed: &str) {
    const EXPECTED: &str = "TENSORPLAY_EXPECT_CUDA";
    assert!(std::env::var_os(EXPECTED).is_none(), "{EXPECTED} is set, but: {printed}");
    skip(why);
}

/// What a command prints.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Builds a C program against the header and the shared object; `None` without a compiler.
fn program(name: &str, folder: &Path) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if !succeeds(Command::new(&compiler).arg("--version")) {
        skip(&format!("no C compiler `{compiler}` (CC names another)"));
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (program, library) = (folder.join(name), library());
    let mut compile = Command::new(compiler);
    compile.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"]).arg(&program);
    compile.arg(root.join(format!("tests/c/{name}.c"))).arg("-I").arg(root.join("include")).arg(&library);
    compile.arg("-ldl").arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    output(&mut compile);
    Some(program)
}

#[test]
fn a_c_program_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("client", folder.path()) else { return };
    let printed = output(Command::new(program).current_dir(&folder));
    let expected = "\
init 0
again 2
again: the allocator is there already: it was used or made before
history 0
second is 1024 bytes on, in 2 MiB
";
    assert!(printed.starts_with(expected), "{printed}");
    let lines: Vec<&str> = printed.lines().collect();
    for line in [
        "stats 0 allocated 2048 reserved 2097152 active 2048 requested 2000 allocs 1 frees 0 ooms 0",
        "reused at once 0",
        "reused later 1",
        "there at once 0",
        "there later 1",
        "too much 0",
        "no device 0",
        "no device: there is no device 2: there are 2",
        "beyond the fraction 0",
        "fraction: invalid fraction:2. Please set within [0, 1].",
        "no place 2",
        "begin 0",
        "end 0",
        "end again 2",
        "apart 1",
        "release 0",
        "snapshot 0",
        "it is one 1",
        "nowhere 8",
        "no path 2",
        "history ends 0",
        "empty 0",
        "stats 0 allocated 0 reserved 0 active 0 requested 0 allocs 1 frees 1 ooms 1",
        "stats 0 allocated 0 reserved 0 active 0 requested 0 allocs 3 frees 3 ooms 1",
    ] {
        assert!(lines.contains(&line), "{line:?} is missing in\n{printed}");
    }
    let starts =
        |start: &str| assert!(lines.iter().any(|line| line.starts_with(start)), "{start:?} in\n{printed}");
    starts("double free: raw_delete: 0x");
    starts("foreign: device_of_raw: 0x8");
    starts("nowhere: no/such/folder/snapshot.pickle: ");
    starts(
        "too much: CUDA out of memory. Tried to allocate 66.00 MiB. GPU 0 has a total capacity of 64.00 MiB",
    );
}

#[test]
fn the_first_call_may_say_how_many_devices_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("client", folder.path()) else { return };
    assert_eq!(output(Command::new(program).args(["devices", "first"])), "second device 1\n");
}

#[test]
fn wrong_settings_are_told_and_stay_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("client", folder.path()) else { return };
    let printed = output(Command::new(&program).arg("nonsense:1"));
    assert_eq!(printed.lines().next(), Some("init 3"));
    assert!(printed.contains("Unrecognized key 'nonsense'"), "{printed}");
    assert!(printed.ends_with("alloc 1\n"), "the environment's settings are good: {printed}");
    let printed = output(Command::new(&program).arg("").env("TENSORPLAY_CUDA_SIM_BYTES", "many"));
    assert!(
        printed.starts_with("init 3\ninit: TENSORPLAY_CUDA_SIM_BYTES is no number: many\nalloc 0"),
        "{printed}"
    );
}

/// Over whatever driver the process finds: a GPU's, or the stand-in.
#[test]
fn a_c_program_uses_it_on_the_cuda_driver() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("driver", folder.path()) else { return };
    let printed = output(Command::new(program).env("TENSORPLAY_CUDA_DRIVER", "cuda"));
    let lines: Vec<&str> = printed.lines().collect();
    if !printed.contains("context") {
        assert_ne!(lines[0], "init 0", "{printed}");
        assert!(lines[1].starts_with("init: "), "{printed}");
        skip_driver("no CUDA driver", &printed);
        return;
    }
    let built_for_it = c10_cuda::driver::real::load().is_ok();
    if !built_for_it {
        assert!(printed.contains("alloc: this build has no CUDA driver"), "{printed}");
        skip_driver("no feature `cuda` in this build", &printed);
        return;
    }
    let expected = [
        "context 0",
        "stream 0",
        "sized 3",
        "sized: 1073741824 bytes a device are asked for: those of the CUDA driver have what they have",
        "init 0",
        "copies 0",
        "came back 1",
        "forked 0",
        "reused 1",
        "simulated 0",
        "simulated: the allocator runs on the CUDA driver, not on a simulated machine",
        "empty 0",
        "stats 0 reserved 0 allocs 1 frees 1",
        "end 0",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn an_unknown_driver_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program("client", folder.path()) else { return };
    let printed = output(Command::new(program).arg("").env("TENSORPLAY_CUDA_DRIVER", "rocm"));
    assert!(
        printed.starts_with("init 3\ninit: TENSORPLAY_CUDA_DRIVER is neither sim nor cuda: rocm\nalloc 0"),
        "{printed}"
    );
}

#[test]
fn pytorch_loads_it_as_a_pluggable_allocator() {
    let python = std::env::var("TORCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_torch = "import torch; assert hasattr(torch._C, '_cuda_customAllocator')";
    if !succeeds(Command::new(&python).args(["-c", has_torch])) {
        skip(&format!("no PyTorch with CUDA in `{python}` (TORCH_PYTHON names another)"));
        return;
    }
    // Without a GPU PyTorch makes the allocator and cannot use it: the same functions are called as it would.
    let script = r#"
import ctypes, sys, torch
path = sys.argv[1]
allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "tensorplay_cuda_alloc", "tensorplay_cuda_free")
inner = allocator.allocator()
library = ctypes.CDLL(path)
def address(name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
inner.set_init_fn(address("tensorplay_cuda_init_devices"))
inner.set_reset_fn(address("tensorplay_cuda_empty_cache"))
inner.set_memory_fraction_fn(address("tensorplay_cuda_memory_fraction"))
inner.set_base_alloc_fn(address("tensorplay_cuda_base_alloc"))
inner.set_record_stream_fn(address("tensorplay_cuda_record_stream"))
inner.set_release_pool(address("tensorplay_cuda_release_pool"))
library.tensorplay_cuda_alloc.restype = ctypes.c_void_p
library.tensorplay_cuda_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.tensorplay_cuda_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
block = library.tensorplay_cuda_alloc(1000, 0, None)
library.tensorplay_cuda_free(block, 1000, 0, None)
print("loaded", type(inner).__name__, block == library.tensorplay_cuda_alloc(1000, 0, None))
"#;
    let printed = output(Command::new(&python).args(["-c", script]).arg(library()));
    assert_eq!(printed.trim(), "loaded _CUDAPluggableAllocator True");
}
