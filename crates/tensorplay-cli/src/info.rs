//! What this build is, which devices it finds, and how the environment configures the allocator.

use std::env;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};

use c10_cuda::driver::real;
use c10_cuda::{Config, Error};

/// The text of `tensorplay info`.
///
/// # Errors
/// The environment's configuration is wrong.
pub(crate) fn info() -> Result<String, Error> {
    let mut info = Info { text: format!("tensorplay {}\n", env!("CARGO_PKG_VERSION")) };
    info.field("allocator", "as of PyTorch 2.15");
    info.field("features", "simulated CUDA devices");
    info.devices();
    info.configuration(&Config::from_env()?);
    Ok(info.text)
}

struct Info {
    text: String,
}

impl Info {
    fn field(&mut self, name: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "  {name:<36} {value}");
    }

    fn heading(&mut self, heading: &str) {
        let _ = writeln!(self.text, "\n{heading}");
    }

    fn devices(&mut self) {
        self.heading("Devices");
        self.field("simulated", "always there, and needs no GPU; replays run on it");
        match real::load() {
            Ok(driver) => self.field("CUDA", format_args!("{} devices", driver.device_count())),
            Err(error) => self.field("CUDA", format_args!("none: {error}")),
        }
        let (library, folders) = (driver_library(), search_path());
        match find(library, &folders) {
            Some(file) => self.field(library, file.display()),
            None => {
                self.field(library, "not found; looked for in");
                folders.iter().for_each(|folder| self.field("", folder.display()));
            }
        }
    }

    /// Which settings the environment makes, and from where.
    fn configuration(&mut self, config: &Config) {
        self.heading("Allocator configuration");
        match Config::text_from_env() {
            // It may hold what a terminal acts on.
            Some((variable, text)) => self.field(variable, text.escape_debug()),
            None => self.field("environment", "PYTORCH_CUDA_ALLOC_CONF and its like are not set"),
        }
        let changed = config.changed_settings();
        if changed.is_empty() {
            self.field("settings", "PyTorch's defaults");
        }
        for (key, value) in changed {
            self.field(key, value);
        }
        if config.no_caching {
            self.field("PYTORCH_NO_CUDA_MEMORY_CACHING", "1: nothing is cached");
        }
        self.field("", "a replay of a snapshot takes its own from the file, or from --conf");
    }
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
