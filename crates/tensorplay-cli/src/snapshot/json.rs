//! A snapshot as JSON: the same keys, arrays for tuples. `memory_viz` reads such files too.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::error::{Place, ReadError};
use super::limits::Limits;
use super::read::Wanted;
use super::values::{Value, ValueId, Values};

/// Keys whose values are most of a file. Only the first is ever needed.
const FRAMES: [&str; 2] = ["frames", "forward_frames"];

/// Reads the text into a table of values, with the value that it is.
///
/// # Errors
/// The line and column of what is not JSON, or beyond a limit.
pub(crate) fn parse(
    input: &[u8],
    limits: Limits,
    wanted: Wanted,
) -> Result<(Values<'_>, ValueId), ReadError> {
    let skipped = if wanted == Wanted::Stacks { &FRAMES[1..] } else { &FRAMES[..] };
    let mut build = Build { values: Values::new(limits), keys: HashMap::new(), skipped };
    let mut deserializer = serde_json::Deserializer::from_slice(input);
    let root = ValueSeed(&mut build)
        .deserialize(&mut deserializer)
        .and_then(|root| deserializer.end().map(|()| root))
        .map_err(read_error)?;
    Ok((build.values, root))
}

fn read_error(error: serde_json::Error) -> ReadError {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    ReadError::new(Place::LineColumn(error.line(), error.column()), reason)
}

struct Build<'a> {
    values: Values<'a>,
    /// Keys already seen, so that a million events do not hold a million copies of each.
    keys: HashMap<String, ValueId>,
    /// Keys whose values are left out.
    skipped: &'static [&'static str],
}

impl Build<'_> {
    fn key(&mut self, key: &str) -> Result<ValueId, String> {
        const KEYS: usize = 256;
        if let Some(&id) = self.keys.get(key) {
            return Ok(id);
        }
        let id = self.values.push_text(Cow::Owned(key.to_owned()))?;
        if self.keys.len() < KEYS {
            self.keys.insert(key.to_owned(), id);
        }
        Ok(id)
    }
}

struct ValueSeed<'b, 'a>(&'b mut Build<'a>);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, 'de> {
    type Value = ValueId;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ValueId, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, 'de> {
    type Value = ValueId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a snapshot")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<ValueId, E> {
        self.0.values.push(Value::None).map_err(E::custom)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<ValueId, E> {
        self.0.values.push(Value::Bool(value)).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<ValueId, E> {
        self.0.values.push_int(value.into()).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<ValueId, E> {
        self.0.values.push_int(value.into()).map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<ValueId, E> {
        self.0.values.push(Value::Float(value)).map_err(E::custom)
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<ValueId, E> {
        self.0.values.push_text(Cow::Borrowed(text)).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ValueId, E> {
        self.0.values.push_text(Cow::Owned(text.to_owned())).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<ValueId, A::Error> {
        let mut children = Vec::new();
        while let Some(child) = access.next_element_seed(ValueSeed(self.0))? {
            children.push(child);
        }
        self.0.values.push_sequence(&children).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<ValueId, A::Error> {
        let mut children = Vec::new();
        while let Some(key) = access.next_key::<Cow<'_, str>>()? {
            if self.0.skipped.contains(&key.as_ref()) {
                access.next_value::<IgnoredAny>()?;
                continue;
            }
            children.push(self.0.key(&key).map_err(A::Error::custom)?);
            children.push(access.next_value_seed(ValueSeed(self.0))?);
        }
        self.0.values.push_dict(&children).map_err(A::Error::custom)
    }
}
