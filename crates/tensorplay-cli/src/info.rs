//! What this build is and which devices it finds.

use std::env;
use std::path::{Path, PathBuf};

/// The text of `tensorplay info`.
pub(crate) fn info() -> String {
    let mut text = format!("tensorplay {}\n\nDevices\n", env!("CARGO_PKG_VERSION"));
    text += "  simulated CUDA devices: always there, they need no GPU; replays run on one\n";
    let library = driver_library();
    match find(library, &search_path()) {
        Some(file) => text += &format!("  {library}: {}; this build does not use it\n", file.display()),
        None => text += &format!("  {library}: not found\n"),
    }
    text += "    looked for in";
    for folder in search_path() {
        text += &format!(" {}", folder.display());
    }
    text.push('\n');
    text
}

/// The CUDA driver's library.
fn driver_library() -> &'static str {
    if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" }
}

/// Where the system's loader looks, and where drivers are put in containers and under Windows.
fn search_path() -> Vec<PathBuf> {
    let variable = if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" };
    let mut folders: Vec<PathBuf> = env::var_os(variable)
        .iter()
        .flat_map(env::split_paths)
        .filter(|folder| folder.is_absolute())
        .collect();
    if !cfg!(windows) {
        let usual = [
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/usr/lib64",
            "/usr/lib",
            "/usr/local/nvidia/lib64",
            "/usr/local/cuda/compat",
            "/usr/lib/wsl/lib",
        ];
        folders.extend(usual.map(PathBuf::from));
    }
    folders
}

fn find(library: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(library)).find(|file| Path::exists(file))
}
