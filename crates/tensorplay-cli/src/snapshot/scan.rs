//! [`Scanner`]: bytes from front to back, with every length checked against what is left.

/// A position in the input.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// At the start of `input`.
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self { input, at: 0 }
    }

    /// Bytes consumed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Bytes that follow.
    pub(crate) fn left(&self) -> u64 {
        (self.input.len() - self.at) as u64
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], String> {
        let left = &self.input[self.at..];
        match usize::try_from(count).ok().and_then(|count| left.get(..count)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => Err(format!("{count} bytes are announced and {} are left", left.len())),
        }
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        match self.input[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err("the file ends in the middle of a value".into()),
        }
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> Result<u8, String> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next line, without its line feed.
    pub(crate) fn line(&mut self) -> Result<&'a [u8], String> {
        let left = &self.input[self.at..];
        let end = left.iter().position(|&byte| byte == b'\n').ok_or("a line has no end")?;
        self.at += end + 1;
        Ok(&left[..end])
    }
}
