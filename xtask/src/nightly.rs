//! The nightly toolchain, where rustup has one: sanitizers and fuzzing need it.

use std::process::Command;

use crate::Result;
use crate::workspace::{cargo, target_dir};

/// A nightly toolchain.
#[derive(Debug)]
pub(crate) struct Nightly {
    /// The target that it runs on.
    pub(crate) host: String,
}

impl Nightly {
    /// The one that is installed, or why there is none.
    pub(crate) fn find() -> std::result::Result<Self, &'static str> {
        let output = Command::new("rustup").args(["run", "nightly", "rustc", "-vV"]).output();
        let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
        let text = text.and_then(|text| String::from_utf8(text).ok()).ok_or("no nightly")?;
        let host = text.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("no nightly")?;
        Ok(Self { host: host.to_owned() })
    }

    /// Its cargo in the workspace's root, with these flags for rustc and a target folder of its own.
    ///
    /// # Errors
    /// Cargo's metadata cannot be read.
    pub(crate) fn cargo(&self, command: &str, flags: &str, folder: &str) -> Result<Command> {
        let mut nightly = Command::new("rustup");
        // What `cargo` takes away for our own sake is taken away here too.
        for (name, value) in cargo().get_envs() {
            if value.is_none() {
                nightly.env_remove(name);
            }
        }
        nightly.current_dir(crate::workspace::root());
        nightly.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTC_WRAPPER");
        nightly.args(["run", "nightly", "cargo", command, "--target", &self.host]);
        nightly.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target_dir()?.join(folder));
        Ok(nightly)
    }
}
