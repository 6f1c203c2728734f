//! The words of a schema.
//!
//! Tokens are those of PyTorch's script lexer, as far as a schema can hold them: the words of Python's grammar
//! are no names, a number has no sign, `#` begins a comment. White space, also at line ends, only separates.
//!
//! Differs from PyTorch: no hexadecimal numbers (it reads `0x10` as 0), no rules of indentation.

use std::fmt;

use crate::error::{Error, ErrorKind};

/// Words that are no names.
const KEYWORDS: [&str; 27] = [
    "False", "None", "NoneType", "True", "and", "as", "assert", "break", "class", "continue", "def", "del",
    "elif", "else", "for", "global", "if", "import", "in", "is", "not", "or", "pass", "raise", "return",
    "while", "with",
];

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ident,
    Keyword,
    Number,
    StringLiteral,
    Arrow,
    Dots,
    Char(char),
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    start: usize,
}

impl Token<'_> {
    /// Is this keyword.
    pub(super) fn is_keyword(&self, word: &str) -> bool {
        self.kind == Kind::Keyword && self.text == word
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ident => "ident",
            Self::Keyword => "keyword",
            Self::Number => "number",
            Self::StringLiteral => "string_literal",
            Self::Arrow => "arrow",
            Self::Dots => "dots",
            Self::End => "eof",
            Self::Char(c) => return write!(f, "{}", c.escape_debug()),
        })
    }
}

/// Reads a text token by token, one ahead.
pub(super) struct Lexer<'a> {
    source: &'a str,
    current: Token<'a>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Result<Self, Error> {
        let current = Token { kind: Kind::End, text: "", start: 0 };
        let mut lexer = Self { source, current };
        lexer.current = lexer.read(0)?;
        Ok(lexer)
    }

    /// The token that comes next.
    pub(super) fn current(&self) -> Token<'a> {
        self.current
    }

    /// The token after it.
    pub(super) fn peek(&self) -> Result<Token<'a>, Error> {
        self.read(self.current.start + self.current.text.len())
    }

    /// Takes the token that comes next.
    pub(super) fn next(&mut self) -> Result<Token<'a>, Error> {
        let token = self.current;
        self.current = self.read(token.start + token.text.len())?;
        Ok(token)
    }

    /// Takes the next token if it is of this kind.
    pub(super) fn next_if(&mut self, kind: Kind) -> Result<bool, Error> {
        if self.current.kind != kind {
            return Ok(false);
        }
        self.next().map(|_| true)
    }

    /// Takes the next token, which must be of this kind.
    pub(super) fn expect(&mut self, kind: Kind) -> Result<Token<'a>, Error> {
        if self.current.kind == kind { self.next() } else { Err(self.expected(&kind)) }
    }

    /// That something else was expected here.
    #[cold]
    pub(super) fn expected(&self, what: &dyn fmt::Display) -> Error {
        let found = match self.current.kind {
            Kind::Keyword => self.current.text.to_owned(),
            kind => kind.to_string(),
        };
        self.error_at(self.current, &format!("expected {what} but found '{found}' here"))
    }

    /// That a token cannot stand where it does: the sentence, the line, and a mark under the token.
    #[cold]
    pub(super) fn error_at(&self, token: Token<'_>, message: &str) -> Error {
        /// Of a longer line only so much around the place is shown.
        const SHOWN_CHARS: usize = 160;
        let line_start = self.source[..token.start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.source[line_start..].lines().next().unwrap_or("");
        let column = self.source[line_start..token.start].chars().count();
        let skipped = column.saturating_sub(SHOWN_CHARS);
        let shown: String = line.chars().skip(skipped).take(2 * SHOWN_CHARS).collect();
        let shown = shown.replace(|c: char| c.is_control(), " ");
        let mark = "~".repeat(token.text.chars().count().clamp(1, SHOWN_CHARS));
        let indent = " ".repeat(column - skipped);
        Error::new(ErrorKind::Parse, format!("{message}:\n{shown}\n{indent}{mark} <--- HERE\n"))
    }

    /// The token that begins at `from`, after white space and comments.
    fn read(&self, mut from: usize) -> Result<Token<'a>, Error> {
        loop {
            let rest = &self.source[from..];
            let trimmed = rest.trim_start();
            from += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                break;
            }
            from += trimmed.find('\n').unwrap_or(trimmed.len());
        }
        let rest = &self.source[from..];
        let token = |kind, len: usize| Token { kind, text: &rest[..len], start: from };
        let Some(first) = rest.chars().next() else { return Ok(token(Kind::End, 0)) };
        match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let kind = if KEYWORDS.contains(&&rest[..len]) { Kind::Keyword } else { Kind::Ident };
                Ok(token(kind, len))
            }
            '"' | '\'' => match string_len(rest, first) {
                Some(len) => Ok(token(Kind::StringLiteral, len)),
                None => {
                    Err(self.error_at(token(Kind::End, 1), "expected a string that ends in its line here"))
                }
            },
            _ if rest.starts_with("->") => Ok(token(Kind::Arrow, 2)),
            _ if rest.starts_with("...") => Ok(token(Kind::Dots, 3)),
            _ => match number_len(rest.as_bytes()) {
                Some(len) => Ok(token(Kind::Number, len)),
                None if first.is_ascii_punctuation() => Ok(token(Kind::Char(first), 1)),
                None => {
                    let invalid = token(Kind::End, first.len_utf8());
                    let shown = first.escape_debug();
                    Err(self.error_at(invalid, &format!("expected a valid token but found '{shown}' here")))
                }
            },
        }
    }
}

/// The length of the string literal that a text begins with; none when it does not end in its line.
fn string_len(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The length of the number that a text begins with: digits, a point, an exponent, and `j` for imaginary ones.
fn number_len(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| text[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut len = digits(0);
    let whole = len;
    if text.get(len) == Some(&b'.') {
        let fraction = digits(len + 1);
        if whole + fraction == 0 {
            return None;
        }
        len += 1 + fraction;
    }
    if len == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = if len + 1 + sign <= text.len() { digits(len + 1 + sign) } else { 0 };
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    Some(len + usize::from(text.get(len) == Some(&b'j')))
}
