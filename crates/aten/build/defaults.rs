//! Default values of schemas, as expressions of Rust.

use super::schema::{Base, Type};

/// The dtypes that a schema names by number, in PyTorch's order.
const SCALAR_TYPES: [&str; 12] = [
    "UInt8",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Float16",
    "Float32",
    "Float64",
    "Complex32",
    "Complex64",
    "Complex128",
    "Bool",
];
const MEMORY_FORMATS: [&str; 4] = ["Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"];

/// The expression for a default of some type.
pub(crate) fn expression(ty: &Type, text: &str) -> Result<String, String> {
    if text == "None" {
        return if ty.optional {
            Ok("None".to_owned())
        } else {
            Err("None is no value of this type".to_owned())
        };
    }
    let value = match ty.list {
        Some(list) => list_expression(ty.base, list.length, text)?,
        None => element(ty.base, text)?,
    };
    Ok(if ty.optional { format!("Some({value})") } else { value })
}

/// The default as the documentation of a field has it.
pub(crate) fn shown(text: &str) -> String {
    match text {
        "True" => "true".to_owned(),
        "False" => "false".to_owned(),
        other => other.to_owned(),
    }
}

/// A list, or one element that stands for all of a list of known length.
fn list_expression(base: Base, length: Option<usize>, text: &str) -> Result<String, String> {
    let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        let length = length.ok_or_else(|| format!("`{text}` is not a list"))?;
        return Ok(format!("&[{}; {length}]", element(base, text)?));
    };
    let elements = inner.split(',').map(str::trim).filter(|element| !element.is_empty());
    let elements = elements.map(|text| element(base, text)).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("&[{}]", elements.join(", ")))
}

fn element(base: Base, text: &str) -> Result<String, String> {
    let fault = || format!("`{text}` is not a default of type {base:?}");
    let numbered = |names: &[&str], owner: &str| {
        let name =
            text.parse::<usize>().ok().and_then(|index| names.get(index).copied()).ok_or_else(fault)?;
        Ok(format!("{owner}::{name}"))
    };
    match base {
        Base::Int if text == "Mean" => Ok("1".to_owned()),
        Base::Int => text.parse::<i64>().map(|number| number.to_string()).map_err(|_| fault()),
        Base::Float => float(text).ok_or_else(fault),
        Base::Bool => match text {
            "True" | "true" => Ok("true".to_owned()),
            "False" | "false" => Ok("false".to_owned()),
            _ => Err(fault()),
        },
        Base::Scalar => match text.parse::<i64>() {
            Ok(number) => Ok(format!("Scalar::Int({number})")),
            Err(_) => float(text).map(|number| format!("Scalar::Double({number})")).ok_or_else(fault),
        },
        Base::Str => {
            let quoted = |mark| text.strip_prefix(mark).and_then(|rest: &str| rest.strip_suffix(mark));
            let inner = quoted('"').or_else(|| quoted('\'')).ok_or_else(fault)?;
            Ok(format!("{inner:?}"))
        }
        Base::ScalarType if text == "long" => Ok("ScalarType::Int64".to_owned()),
        Base::ScalarType => numbered(&SCALAR_TYPES, "ScalarType"),
        Base::MemoryFormat if text == "contiguous_format" => Ok("MemoryFormat::Contiguous".to_owned()),
        Base::MemoryFormat => numbered(&MEMORY_FORMATS, "MemoryFormat"),
        Base::Tensor | Base::Layout | Base::Device | Base::Generator => Err(fault()),
    }
}

fn float(text: &str) -> Option<String> {
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| format!("{number:?}"))
}
