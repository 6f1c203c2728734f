//! A program that is run in a limit of time, with whatever it starts itself.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a program is looked at.
const PAUSE: Duration = Duration::from_millis(20);
/// How long its output is waited for once it has ended: what it has started may hold the other end for ever.
const GRACE: Duration = Duration::from_secs(1);

/// What a program printed, and how it ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) printed: String,
    pub(crate) errors: String,
    /// Why it is not well, if it is not.
    pub(crate) failure: Option<String>,
    /// The number with which it ended.
    pub(crate) code: Option<i32>,
}

/// Runs a program, and ends it and all that it has started when the time is over.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    in_a_group(command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let errors = format!("{}: {error}", command.get_program().display());
            return Ended { errors, failure: Some("did not start".to_owned()), ..Ended::default() };
        }
    };
    let printed = child.stdout.take().map(Reader::start);
    let errors = child.stderr.take().map(Reader::start);
    let (failure, code) = wait(&mut child, limit);
    // What it has started does not outlive it, and holds no pipe open.
    end_group(&mut child);
    let until = Instant::now() + GRACE;
    let text = |reader: Option<Reader>| reader.map(|reader| reader.text(until)).unwrap_or_default();
    Ended { printed: text(printed), errors: text(errors), failure, code }
}

/// Waits for its end, or the end of its time: why it is not well, and its number.
fn wait(child: &mut Child, limit: Duration) -> (Option<String>, Option<i32>) {
    let until = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                let failure = (!status.success()).then(|| status.to_string());
                return (failure, status.code());
            }
            Ok(None) if Instant::now() < until => thread::sleep(PAUSE),
            Ok(None) => return (Some(format!("took longer than {} s", limit.as_secs())), None),
            Err(error) => return (Some(error.to_string()), None),
        }
    }
}

#[cfg(unix)]
fn in_a_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    command.process_group(0);
}

#[cfg(not(unix))]
fn in_a_group(_: &mut Command) {}

/// Ends what is left of the program and its group.
fn end_group(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // A group of which nothing is left cannot be killed.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    // One that has ended cannot be killed, and is only waited for.
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads what comes out of a pipe.
struct Reader {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn start(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut some = [0; 4096];
            // What has come until an error is what there is.
            while let Ok(count @ 1..) = pipe.read(&mut some) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&some[..count]);
            }
        });
        Self { bytes, thread }
    }

    /// All that comes, or what has come when the time is over.
    fn text(self, until: Instant) -> String {
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(PAUSE);
        }
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(all(test, unix))]
mod tests;
