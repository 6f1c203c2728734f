//! [`CaseValue`]: an argument or a result of a recorded call.
//!
//! Numbers keep their kind: `3` is an integer and `3.0` a float, because operators tell them apart.

use c10_core::{Device, Layout, MemoryFormat, ScalarType};
use serde_json::Value as Json;

use super::elements::{float_from_json, non_finite, non_finite_name, write_float};
use super::tensor_value::TensorValue;

/// A value of a case.
#[derive(Clone, Debug)]
pub(super) enum CaseValue {
    Null,
    Bool(bool),
    /// Within `i64`, or within `u64`.
    Int(i128),
    Float(f64),
    Complex(f64, f64),
    Text(String),
    Type(ScalarType),
    MemoryFormat(MemoryFormat),
    Layout(Layout),
    Device(Device),
    List(Vec<Self>),
    Tensor(TensorValue),
    /// The very tensor that was passed as the argument of this path.
    Ref(String),
}

impl CaseValue {
    /// Reads a value.
    ///
    /// # Errors
    /// It is none of those that cases have.
    pub(super) fn from_json(json: &Json) -> Result<Self, String> {
        match json {
            Json::Null => Ok(Self::Null),
            Json::Bool(value) => Ok(Self::Bool(*value)),
            Json::Number(number) => {
                let int = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
                let float = || number.as_f64().map(Self::Float);
                int.map(Self::Int).or_else(float).ok_or_else(|| format!("{number} is no number of 64 bits"))
            }
            Json::String(text) => Ok(Self::Text(text.clone())),
            Json::Array(items) => Self::list_from_json(items).map(Self::List),
            Json::Object(fields) => {
                let mut fields = fields.iter();
                match (fields.next(), fields.next()) {
                    (Some((key, value)), None) => Self::from_tagged(key, value),
                    _ => Err("an object that stands for a value has one key".into()),
                }
            }
        }
    }

    /// Reads several values.
    ///
    /// # Errors
    /// One of them is none; its index stands before the reason.
    pub(super) fn list_from_json(items: &[Json]) -> Result<Vec<Self>, String> {
        let read = |(index, item)| Self::from_json(item).map_err(|reason| format!("{index}: {reason}"));
        items.iter().enumerate().map(read).collect()
    }

    fn from_tagged(key: &str, value: &Json) -> Result<Self, String> {
        if key == "t" {
            return TensorValue::from_json(value).map(Self::Tensor);
        }
        if key == "c" {
            return match value.as_array().map(Vec::as_slice) {
                Some([re, im]) => float_from_json(re).zip(float_from_json(im)),
                _ => None,
            }
            .map(|(re, im)| Self::Complex(re, im))
            .ok_or_else(|| "a complex number is two numbers".into());
        }
        let name = value.as_str().ok_or_else(|| format!("what stands under `{key}` is a name"))?;
        let text = |error: c10_core::Error| error.to_string();
        match key {
            "f" => non_finite(name).map(Self::Float).ok_or_else(|| format!("{name:?} is no float")),
            "dtype" => name.parse().map(Self::Type).map_err(|error: c10_core::Error| error.to_string()),
            "memory_format" => name.parse().map(Self::MemoryFormat).map_err(text),
            "layout" => name.parse().map(Self::Layout).map_err(text),
            "device" => name.parse().map(Self::Device).map_err(text),
            "ref" => Ok(Self::Ref(name.to_owned())),
            _ => Err(format!("`{key}` is no kind of value")),
        }
    }

    /// What is at a path of places in lists.
    pub(super) fn item(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |value, place| match value {
            Self::List(items) => items.get(place.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Writes the value as JSON.
    pub(super) fn write_to(&self, text: &mut String) {
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Int(value) => text.push_str(&value.to_string()),
            Self::Float(value) if value.is_finite() => write_float(*value, text),
            Self::Float(value) => write_tagged("f", non_finite_name(*value).unwrap_or_default(), text),
            Self::Complex(re, im) => {
                text.push_str(r#"{"c":["#);
                write_float(*re, text);
                text.push(',');
                write_float(*im, text);
                text.push_str("]}");
            }
            Self::Text(value) => write_string(value, text),
            Self::Type(dtype) => write_tagged("dtype", &dtype.to_string(), text),
            Self::MemoryFormat(format) => {
                let name = format.name();
                write_tagged("memory_format", name.strip_suffix("_format").unwrap_or(name), text);
            }
            Self::Layout(layout) => write_tagged("layout", &layout.to_string(), text),
            Self::Device(device) => write_tagged("device", &device.to_string(), text),
            Self::List(items) => write_list(items, text),
            Self::Tensor(tensor) => tensor.write_to(text),
            Self::Ref(path) => write_tagged("ref", path, text),
        }
    }
}

/// Writes the values as a JSON array.
pub(super) fn write_list(items: &[CaseValue], text: &mut String) {
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        item.write_to(text);
    }
    text.push(']');
}

/// Writes the text as a JSON string.
pub(super) fn write_string(value: &str, text: &mut String) {
    text.push_str(&Json::from(value).to_string());
}

fn write_tagged(key: &str, name: &str, text: &mut String) {
    text.extend(["{\"", key, "\":"]);
    write_string(name, text);
    text.push('}');
}
