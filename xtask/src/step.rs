//! A step of a command: a heading, a child process whose output is seen as it comes, and the time it took.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use crate::Result;

/// The clock of one command: its steps print when they begin and how long they took.
#[derive(Debug)]
pub(crate) struct Steps {
    begun: Instant,
}

impl Steps {
    /// Starts the clock.
    pub(crate) fn begin() -> Self {
        Steps { begun: Instant::now() }
    }

    /// Prints `heading`, does `work`, and prints the time it took.
    ///
    /// # Errors
    /// What `work` gives.
    pub(crate) fn step<T>(&self, heading: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("\n=== {heading} (at {} s)", self.begun.elapsed().as_secs());
        let begun = Instant::now();
        let done = work();
        println!("=== {heading}: {:.1} s", begun.elapsed().as_secs_f64());
        done
    }

    /// A step that is one command, which has to succeed.
    ///
    /// # Errors
    /// The command could not be started, or failed: the text names it.
    pub(crate) fn command(&self, heading: &str, command: &mut Command) -> Result<()> {
        self.step(heading, || must_succeed(command))
    }
}

/// Runs a command whose output goes to the terminal as it is.
///
/// # Errors
/// The command could not be started.
pub(crate) fn run(command: &mut Command) -> Result<ExitStatus> {
    println!("$ {}", text_of(command));
    Ok(command.status().map_err(|error| format!("{}: {error}", text_of(command)))?)
}

/// As [`run`], for a command that has to succeed.
///
/// # Errors
/// The command could not be started, or failed: the text names it.
pub(crate) fn must_succeed(command: &mut Command) -> Result<()> {
    let status = run(command)?;
    if !status.success() {
        return Err(format!("`{}` failed: {status}", text_of(command)).into());
    }
    Ok(())
}

/// As [`run`], and gives each line of output and error output to `line` after printing it.
///
/// # Errors
/// The command could not be started, or its output not read.
pub(crate) fn run_reading(command: &mut Command, mut line: impl FnMut(&str)) -> Result<ExitStatus> {
    println!("$ {}", text_of(command));
    // One pipe for both keeps cargo's "Running …" lines above the results that they head.
    let (output, sink) = std::io::pipe()?;
    let mut child = command.stdout(sink.try_clone()?).stderr(sink).spawn()?;
    // The command holds the writing end until it is given other ends; without this the reading never ends.
    command.stdout(std::process::Stdio::inherit()).stderr(std::process::Stdio::inherit());
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while output.read_until(b'\n', &mut bytes)? > 0 {
        let text = String::from_utf8_lossy(&bytes);
        print!("{text}");
        line(text.trim_end());
        bytes.clear();
    }
    Ok(child.wait()?)
}

/// A command as one would type it, with the environment it adds.
pub(crate) fn text_of(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={:?}", name.display(), value));
        }
    }
    let program = std::path::Path::new(command.get_program());
    words.push(program.file_name().unwrap_or(program.as_os_str()).display().to_string());
    words.extend(command.get_args().map(|arg| arg.display().to_string()));
    words.join(" ")
}
