//! The commands of a trace, as the oracle's `torch_replay` reads them: one a line, `#` starts a comment, words
//! behind a command's own are ignored.

use std::fmt;

/// One command, with the text it stood in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Op<'a> {
    /// Its line, from 1.
    pub(crate) line: usize,
    /// The line's text up to a comment.
    pub(crate) text: &'a str,
    /// What it says.
    pub(crate) command: Command,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// `a ID SIZE STREAM`
    Allocate { id: i64, bytes: u64, stream: usize },
    /// `f ID`
    Free { id: i64 },
    /// `r ID STREAM`
    RecordStream { id: i64, stream: usize },
    /// `s STREAM`
    CompleteStream { stream: usize },
    /// `S`
    CompleteAll,
    /// `e`
    EmptyCache,
    /// `m FRACTION`
    MemoryFraction { fraction: f64 },
    /// `p`
    PrintStats,
    /// `cache_info`
    CacheInfo,
    /// `base ID`
    Base { id: i64 },
    /// `fraction`
    Fraction,
    /// `enable 0|1`
    Enable { caching: bool },
    /// `reset_peak`
    ResetPeak,
    /// `reset_accumulated`
    ResetAccumulated,
}

/// A line that is no command, or none that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// The oracle's streams of a device: the default one and 32 of the pool.
pub(crate) const STREAMS: usize = 33;

/// Commands of the oracle for parts of the allocator that are not there.
const UNSERVED: [&str; 26] = [
    "d",
    "t",
    "c",
    "k",
    "w",
    "at",
    "use",
    "unuse",
    "mempool",
    "mempool_del",
    "pool_create",
    "pool_begin",
    "pool_end",
    "pool_release",
    "pool_use_on_oom",
    "pool_no_split",
    "pool_empty",
    "pool_count",
    "pool_live",
    "capture_begin",
    "capture_end",
    "snapshot",
    "history",
    "checkpoint",
    "restore",
    "own",
];

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
        let mut words = text.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        let line = index + 1;
        let command = command(name, &mut Words { name, words }).map_err(|reason| BadLine { line, reason })?;
        ops.push(Op { line, text, command });
    }
    Ok(ops)
}

fn command(name: &str, words: &mut Words<'_>) -> Result<Command, String> {
    Ok(match name {
        "a" => Command::Allocate { id: words.integer("ID")?, bytes: words.bytes()?, stream: words.stream()? },
        "f" => Command::Free { id: words.integer("ID")? },
        "r" => Command::RecordStream { id: words.integer("ID")?, stream: words.stream()? },
        "s" => Command::CompleteStream { stream: words.stream()? },
        "S" => Command::CompleteAll,
        "e" => Command::EmptyCache,
        "m" => Command::MemoryFraction { fraction: words.fraction()? },
        "p" => Command::PrintStats,
        "cache_info" => Command::CacheInfo,
        "base" => Command::Base { id: words.integer("ID")? },
        "fraction" => Command::Fraction,
        "enable" => Command::Enable { caching: words.flag()? },
        "reset_peak" => Command::ResetPeak,
        "reset_accumulated" => Command::ResetAccumulated,
        _ if UNSERVED.contains(&name) => return Err(format!("the command {name:?} is not supported")),
        _ => return Err(format!("{name:?} is no command")),
    })
}

struct Words<'a> {
    name: &'a str,
    words: std::str::SplitAsciiWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.words.next().ok_or_else(|| format!("{:?} lacks its {what}", self.name))
    }

    fn integer(&mut self, what: &str) -> Result<i64, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("the {what} {word:?} is not a whole number"))
    }

    fn bytes(&mut self) -> Result<u64, String> {
        let word = self.next("SIZE")?;
        word.parse().map_err(|_| format!("the SIZE {word:?} is not a number of bytes"))
    }

    fn stream(&mut self) -> Result<usize, String> {
        let word = self.next("STREAM")?;
        // `DEVICE:NUMBER`, and there is one device.
        let number = word.strip_prefix("0:").unwrap_or(word);
        if number.contains(':') {
            return Err(format!("the STREAM {word:?} is on another device, and those are not supported"));
        }
        let number = number.parse().ok().filter(|n| *n < STREAMS);
        number.ok_or_else(|| format!("the STREAM {word:?} is not one of 0 to {}", STREAMS - 1))
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.next("0 or 1")? {
            "0" => Ok(false),
            "1" => Ok(true),
            word => Err(format!("{word:?} is not 0 or 1")),
        }
    }

    fn fraction(&mut self) -> Result<f64, String> {
        let word = self.next("FRACTION")?;
        let number = word.parse().ok().filter(|f: &f64| f.is_finite());
        number.ok_or_else(|| format!("the FRACTION {word:?} is not a number"))
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}
