//! The library: missing, broken, too old, or without what is needed. Each case is loaded by a process of its own, whose
//! search path begins with a folder of the test's.
#![cfg(target_os = "linux")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use c10_cuda::ErrorKind;
use c10_cuda::driver::real;

use crate::support::say_skipped;

/// Says to a process that it is a child of these tests.
const CHILD: &str = "TENSORPLAY_LOADS_CUDA";

/// What the child says, behind this.
const SAYS: &str = "child: ";

/// Not a test by itself: what a child process does.
#[test]
#[ignore = "another test starts it as a process of its own"]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn child() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    assert!(real::device_count() == 0 || real::load().is_ok());
    let said = match real::load() {
        Ok(driver) => format!("loaded {}", driver.version()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::DeviceUnavailable);
            assert_eq!(c10_core::Error::from(error).kind(), c10_core::ErrorKind::DeviceUnavailable);
            real::load().unwrap_err().to_string()
        }
    };
    println!("{SAYS}{said}");
}

/// A folder of this test's.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("tensorplay-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).unwrap();
    }

    /// Makes a driver's library out of C.
    fn compile(&self, source: &str) {
        self.put("driver.c", source.as_bytes());
        let library = self.0.join("libcuda.so.1");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-w", "-o"])
            .args([&library, &self.0.join("driver.c")])
            .status()
            .unwrap();
        assert!(compiled.success());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it is the system's to clear away.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a process says that looks for the library in the folder first.
fn loaded_from(folder: &Path) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["real::library::child", "--ignored", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.split_once(SAYS));
    let (_, said) = line.unwrap_or_else(|| panic!("{output:?}"));
    said.to_owned()
}

fn library(version: u32, init: u32, others: &[&str]) -> String {
    let mut source = format!("int cuDriverGetVersion(int *v) {{ *v = {version}; return 0; }}\n");
    writeln!(source, "int cuInit(unsigned flags) {{ return {init}; }}").unwrap();
    for name in others.iter().filter(|name| **name != "cuInit") {
        writeln!(source, "int {name}() {{ return 999; }}").unwrap();
    }
    source
}

#[test]
fn a_library_that_is_not_there_is_looked_for_by_its_names() {
    let folder = Folder::new("no-cuda");
    let said = loaded_from(&folder.0);
    if said.starts_with("loaded") {
        say_skipped("the system has a CUDA driver");
        return;
    }
    let refused = "cannot open shared object file: No such file or directory";
    assert_eq!(
        said,
        format!("there is no CUDA driver: looked for libcuda.so.1 ({refused}) and libcuda.so ({refused})")
    );
}

#[test]
fn a_library_that_is_none_is_told() {
    let folder = Folder::new("broken-cuda");
    folder.put("libcuda.so.1", b"no library");
    folder.put("libcuda.so", b"none either");
    let said = loaded_from(&folder.0);
    assert!(said.starts_with("there is no CUDA driver: looked for libcuda.so.1 ("), "{said}");
    folder.compile("int other(void) { return 0; }\n");
    assert_eq!(loaded_from(&folder.0), "libcuda.so.1 is no CUDA driver");
}

#[test]
fn a_library_that_is_too_old_or_lacks_functions_is_told_so() {
    let folder = Folder::new("old-cuda");
    folder.compile(&library(10020, 0, &[]));
    let said = loaded_from(&folder.0);
    assert_eq!(
        said,
        "the CUDA driver libcuda.so.1 is too old: it knows CUDA 10.2, and 11.4 or newer is needed"
    );
    folder.compile(&library(12040, 0, &[]));
    let said = loaded_from(&folder.0);
    let lacks = said.strip_prefix("the CUDA driver libcuda.so.1, of CUDA 12.4, lacks ").expect(&said);
    let names: Vec<&str> = lacks.split(", ").collect();
    assert!(names.contains(&"cuMemAlloc_v2") && names.contains(&"cuMemCreate"), "{said}");
    assert!(!names.contains(&"cuFuncGetParamInfo"), "it is used where it is there");
    // With all of them it is asked, and believed.
    for (init, why) in [
        (100, "finds no device"),
        (34, "is the toolkit's stub, which is for linking alone"),
        (999, "cannot be initialised: driver error 999"),
    ] {
        folder.compile(&library(13000, init, &names));
        assert_eq!(loaded_from(&folder.0), format!("the CUDA driver libcuda.so.1, of CUDA 13.0, {why}"));
    }
    let one_less = &names[1..];
    folder.compile(&library(11040, 0, one_less));
    assert_eq!(
        loaded_from(&folder.0),
        format!("the CUDA driver libcuda.so.1, of CUDA 11.4, lacks {}", names[0])
    );
}
