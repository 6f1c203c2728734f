//! [`Lines`]: a file of cases, line by line, gzip'd or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// So many bytes has a line at most. Recorded ones have some thousands.
const LONGEST_LINE: u64 = 64 << 20;

/// The lines of a file, counted from 0, without the empty ones. One is held in memory at a time.
pub(super) struct Lines {
    source: Box<dyn BufRead>,
    next: u64,
    buffer: Vec<u8>,
}

impl Lines {
    /// Opens the file. Whether it is gzip'd is told by its content.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn open(file: &Path) -> io::Result<Self> {
        if std::fs::metadata(file)?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory, not a file of cases"));
        }
        Self::new(BufReader::new(File::open(file)?))
    }

    /// The lines of these bytes.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn new(mut source: impl BufRead + 'static) -> io::Result<Self> {
        let is_gzip = source.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let source: Box<dyn BufRead> =
            if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(source))) } else { Box::new(source) };
        Ok(Self { source, next: 0, buffer: Vec::new() })
    }

    /// The next line that is not empty, with its number.
    ///
    /// # Errors
    /// The number of the line that is too long, is no UTF-8, or breaks off, and why.
    pub(super) fn next_line(&mut self) -> Result<Option<(u64, &str)>, (u64, String)> {
        loop {
            let number = self.next;
            self.buffer.clear();
            let mut limited = self.source.by_ref().take(LONGEST_LINE + 1);
            let count =
                limited.read_until(b'\n', &mut self.buffer).map_err(|error| (number, error.to_string()))?;
            if count == 0 {
                return Ok(None);
            }
            if count as u64 > LONGEST_LINE {
                return Err((
                    number,
                    format!("has more than the {LONGEST_LINE} bytes that are read at most"),
                ));
            }
            self.next += 1;
            if !self.buffer.trim_ascii().is_empty() {
                let line = str::from_utf8(&self.buffer).map_err(|error| (number, error.to_string()))?;
                return Ok(Some((number, line)));
            }
        }
    }
}
