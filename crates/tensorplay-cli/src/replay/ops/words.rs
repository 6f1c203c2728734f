//! [`Words`]: a command's words, each read as what is expected.

use std::str::FromStr;

use c10_core::DeviceIndex;

use super::{CaptureMode, PoolName, STREAMS, ScopeFilter, StreamName};

pub(super) struct Words<'a> {
    name: &'a str,
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The words of a text, which begins with the command's name.
    pub(super) fn new(text: &'a str) -> Result<Self, String> {
        let mut words = Words { name: "t", rest: text };
        words.name = words.next("COMMAND")?;
        Ok(words)
    }

    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    pub(super) fn next_if_any(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_ascii_start();
        let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    pub(super) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.next_if_any().ok_or_else(|| format!("{:?} lacks its {what}", self.name))
    }

    pub(super) fn integer<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("the {what} {word:?} is not a whole number"))
    }

    pub(super) fn bytes(&mut self) -> Result<u64, String> {
        let word = self.next("SIZE")?;
        word.parse().map_err(|_| format!("the SIZE {word:?} is not a number of bytes"))
    }

    pub(super) fn device(&mut self) -> Result<DeviceIndex, String> {
        self.integer("device")
    }

    pub(super) fn stream(&mut self) -> Result<StreamName, String> {
        let word = self.next("STREAM")?;
        stream_name(word)
    }

    pub(super) fn flag(&mut self) -> Result<bool, String> {
        match self.next("0 or 1")? {
            "0" => Ok(false),
            "1" => Ok(true),
            word => Err(format!("{word:?} is not 0 or 1")),
        }
    }

    pub(super) fn fraction(&mut self) -> Result<f64, String> {
        let word = self.next("FRACTION")?;
        let number = word.parse().ok().filter(|f: &f64| f.is_finite());
        number.ok_or_else(|| format!("the FRACTION {word:?} is not a number"))
    }

    pub(super) fn pool(&mut self) -> Result<PoolName, String> {
        let word = self.next("pool")?;
        word.parse()
    }

    /// The pool that is named, if one is.
    pub(super) fn pool_if_any(&mut self) -> Result<Option<PoolName>, String> {
        self.next_if_any().map(str::parse).transpose()
    }

    pub(super) fn filter(&mut self) -> Result<ScopeFilter, String> {
        Ok(match self.next("filter")? {
            "all" => ScopeFilter::All,
            "thread" => ScopeFilter::Thread,
            word => ScopeFilter::Stream(stream_name(word)?),
        })
    }

    pub(super) fn mode(&mut self) -> Result<CaptureMode, String> {
        Ok(match self.next_if_any() {
            None | Some("global") => CaptureMode::Global,
            Some("thread_local") => CaptureMode::ThreadLocal,
            Some("relaxed") => CaptureMode::Relaxed,
            Some(word) => return Err(format!("{word:?} is not global, thread_local or relaxed")),
        })
    }

    /// All words that are left.
    pub(super) fn all(&mut self) -> Vec<&'a str> {
        std::iter::from_fn(|| self.next_if_any()).collect()
    }
}

fn stream_name(word: &str) -> Result<StreamName, String> {
    let (device, number) = match word.split_once(':') {
        Some((device, number)) => (Some(device), number),
        None => (None, word),
    };
    let device = device.map(str::parse::<DeviceIndex>).transpose();
    let device = device.map_err(|_| format!("the device of the STREAM {word:?} is not a number"))?;
    let number = number.parse().ok().filter(|n| *n < STREAMS);
    let number = number.ok_or_else(|| format!("the STREAM {word:?} is not one of 0 to {}", STREAMS - 1))?;
    Ok(StreamName { device, number })
}

impl FromStr for PoolName {
    type Err = String;

    /// `Q` is (0, Q), and `P.Q` is (P, Q).
    fn from_str(word: &str) -> Result<Self, String> {
        let (first, second) = word.split_once('.').unwrap_or(("0", word));
        let bad = |_| format!("{word:?} is no pool, such as 3 or 3.0");
        Ok(PoolName { first: first.parse().map_err(bad)?, second: second.parse().map_err(bad)? })
    }
}
