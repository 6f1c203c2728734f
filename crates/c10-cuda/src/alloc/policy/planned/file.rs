//! The file of a plan: text, one line for each request, with a checksum.
//!
//! ```text
//! tensorplay-plan 1
//! source 91b2c03d6f3a5e17
//! span 6
//! repeats-from never
//! lanes 1 height bound
//! 3072 3072
//! requests 3 lane bytes offset start end
//! 0 2048 0 0 3
//! 0 1024 2048 1 6
//! 0 512 0 4 6
//! checksum 5f0a…
//! ```
//! The checksum is of everything before its line. There is one way to write a plan, and the parser takes no other.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::fingerprint::Fingerprint;
use super::plan::{Entry, Lane, Parts, Plan};
use crate::error::{Error, ErrorKind, Result};

const HEAD: &str = "tensorplay-plan 1";

impl Plan {
    /// The plan that the bytes of a file hold. They may be a stranger's: all of it is checked.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] with the line, or with what is wrong with the plan.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| refused("it is not UTF-8"))?;
        Self::new(Lines { rest: text, number: 0, whole: text }.parts()?)
    }

    /// Reads the file that [`save`](Self::save) writes.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), naming the file; and when it cannot be read.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|error| of_file(path, &error))?;
        Self::parse(&bytes).map_err(|error| of_file(path, &error))
    }

    /// Writes the plan to a file, whole or not at all.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write_whole(path, &self.to_string()).map_err(|error| of_file(path, &error))
    }
}

/// Writes a file, whole or not at all; what is no file, as a pipe or a terminal, is written to as it is.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    // A link stays, and what it leads to is written.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return fs::write(&path, text);
    }
    let (beside, mut file) = new_beside(&path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&beside, &path));
    written.inspect_err(|_| {
        // Nothing of it is kept.
        let _ = fs::remove_file(&beside);
    })
}

/// A file with a name that nothing else has, in the same folder.
fn new_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".new{number}"));
        match File::create_new(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|file| (name.into(), file)),
        }
    }
}

impl fmt::Display for Plan {
    /// The text of its file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_parts(&self.parts, &mut text)?;
        writeln!(f, "{text}checksum {:016x}", Fingerprint::of(text.as_bytes()))
    }
}

impl FromStr for Plan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text.as_bytes())
    }
}

fn write_parts(parts: &Parts, text: &mut String) -> fmt::Result {
    writeln!(text, "{HEAD}")?;
    writeln!(text, "source {:016x}", parts.source)?;
    writeln!(text, "span {}", parts.span)?;
    match parts.repeats_from {
        Some(from) => writeln!(text, "repeats-from {from}")?,
        None => writeln!(text, "repeats-from never")?,
    }
    writeln!(text, "lanes {} height bound", parts.lanes.len())?;
    for Lane { height, bound } in &parts.lanes {
        writeln!(text, "{height} {bound}")?;
    }
    writeln!(text, "requests {} lane bytes offset start end", parts.entries.len())?;
    for Entry { lane, size, offset, start, end } in &parts.entries {
        writeln!(text, "{lane} {size} {offset} {start} {end}")?;
    }
    Ok(())
}

/// The lines that have not been read.
struct Lines<'a> {
    rest: &'a str,
    /// Of the last one.
    number: usize,
    whole: &'a str,
}

impl<'a> Lines<'a> {
    fn parts(mut self) -> Result<Parts> {
        if self.line()? != HEAD {
            return Err(self.refused(&format!("should be \"{HEAD}\"")));
        }
        let source = self.hexadecimal("source ")?;
        let span = self.field("span ", "", number)?;
        let repeats_from = self.field("repeats-from ", "", |text| match text {
            "never" => Some(None),
            _ => number(text).map(Some),
        })?;
        let lanes = self.field("lanes ", " height bound", number)?;
        let lane = |[height, bound]: [u64; 2]| Some(Lane { height, bound });
        let lanes = self.table(lanes, lane)?;
        let count = self.field("requests ", " lane bytes offset start end", number)?;
        let entry = |[lane, size, offset, start, end]: [u64; 5]| {
            let [lane, start, end] = [lane, start, end].map(u32::try_from);
            Some(Entry { lane: lane.ok()?, size, offset, start: start.ok()?, end: end.ok()? })
        };
        let entries = self.table(count, entry)?;
        let checked = &self.whole[..self.whole.len() - self.rest.len()];
        if self.hexadecimal("checksum ")? != Fingerprint::of(checked.as_bytes()) {
            return Err(self.refused("is not the checksum of the lines before it"));
        }
        if !self.rest.is_empty() {
            return Err(self.refused("should be the last line"));
        }
        Ok(Parts { source, span, repeats_from, lanes, entries })
    }

    /// The next line, which has an end.
    fn line(&mut self) -> Result<&'a str> {
        self.number += 1;
        let (line, rest) =
            self.rest.split_once('\n').ok_or_else(|| self.refused("is missing or has no end"))?;
        self.rest = rest;
        Ok(line)
    }

    fn field<T>(&mut self, name: &str, units: &str, value: impl Fn(&str) -> Option<T>) -> Result<T> {
        let line = self.line()?;
        let text = line.strip_prefix(name).and_then(|text| text.strip_suffix(units));
        text.and_then(value).ok_or_else(|| self.refused(&format!("should be \"{name}…{units}\"")))
    }

    fn hexadecimal(&mut self, name: &str) -> Result<u64> {
        self.field(name, "", |text| {
            let is_plain = text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if is_plain { u64::from_str_radix(text, 16).ok() } else { None }
        })
    }

    /// So many lines of `N` numbers each. What is set aside grows with the lines that are there.
    fn table<T, const N: usize>(
        &mut self,
        count: usize,
        row: impl Fn([u64; N]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        for _ in 0..count {
            let mut words = self.line()?.split(' ');
            let numbers: Option<Vec<u64>> = words.by_ref().map(number).collect();
            let numbers = numbers.and_then(|numbers| <[u64; N]>::try_from(numbers).ok());
            rows.push(numbers.and_then(&row).ok_or_else(|| self.refused(&format!("should be {N} numbers")))?);
        }
        Ok(rows)
    }

    fn refused(&self, why: &str) -> Error {
        refused(&format!("line {} {why}", self.number))
    }
}

/// A decimal number as it is written: no sign, no zeros before it.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

fn refused(why: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("plan file: {why}"))
}

fn of_file(path: &Path, why: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{}: {why}", path.display()))
}
