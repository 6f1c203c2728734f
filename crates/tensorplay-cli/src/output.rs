//! Writing to the two standard streams: the only place that does.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
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

/// Says on the standard error why a result cannot be written.
pub(crate) fn failure(error: &dyn Display) -> ExitCode {
    complain(error);
    ExitCode::FAILURE
}

/// Says something on the standard error that is no complaint.
pub(crate) fn remark(what: &dyn Display) {
    // With nobody to read it, it is not said.
    let _ = writeln!(io::stderr().lock(), "{what}");
}

/// Writes a file.
pub(crate) fn write_file(
    file: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), String> {
    let written = File::create(file).and_then(|created| {
        let mut out = BufWriter::new(created);
        write(&mut out)?;
        out.flush()
    });
    written.map_err(|error| format!("{} cannot be written: {error}", file.display()))
}

fn complain(what: &dyn Display) {
    // With nobody to read it, the exit code alone has to say it.
    let _ = writeln!(io::stderr().lock(), "error: {what}");
}
