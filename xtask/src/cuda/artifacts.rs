//! [`Artifacts`]: the files that a run of cargo has built, or found built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Artifact, Message};

use crate::Result;
use crate::step::text_of;
use crate::workspace::root;

/// What cargo says that it has built.
#[derive(Debug)]
pub(crate) struct Artifacts(Vec<Artifact>);

impl Artifacts {
    /// Runs a cargo command that builds.
    ///
    /// # Errors
    /// It could not be started, or failed.
    pub(crate) fn of(command: &mut Command) -> Result<Self> {
        command.arg("--message-format=json-render-diagnostics");
        println!("$ {}", text_of(command));
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("`{}` failed: {}", text_of(command), output.status).into());
        }
        let mut artifacts = Vec::new();
        for message in Message::parse_stream(&*output.stdout) {
            if let Message::CompilerArtifact(artifact) = message? {
                artifacts.push(artifact);
            }
        }
        Ok(Self(artifacts))
    }

    /// The program that runs the tests of one target of the package in `folder`.
    ///
    /// # Errors
    /// It is not among what was built.
    pub(crate) fn tests(&self, folder: &str, target: &str) -> Result<&Path> {
        self.executable(folder, target, true)
    }

    /// The program of one target of the package in `folder`.
    ///
    /// # Errors
    /// It is not among what was built.
    pub(crate) fn program(&self, folder: &str, target: &str) -> Result<&Path> {
        self.executable(folder, target, false)
    }

    fn executable(&self, folder: &str, target: &str, of_tests: bool) -> Result<&Path> {
        let found = self.of_package(folder).find_map(|artifact| {
            let is_it = artifact.target.name == target && artifact.profile.test == of_tests;
            artifact.executable.as_deref().filter(|_| is_it)
        });
        Ok(found.ok_or_else(|| format!("{folder} has built no program {target}"))?.as_std_path())
    }

    /// The shared object of the package in `folder`.
    ///
    /// # Errors
    /// It is not among what was built.
    pub(crate) fn shared_object(&self, folder: &str) -> Result<PathBuf> {
        let mut files = self.of_package(folder).flat_map(|artifact| &artifact.filenames);
        let found = files.find(|file| file.extension() == Some("so"));
        Ok(found.ok_or_else(|| format!("{folder} has built no shared object"))?.clone().into_std_path_buf())
    }

    fn of_package(&self, folder: &str) -> impl Iterator<Item = &Artifact> {
        let manifest = root().join(folder).join("Cargo.toml");
        self.0.iter().filter(move |artifact| artifact.manifest_path.as_std_path() == manifest)
    }
}
