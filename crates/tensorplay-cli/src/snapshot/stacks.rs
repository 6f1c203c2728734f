//! [`Stacks`]: where the program was, as a file's frames say it. Each text, frame and stack is kept once.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;

/// The number of a stack in [`Stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StackId(NonZeroU32);

impl StackId {
    /// Its place among all, from 0.
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// One line of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Line {
    filename: u32,
    name: u32,
    line: u32,
}

/// A frame, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) filename: &'a str,
    pub(crate) name: &'a str,
    /// 0 where the file does not say.
    pub(crate) line: u32,
}

/// The stacks of a file, the innermost frame first. Empty ones are none.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Stacks {
    texts: Table<String>,
    lines: Table<Line>,
    stacks: Table<Vec<u32>>,
}

/// Values, each once, by number.
#[derive(Clone, Debug)]
struct Table<T> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl Stacks {
    /// Takes a frame in.
    pub(super) fn add_frame(&mut self, frame: Frame<'_>) -> u32 {
        let filename = self.texts.number(frame.filename.to_owned());
        let name = self.texts.number(frame.name.to_owned());
        self.lines.number(Line { filename, name, line: frame.line })
    }

    /// Takes a stack of such frames in; `None` for one without any.
    pub(super) fn add(&mut self, frames: Vec<u32>) -> Option<StackId> {
        if frames.is_empty() {
            return None;
        }
        let number = self.stacks.number(frames);
        Some(StackId(NonZeroU32::MIN.saturating_add(number)))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.stacks.values.len()
    }

    /// The frames of one, the innermost first.
    pub(crate) fn frames(&self, id: StackId) -> impl ExactSizeIterator<Item = Frame<'_>> + Clone {
        self.stacks.values[id.index()].iter().map(|&line| {
            let line = self.lines.values[line as usize];
            let text = |number: u32| self.texts.values[number as usize].as_str();
            Frame { filename: text(line.filename), name: text(line.name), line: line.line }
        })
    }

    /// All of them, in order of their numbers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = StackId> {
        (0..self.len() as u32).map(|number| StackId(NonZeroU32::MIN.saturating_add(number)))
    }
}

impl fmt::Debug for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stacks", self.len())
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    /// The number of a value. Fewer than 2^32 fit into the memory that a file may take.
    fn number(&mut self, value: T) -> u32 {
        let next = self.values.len() as u32;
        let values = &mut self.values;
        *self.numbers.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            next
        })
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: PartialEq> PartialEq for Table<T> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}
