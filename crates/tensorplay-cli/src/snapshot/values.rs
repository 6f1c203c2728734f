//! [`Values`]: the plain values of a file, in one flat table.
//!
//! Values are numbered, and containers hold numbers, so that a value which the file shares stays shared, and
//! dropping the table walks no structure. The rules that keep hostile files harmless:
//!
//! - V1: a container that has been placed in another never changes again. A list or dict can therefore not
//!   come to hold itself, and its depth is known when it is placed.
//! - V2: no container is deeper than [`Limits::depth`].
//! - V3: values, and the references to them, take at most [`Limits::memory_bytes`].

use std::borrow::Cow;

use super::limits::Limits;

/// The number of a value in [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ValueId(u32);

/// One plain value. Text and containers stand in tables beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer above `i64::MAX`.
    Uint(u64),
    /// An integer of more than 64 bits. Nothing in a snapshot that is read is one.
    HugeInt,
    Float(f64),
    Text(u32),
    /// A bytes object. Nothing in a snapshot that is read is one, so its content is not kept.
    Bytes,
    Sequence(u32),
    /// Keys and values in turn.
    Dict(u32),
}

impl Value {
    /// What to call it in an error.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Uint(_) | Self::HugeInt => "an integer",
            Self::Float(_) => "a floating-point number",
            Self::Text(_) => "a string",
            Self::Bytes => "a bytes object",
            Self::Sequence(_) => "a list",
            Self::Dict(_) => "a dict",
        }
    }
}

#[derive(Debug, Default)]
struct Container {
    children: Vec<ValueId>,
    depth: u32,
    placed: bool,
}

/// A container, with the least that the allocator gives to its list.
const CONTAINER_BYTES: usize = size_of::<Container>() + 4 * size_of::<ValueId>();

/// The table of values; text is borrowed from the input where it can be.
#[derive(Debug)]
pub(crate) struct Values<'a> {
    values: Vec<Value>,
    texts: Vec<Cow<'a, str>>,
    containers: Vec<Container>,
    charged: usize,
    limits: Limits,
}

impl<'a> Values<'a> {
    /// An empty table.
    pub(crate) fn new(limits: Limits) -> Self {
        // Ids are 32 bits wide, so that this many values can be told apart.
        let ids = (u32::MAX as usize).saturating_mul(size_of::<Value>());
        let limits = Limits { memory_bytes: limits.memory_bytes.min(ids), ..limits };
        Self { values: Vec::new(), texts: Vec::new(), containers: Vec::new(), charged: 0, limits }
    }

    /// Adds a value that is neither text nor a container.
    pub(crate) fn push(&mut self, value: Value) -> Result<ValueId, String> {
        self.charge(size_of::<Value>())?;
        let id = ValueId(self.values.len() as u32);
        self.values.push(value);
        Ok(id)
    }

    /// Adds an integer, in the narrowest form that holds it.
    pub(crate) fn push_int(&mut self, value: i128) -> Result<ValueId, String> {
        let value = i64::try_from(value)
            .map(Value::Int)
            .or_else(|_| u64::try_from(value).map(Value::Uint))
            .unwrap_or(Value::HugeInt);
        self.push(value)
    }

    /// Adds text.
    pub(crate) fn push_text(&mut self, text: Cow<'a, str>) -> Result<ValueId, String> {
        self.charge(size_of::<Cow<'_, str>>())?;
        let id = self.push(Value::Text(self.texts.len() as u32))?;
        self.texts.push(text);
        Ok(id)
    }

    /// Adds a list, tuple or set.
    pub(crate) fn push_sequence(&mut self, children: &[ValueId]) -> Result<ValueId, String> {
        self.charge(CONTAINER_BYTES)?;
        let id = self.push(Value::Sequence(self.containers.len() as u32))?;
        self.containers.push(Container::default());
        self.extend(id, children)?;
        Ok(id)
    }

    /// Adds a dict of keys and values in turn.
    pub(crate) fn push_dict(&mut self, children: &[ValueId]) -> Result<ValueId, String> {
        self.charge(CONTAINER_BYTES)?;
        let id = self.push(Value::Dict(self.containers.len() as u32))?;
        self.containers.push(Container::default());
        self.extend(id, children)?;
        Ok(id)
    }

    /// Appends to a container.
    pub(crate) fn extend(&mut self, target: ValueId, children: &[ValueId]) -> Result<(), String> {
        self.charge(size_of_val(children))?;
        let mut depth = 0;
        for &child in children {
            if let Some(child) = self.container_index(child) {
                self.containers[child].placed = true;
                depth = depth.max(self.containers[child].depth + 1);
            }
        }
        if depth > self.limits.depth {
            return Err(format!("containers are nested more than {} deep", self.limits.depth));
        }
        let index = self.container_index(target).ok_or("only a list or dict can be appended to")?;
        let container = &mut self.containers[index];
        // V1. The children were placed first, so that a container cannot be put into itself either.
        if container.placed {
            return Err(
                "a container that is part of another one is changed: the value would contain itself".into()
            );
        }
        container.depth = container.depth.max(depth);
        container.children.extend_from_slice(children);
        Ok(())
    }

    /// Counts `more` bytes of memory against the limit.
    pub(crate) fn charge(&mut self, more: usize) -> Result<(), String> {
        if more > self.limits.memory_bytes - self.charged {
            return Err(self.too_many());
        }
        self.charged += more;
        Ok(())
    }

    /// Refuses a stack of `count` references that has reached the limit by itself.
    pub(crate) fn check_count(&self, count: usize) -> Result<(), String> {
        if count < self.limits.memory_bytes / size_of::<ValueId>() { Ok(()) } else { Err(self.too_many()) }
    }

    /// The value of a number.
    pub(crate) fn value(&self, id: ValueId) -> Value {
        self.values[id.0 as usize]
    }

    /// The text of a value, if it is text.
    pub(crate) fn text(&self, id: ValueId) -> Option<&str> {
        match self.value(id) {
            Value::Text(index) => Some(&self.texts[index as usize]),
            _ => None,
        }
    }

    /// The items of a list, tuple or set.
    pub(crate) fn sequence(&self, id: ValueId) -> Option<&[ValueId]> {
        match self.value(id) {
            Value::Sequence(index) => Some(&self.containers[index as usize].children),
            _ => None,
        }
    }

    /// The entries of a dict. A key may stand there twice; the later one counts.
    pub(crate) fn dict(&self, id: ValueId) -> Option<impl Iterator<Item = (ValueId, ValueId)> + '_> {
        match self.value(id) {
            Value::Dict(index) => {
                Some(self.containers[index as usize].children.chunks_exact(2).map(|pair| (pair[0], pair[1])))
            }
            _ => None,
        }
    }

    fn too_many(&self) -> String {
        format!("its values need more than {} bytes of memory", self.limits.memory_bytes)
    }

    fn container_index(&self, id: ValueId) -> Option<usize> {
        match self.value(id) {
            Value::Sequence(index) | Value::Dict(index) => Some(index as usize),
            _ => None,
        }
    }
}
