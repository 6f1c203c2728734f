//! The commands of a trace, as the oracle's `torch_replay` reads them: one a line, `#` starts a comment, words
//! behind a command's own are ignored.

mod command;
mod words;

use std::fmt;

pub(crate) use command::{CaptureMode, Command, PoolName, ScopeFilter, StreamName};
use words::Words;

/// One command, with the text it stood in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Op<'a> {
    /// Its line, from 1.
    pub(crate) line: usize,
    /// The line's text up to a comment.
    pub(crate) text: &'a str,
    /// The thread that runs it; 0 is the main one.
    pub(crate) thread: i32,
    /// The text that the thread gets: the same, or what stands behind `t N`.
    pub(crate) told: &'a str,
    /// What it says.
    pub(crate) command: Command<'a>,
}

/// A line that is no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// The oracle's streams of a device: the default one and 32 of the pool.
pub(crate) const STREAMS: usize = 33;

/// The text that the bytes of a file are.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, BadLine> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        BadLine { line, reason: "is not UTF-8 text".into() }
    })
}

/// Reads all lines.
pub(crate) fn parse(text: &str) -> Result<Vec<Op<'_>>, BadLine> {
    let mut ops = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        let text = line.split('#').next().unwrap_or_default();
        if text.trim_ascii().is_empty() {
            continue;
        }
        let line = index + 1;
        ops.push(parse_line(line, text).map_err(|reason| BadLine { line, reason })?);
    }
    Ok(ops)
}

fn parse_line(line: usize, text: &str) -> Result<Op<'_>, String> {
    let mut words = Words::new(text)?;
    let (mut thread, mut told) = (0, text);
    while words.name() == "t" {
        if thread != 0 {
            return Err("a thread cannot run a command on another thread".into());
        }
        thread = words.integer("thread")?;
        told = words.rest();
        words = Words::new(told)?;
    }
    Ok(Op { line, text, thread, told, command: Command::read(&mut words)? })
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}
