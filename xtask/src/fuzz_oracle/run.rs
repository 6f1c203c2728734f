//! Runs a trace through PyTorch's allocator and through ours, and compares what they print, line by line.

use std::ffi::OsStr;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::oracle;
use super::trace::Trace;
use crate::Result;

/// After this a process is taken to hang. A trace takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two programs.
#[derive(Debug)]
pub(crate) struct Programs {
    /// PyTorch's: `torch_replay`.
    pub(crate) oracle: PathBuf,
    /// Ours: `tensorplay`.
    pub(crate) ours: PathBuf,
    /// Where the trace in hand is written for them.
    pub(crate) scratch: PathBuf,
    /// Whether the allocators' own trace entries are printed too.
    pub(crate) with_entries: bool,
    /// `setarch -R` is here: it keeps addresses the same from run to run.
    has_setarch: bool,
    has_stdbuf: bool,
}

/// What one program printed. A program that failed has a last line that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) lines: Vec<String>,
    pub(crate) failed: bool,
}

impl Programs {
    pub(crate) fn new(oracle: PathBuf, ours: PathBuf, scratch: PathBuf) -> Self {
        Programs {
            oracle,
            ours,
            scratch,
            with_entries: false,
            has_setarch: oracle::runs(&["setarch", "--version"]),
            has_stdbuf: oracle::runs(&["stdbuf", "--version"]),
        }
    }

    /// Runs PyTorch's allocator. Where it crashes the lines are those before it did.
    ///
    /// # Errors
    /// It could not be started.
    pub(crate) fn run_oracle(&self, trace: &Trace) -> Result<Output> {
        let output = self.run_oracle_once(trace, false)?;
        if output.failed { self.run_oracle_once(trace, true) } else { Ok(output) }
    }

    fn run_oracle_once(&self, trace: &Trace, line_by_line: bool) -> Result<Output> {
        std::fs::write(&self.scratch, trace.to_string())?;
        // What a program that crashes has written is lost unless each line goes out at once.
        let wrappers =
            [("setarch", "-R", self.has_setarch), ("stdbuf", "-oL", line_by_line && self.has_stdbuf)];
        let mut words: Vec<&OsStr> = Vec::new();
        for (wrapper, option, _) in wrappers.iter().filter(|(_, _, used)| *used) {
            words.extend([OsStr::new(wrapper), OsStr::new(option)]);
        }
        words.push(self.oracle.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        self.set_environment(&mut command);
        command.env("FAKE_CUDA_TOTAL_BYTES", trace.device_memory.to_string());
        command.env("FAKE_CUDA_DEVICES", trace.devices.to_string());
        command.env("MALLOC_ARENA_MAX", "1");
        if !trace.conf.is_empty() {
            command.env("PYTORCH_ALLOC_CONF", &trace.conf);
        }
        output(command.stdin(std::fs::File::open(&self.scratch)?))
    }

    /// Runs our allocator.
    ///
    /// # Errors
    /// It could not be started.
    pub(crate) fn run_ours(&self, trace: &Trace) -> Result<Output> {
        std::fs::write(&self.scratch, trace.to_string())?;
        let mut command = Command::new(&self.ours);
        self.set_environment(&mut command);
        command.args(["replay", "--oracle", "--device-memory", &trace.device_memory.to_string()]);
        command.env("FAKE_CUDA_DEVICES", trace.devices.to_string());
        if !trace.conf.is_empty() {
            command.args(["--conf", &trace.conf]);
        }
        output(command.arg("--ops").arg(&self.scratch).stdin(Stdio::null()))
    }

    fn set_environment(&self, command: &mut Command) {
        without_settings(command);
        if self.with_entries {
            command.env("TORCH_REPLAY_TRACE", "1");
        }
    }
}

/// The caller's own allocator settings must reach neither program.
fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let settings = ["PYTORCH_", "FAKE_CUDA_", "TORCH_REPLAY_"];
        if name.to_str().is_some_and(|name| settings.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
}

fn output(command: &mut Command) -> Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let reader = read_in_background(child.stdout.take().expect("piped"));
    let complaints = read_in_background(child.stderr.take().expect("piped"));
    let end = end_of(&mut child)?;
    let text = reader.join().map_err(|_| "the reading thread panicked")??;
    let complaints = complaints.join().map_err(|_| "the reading thread panicked")??;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(end) = &end {
        lines.push(format!("failed: {end}: {}", complaints.trim_end()));
    }
    Ok(Output { lines, failed: end.is_some() })
}

fn read_in_background(
    mut pipe: impl Read + Send + 'static,
) -> std::thread::JoinHandle<std::io::Result<String>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// Waits for the end, and says how a process failed; `None` when it did not.
fn end_of(child: &mut Child) -> Result<Option<String>> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((!status.success()).then(|| status.to_string()));
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(Some(format!("no end after {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
