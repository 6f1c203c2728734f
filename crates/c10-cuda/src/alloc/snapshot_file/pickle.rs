//! [`Pickle`]: plain values in pickle's protocol 4, with the opcodes alone that PyTorch's viewer reads.
//!
//! Containers are written as they come: `begin_dict`, keys and values in turn, `end_dict`. Text that was written
//! before is fetched from the memo.

use std::collections::HashMap;
use std::io::{self, Write};

const PROTO: &[u8] = &[0x80, 4];
const STOP: u8 = b'.';
const MARK: u8 = b'(';
const EMPTY_DICT: u8 = b'}';
const SETITEMS: u8 = b'u';
const EMPTY_LIST: u8 = b']';
const APPENDS: u8 = b'e';
const TUPLE2: u8 = 0x86;
const NEWTRUE: u8 = 0x88;
const NEWFALSE: u8 = 0x89;
const BININT: u8 = b'J';
const BININT1: u8 = b'K';
const BININT2: u8 = b'M';
const LONG1: u8 = 0x8a;
const BINFLOAT: u8 = b'G';
const SHORT_BINUNICODE: u8 = 0x8c;
const BINUNICODE: u8 = b'X';
const MEMOIZE: u8 = 0x94;
const BINGET: u8 = b'h';
const LONG_BINGET: u8 = b'j';

/// So many items are appended at once, as Python does: a reader's stack need not hold a whole history.
const BATCH: usize = 1000;

/// A value that can be fetched again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memo(u32);

/// Writes one value.
pub(super) struct Pickle<W> {
    out: W,
    texts: HashMap<String, Memo>,
    memoized: u32,
    /// Items since the last mark of each open list.
    lists: Vec<usize>,
}

impl<W: Write> Pickle<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(PROTO)?;
        Ok(Self { out, texts: HashMap::new(), memoized: 0, lists: Vec::new() })
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&[STOP])?;
        self.out.flush()
    }

    pub(super) fn begin_dict(&mut self) -> io::Result<()> {
        self.out.write_all(&[EMPTY_DICT, MARK])
    }

    pub(super) fn end_dict(&mut self) -> io::Result<()> {
        self.out.write_all(&[SETITEMS])
    }

    /// Begins a list, each item of which is announced by [`item`](Self::item).
    pub(super) fn begin_list(&mut self) -> io::Result<()> {
        self.lists.push(0);
        self.out.write_all(&[EMPTY_LIST, MARK])
    }

    /// Says that an item of the innermost open list follows.
    pub(super) fn item(&mut self) -> io::Result<()> {
        let items = self.lists.last_mut().expect("a list is open");
        if *items == BATCH {
            *items = 0;
            self.out.write_all(&[APPENDS, MARK])?;
        }
        *items += 1;
        Ok(())
    }

    pub(super) fn end_list(&mut self) -> io::Result<()> {
        self.lists.pop();
        self.out.write_all(&[APPENDS])
    }

    pub(super) fn empty_list(&mut self) -> io::Result<()> {
        self.out.write_all(&[EMPTY_LIST])
    }

    /// Keeps what was written last to be fetched again.
    pub(super) fn memoize(&mut self) -> io::Result<Memo> {
        self.memoized += 1;
        self.out.write_all(&[MEMOIZE])?;
        Ok(Memo(self.memoized - 1))
    }

    pub(super) fn get(&mut self, Memo(index): Memo) -> io::Result<()> {
        match u8::try_from(index) {
            Ok(index) => self.out.write_all(&[BINGET, index]),
            Err(_) => self.with_bytes(LONG_BINGET, &index.to_le_bytes()),
        }
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(&memo) = self.texts.get(text) {
            return self.get(memo);
        }
        match u8::try_from(text.len()) {
            Ok(length) => self.out.write_all(&[SHORT_BINUNICODE, length])?,
            Err(_) => {
                let length = u32::try_from(text.len())
                    .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a text of more than 4 GiB"))?;
                self.with_bytes(BINUNICODE, &length.to_le_bytes())?;
            }
        }
        self.out.write_all(text.as_bytes())?;
        let memo = self.memoize()?;
        self.texts.insert(text.to_owned(), memo);
        Ok(())
    }

    pub(super) fn bool(&mut self, value: bool) -> io::Result<()> {
        self.out.write_all(&[if value { NEWTRUE } else { NEWFALSE }])
    }

    pub(super) fn float(&mut self, value: f64) -> io::Result<()> {
        self.with_bytes(BINFLOAT, &value.to_be_bytes())
    }

    pub(super) fn int(&mut self, value: impl Into<i128>) -> io::Result<()> {
        let value = value.into();
        if let Ok(byte) = u8::try_from(value) {
            self.out.write_all(&[BININT1, byte])
        } else if let Ok(short) = u16::try_from(value) {
            self.with_bytes(BININT2, &short.to_le_bytes())
        } else if let Ok(int) = i32::try_from(value) {
            self.with_bytes(BININT, &int.to_le_bytes())
        } else {
            // The fewest bytes that leave the sign bit right.
            let bits = if value < 0 { (!value).ilog2() + 2 } else { value.ilog2() + 2 };
            let length = bits.div_ceil(8) as usize;
            self.out.write_all(&[LONG1, length as u8])?;
            self.out.write_all(&value.to_le_bytes()[..length])
        }
    }

    /// A tuple of two numbers.
    pub(super) fn pair(&mut self, first: u64, second: u64) -> io::Result<()> {
        self.int(first)?;
        self.int(second)?;
        self.out.write_all(&[TUPLE2])
    }

    fn with_bytes(&mut self, opcode: u8, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(&[opcode])?;
        self.out.write_all(bytes)
    }
}
