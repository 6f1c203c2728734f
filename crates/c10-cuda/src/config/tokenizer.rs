//! Tokens of a configuration text: the marks `,` `:` `[` `]`, and what stands between them without spaces.

use crate::error::{Error, ErrorKind, Result};

pub(super) struct Tokens<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// `text` has no white space any more.
    pub(super) fn new(text: &'a str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = match rest.find([',', ':', '[', ']']) {
                Some(0) => first.len_utf8(),
                Some(mark) => mark,
                None => rest.len(),
            };
            tokens.push(&rest[..end]);
            rest = &rest[end..];
        }
        Self { tokens, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    /// Takes the next token if it is `mark`.
    pub(super) fn accept(&mut self, mark: &str) -> bool {
        let found = self.peek() == Some(mark);
        self.at += usize::from(found);
        found
    }

    /// Takes `mark`, which must come next.
    pub(super) fn expect(&mut self, mark: &str, after: &str) -> Result<()> {
        match self.next() {
            Some(token) if token == mark => Ok(()),
            Some(token) => Err(fail(format!("expected '{mark}' after '{after}', found '{token}'"))),
            None => Err(fail(format!("expected '{mark}' after '{after}', found the end of the text"))),
        }
    }

    /// Takes a value for `key`: anything but a mark.
    pub(super) fn value(&mut self, key: &str) -> Result<&'a str> {
        match self.next() {
            Some(token) if !matches!(token, "," | ":" | "[" | "]") => Ok(token),
            Some(token) => Err(fail(format!("'{key}' has no value, but a '{token}'"))),
            None => Err(fail(format!("'{key}' has no value"))),
        }
    }
}

pub(super) fn fail(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
}
