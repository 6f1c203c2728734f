//! Writing to the two standard streams: the only place that does.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// The exit code for input that is no use; clap ends with the same for arguments.
const BAD_INPUT: u8 = 2;

/// Writes a result to the standard output. A reader that has gone away, as `head` does, is no error.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format_args!("the standard output cannot be written: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Says on the standard error why the input is no use.
pub(crate) fn bad_input(error: &dyn Display) -> ExitCode {
    complain(error);
    ExitCode::from(BAD_INPUT)
}

fn complain(what: &dyn Display) {
    // With nobody to read it, the exit code alone has to say it.
    let _ = writeln!(io::stderr().lock(), "error: {what}");
}
