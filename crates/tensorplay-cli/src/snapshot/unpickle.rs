//! A restricted unpickler: plain values, and nothing else.
//!
//! Python's `pickle` is a program for a stack machine that may call any function. This one runs the part of it
//! that builds None, booleans, numbers, text, bytes, lists, tuples, dicts and sets, for protocols 0 to 5, and
//! refuses the rest by name and offset. It works on bytes alone; see [`Values`] for what bounds it.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;

use super::error::{Place, ReadError};
use super::limits::Limits;
use super::opcode as op;
use super::scan::Scanner;
use super::values::{Value, ValueId, Values};

/// Runs the pickle and gives its table of values, with the value that it returns.
///
/// # Errors
/// The byte of the opcode that is truncated, out of place, beyond a limit, or not for plain values.
pub(crate) fn unpickle(input: &[u8], limits: Limits) -> Result<(Values<'_>, ValueId), ReadError> {
    let mut values = Values::new(limits);
    let mut constant = |value| values.push(value).map_err(|reason| ReadError::new(Place::Byte(0), reason));
    let constants = Constants {
        none: constant(Value::None)?,
        yes: constant(Value::Bool(true))?,
        no: constant(Value::Bool(false))?,
    };
    let mut machine = Machine {
        scanner: Scanner::new(input),
        values,
        constants,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Memo::default(),
    };
    loop {
        let offset = machine.scanner.offset();
        match machine.step() {
            Ok(None) => {}
            Ok(Some(root)) => return Ok((machine.values, root)),
            Err(reason) => return Err(error_at(input, offset, &reason)),
        }
    }
}

/// An error at an opcode, which it names.
#[cold]
fn error_at(input: &[u8], offset: u64, reason: &str) -> ReadError {
    let opcode = usize::try_from(offset).ok().and_then(|offset| input.get(offset));
    let reason = match opcode.and_then(|&opcode| op::name(opcode)) {
        Some(name) if !reason.contains(name) => format!("{name}: {reason}"),
        _ => reason.to_owned(),
    };
    ReadError::new(Place::Byte(offset), reason)
}

/// The values that need not be made twice.
struct Constants {
    none: ValueId,
    yes: ValueId,
    no: ValueId,
}

struct Machine<'a> {
    scanner: Scanner<'a>,
    values: Values<'a>,
    constants: Constants,
    stack: Vec<ValueId>,
    /// Heights of the stack at the open marks.
    marks: Vec<usize>,
    memo: Memo,
}

impl<'a> Machine<'a> {
    /// Runs one opcode; the result, when it was the last.
    fn step(&mut self) -> Result<Option<ValueId>, String> {
        let opcode = self.scanner.byte().map_err(|_| "the pickle ends before its STOP")?;
        match opcode {
            op::STOP => return self.pop().map(Some),
            op::PROTO => self.protocol()?,
            op::FRAME => self.frame()?,
            op::MARK => self.mark()?,
            op::POP => self.discard()?,
            op::POP_MARK => {
                let from = self.pop_mark()?;
                self.stack.truncate(from);
            }
            op::DUP => {
                let top = self.top()?;
                self.push(top)?;
            }
            op::NONE => self.push(self.constants.none)?,
            op::NEWTRUE => self.push(self.constants.yes)?,
            op::NEWFALSE => self.push(self.constants.no)?,
            op::GET | op::BINGET | op::LONG_BINGET => {
                let index = self.memo_index(opcode)?;
                let id = self.memo.get(index).ok_or_else(|| format!("memo entry {index} was never put"))?;
                self.push(id)?;
            }
            op::PUT | op::BINPUT | op::LONG_BINPUT | op::MEMOIZE => {
                let index = self.memo_index(opcode)?;
                let top = self.top()?;
                self.values.charge(size_of::<ValueId>())?;
                self.memo.put(index, top);
            }
            _ if op::reaches_outside(opcode) => return Err(refused(opcode)),
            _ => self.step_value(opcode)?,
        }
        Ok(None)
    }

    fn step_value(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            op::INT | op::LONG | op::BININT | op::BININT1 | op::BININT2 | op::LONG1 | op::LONG4 => {
                self.int(opcode)
            }
            op::FLOAT => {
                let value = super::ascii::float(self.scanner.line()?)?;
                self.push_value(Value::Float(value))
            }
            op::BINFLOAT => {
                let value = f64::from_be_bytes(self.scanner.array()?);
                self.push_value(Value::Float(value))
            }
            op::STRING
            | op::BINSTRING
            | op::SHORT_BINSTRING
            | op::UNICODE
            | op::BINUNICODE
            | op::SHORT_BINUNICODE
            | op::BINUNICODE8 => self.text(opcode),
            op::BINBYTES | op::SHORT_BINBYTES | op::BINBYTES8 | op::BYTEARRAY8 => {
                let count = self.length(opcode)?;
                self.scanner.take(count)?;
                self.push_value(Value::Bytes)
            }
            _ => self.step_container(opcode),
        }
    }

    fn step_container(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            op::EMPTY_LIST | op::EMPTY_TUPLE | op::EMPTY_SET => {
                let id = self.values.push_sequence(&[])?;
                self.push(id)
            }
            op::EMPTY_DICT => {
                let id = self.values.push_dict(&[])?;
                self.push(id)
            }
            op::TUPLE1 => self.sequence_of(1),
            op::TUPLE2 => self.sequence_of(2),
            op::TUPLE3 => self.sequence_of(3),
            op::LIST | op::TUPLE | op::FROZENSET => {
                let from = self.pop_mark()?;
                self.sequence_of(self.stack.len() - from)
            }
            op::DICT => {
                let from = self.pop_mark()?;
                check_pairs(self.stack.len() - from)?;
                let id = self.values.push_dict(&self.stack[from..])?;
                self.stack.truncate(from);
                self.push(id)
            }
            op::APPEND => {
                let from = self.below_top(1)?;
                self.extend(from, false)
            }
            op::SETITEM => {
                let from = self.below_top(2)?;
                self.extend(from, true)
            }
            op::APPENDS | op::ADDITEMS => {
                let from = self.pop_mark()?;
                self.extend(from, false)
            }
            op::SETITEMS => {
                let from = self.pop_mark()?;
                self.extend(from, true)
            }
            _ => Err(refused(opcode)),
        }
    }

    fn protocol(&mut self) -> Result<(), String> {
        match self.scanner.byte()? {
            0..=5 => Ok(()),
            other => Err(format!("pickle protocol {other} is not one of 0 to 5")),
        }
    }

    /// Frames are a hint for readers of streams; only the announced length is checked.
    fn frame(&mut self) -> Result<(), String> {
        let announced = u64::from_le_bytes(self.scanner.array()?);
        let left = self.scanner.left();
        if announced > left {
            Err(format!("a frame of {announced} bytes, and {left} are left"))
        } else {
            Ok(())
        }
    }

    fn int(&mut self, opcode: u8) -> Result<(), String> {
        let value = match opcode {
            op::BININT => Some(i32::from_le_bytes(self.scanner.array()?).into()),
            op::BININT1 => Some(self.scanner.byte()?.into()),
            op::BININT2 => Some(u16::from_le_bytes(self.scanner.array()?).into()),
            op::LONG1 | op::LONG4 => {
                let count = self.length(opcode)?;
                two_complement(self.scanner.take(count)?)
            }
            op::INT => match self.scanner.line()? {
                b"00" => return self.push(self.constants.no),
                b"01" => return self.push(self.constants.yes),
                line => super::ascii::int(line)?,
            },
            _ => {
                let line = self.scanner.line()?;
                super::ascii::int(line.strip_suffix(b"L").unwrap_or(line))?
            }
        };
        let id = match value {
            Some(value) => self.values.push_int(value)?,
            None => self.values.push(Value::HugeInt)?,
        };
        self.push(id)
    }

    fn text(&mut self, opcode: u8) -> Result<(), String> {
        let text = match opcode {
            op::STRING => Cow::Owned(super::ascii::quoted(self.scanner.line()?)?),
            op::UNICODE => Cow::Owned(super::ascii::raw_unicode(self.scanner.line()?)?),
            _ => {
                let count = self.length(opcode)?;
                // File names may hold halves of surrogate pairs; they are only ever shown.
                String::from_utf8_lossy(self.scanner.take(count)?)
            }
        };
        let id = self.values.push_text(text)?;
        self.push(id)
    }

    /// The length that stands behind an opcode.
    fn length(&mut self, opcode: u8) -> Result<u64, String> {
        Ok(match opcode {
            op::LONG1 | op::SHORT_BINSTRING | op::SHORT_BINUNICODE | op::SHORT_BINBYTES => {
                self.scanner.byte()?.into()
            }
            op::BINUNICODE8 | op::BINBYTES8 | op::BYTEARRAY8 => u64::from_le_bytes(self.scanner.array()?),
            op::LONG4 | op::BINSTRING => {
                let length = i32::from_le_bytes(self.scanner.array()?);
                u64::try_from(length).map_err(|_| format!("a length of {length}"))?
            }
            _ => u32::from_le_bytes(self.scanner.array()?).into(),
        })
    }

    fn memo_index(&mut self, opcode: u8) -> Result<u32, String> {
        Ok(match opcode {
            op::BINGET | op::BINPUT => self.scanner.byte()?.into(),
            op::LONG_BINGET | op::LONG_BINPUT => u32::from_le_bytes(self.scanner.array()?),
            op::MEMOIZE => self.memo.len(),
            _ => super::ascii::int(self.scanner.line()?)?
                .and_then(|index| u32::try_from(index).ok())
                .ok_or("a memo index is not a 32-bit number")?,
        })
    }

    fn push_value(&mut self, value: Value) -> Result<(), String> {
        let id = self.values.push(value)?;
        self.push(id)
    }

    fn push(&mut self, id: ValueId) -> Result<(), String> {
        self.values.check_count(self.stack.len())?;
        self.stack.push(id);
        Ok(())
    }

    fn mark(&mut self) -> Result<(), String> {
        self.values.check_count(self.marks.len())?;
        self.marks.push(self.stack.len());
        Ok(())
    }

    /// The lowest stack index that the opcode may touch.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<ValueId, String> {
        self.below_top(1).map(|index| self.stack[index])
    }

    fn pop(&mut self) -> Result<ValueId, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// `POP` takes a mark when one is on top.
    fn discard(&mut self) -> Result<(), String> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(drop)
    }

    /// The stack index of the `count`-th value from the top.
    fn below_top(&self, count: usize) -> Result<usize, String> {
        match self.stack.len().checked_sub(count) {
            Some(index) if index >= self.floor() => Ok(index),
            _ => Err("the stack has too few values for it".into()),
        }
    }

    fn pop_mark(&mut self) -> Result<usize, String> {
        self.marks.pop().ok_or_else(|| "there is no mark on the stack for it".into())
    }

    fn sequence_of(&mut self, count: usize) -> Result<(), String> {
        let from = self.below_top(count)?;
        let id = self.values.push_sequence(&self.stack[from..])?;
        self.stack.truncate(from);
        self.push(id)
    }

    /// Appends everything from `from` on to the container below it.
    fn extend(&mut self, from: usize, pairs: bool) -> Result<(), String> {
        let target = match from.checked_sub(1) {
            Some(index) if index >= self.floor() => self.stack[index],
            _ => return Err("the stack has nothing to append to".into()),
        };
        match self.values.value(target) {
            Value::Dict(_) if pairs => check_pairs(self.stack.len() - from)?,
            Value::Sequence(_) if !pairs => {}
            other => return Err(format!("appends to {}", other.noun())),
        }
        self.values.extend(target, &self.stack[from..])?;
        self.stack.truncate(from);
        Ok(())
    }
}

/// The memo: dense, because writers number it from 0; entries far beyond the end stand apart, so that an index
/// costs no more memory than its own entry.
#[derive(Default)]
struct Memo {
    dense: Vec<ValueId>,
    sparse: HashMap<u32, ValueId>,
}

impl Memo {
    fn len(&self) -> u32 {
        (self.dense.len() + self.sparse.len()) as u32
    }

    fn get(&self, index: u32) -> Option<ValueId> {
        self.dense.get(index as usize).or_else(|| self.sparse.get(&index)).copied()
    }

    fn put(&mut self, index: u32, id: ValueId) {
        if let Some(entry) = self.dense.get_mut(index as usize) {
            *entry = id;
        } else if index as usize == self.dense.len() && !self.sparse.contains_key(&index) {
            self.dense.push(id);
        } else {
            self.sparse.insert(index, id);
        }
    }
}

/// Little-endian two's complement of any length; `None` beyond 128 bits.
fn two_complement(bytes: &[u8]) -> Option<i128> {
    let fill = if bytes.last().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
    let mut wide = [fill; 16];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(wide))
}

fn check_pairs(count: usize) -> Result<(), String> {
    if count.is_multiple_of(2) { Ok(()) } else { Err("a dict gets a key without a value".into()) }
}

fn refused(opcode: u8) -> String {
    match op::name(opcode) {
        Some(name) => {
            format!("the opcode {name} (0x{opcode:02x}) is refused: a snapshot holds plain values only")
        }
        None => format!("0x{opcode:02x} is not a pickle opcode"),
    }
}
