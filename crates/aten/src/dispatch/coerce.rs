//! What a boxed argument of each type of the schema grammar may be, and what it becomes.

use c10_core::{Layout, MemoryFormat, Scalar, ScalarType};

use super::arg_type::ArgType;
use super::value::Value;
use crate::tensor::Tensor;

/// The value as one of the type: a number where a tensor is due as a wrapped number, an integer where a float is
/// due as a float, one element for a list of fixed size as so many, a number of an element type, layout or memory
/// format as that. What cannot be one is given back.
pub(super) fn coerce(value: Value, arg_type: &ArgType) -> Result<Value, Value> {
    match (arg_type, value) {
        (ArgType::Any | ArgType::Var(_), value) => Ok(value),
        (ArgType::Optional(_) | ArgType::NoneType, Value::None) => Ok(Value::None),
        (ArgType::Optional(inner), value) => coerce(value, inner),
        (ArgType::List { element, .. }, Value::List(values)) => coerce_list(values, element),
        (ArgType::List { element, size: Some(size) }, value @ Value::Scalar(_)) => {
            let one = coerce(value, element)?;
            Ok(Value::List(vec![one; *size as usize]))
        }
        (ArgType::Tuple(types), Value::List(values)) if types.len() == values.len() => {
            let parts = values.iter().zip(types).map(|(value, arg_type)| coerce(value.clone(), arg_type));
            parts.collect::<Result<_, _>>().map(Value::List).map_err(|_| Value::List(values))
        }
        (ArgType::Tensor, Value::Scalar(number)) => {
            Tensor::wrapped_number(number).map(Value::Tensor).map_err(|_| Value::Scalar(number))
        }
        (ArgType::Float, Value::Scalar(number)) => match number.to::<f64>() {
            Ok(float) if !number.is_complex() => Ok(Value::from(float)),
            _ => Err(Value::Scalar(number)),
        },
        (
            ArgType::ScalarType | ArgType::Layout | ArgType::MemoryFormat,
            Value::Scalar(Scalar::Int(number)),
        ) => of_number(number, arg_type).ok_or(Value::Scalar(Scalar::Int(number))),
        (ArgType::Device, Value::Str(text)) => match text.parse() {
            Ok(device) => Ok(Value::Device(device)),
            Err(_) => Err(Value::Str(text)),
        },
        (arg_type, value) if is_of(&value, arg_type) => Ok(value),
        (_, value) => Err(value),
    }
}

fn coerce_list(values: Vec<Value>, element: &ArgType) -> Result<Value, Value> {
    let coerced: Result<_, _> = values.iter().map(|value| coerce(value.clone(), element)).collect();
    coerced.map(Value::List).map_err(|_| Value::List(values))
}

fn is_of(value: &Value, arg_type: &ArgType) -> bool {
    match value {
        Value::Tensor(tensor) => match arg_type {
            ArgType::Tensor => true,
            ArgType::Scalar => tensor.rank() == 0,
            _ => false,
        },
        Value::Scalar(number) => match arg_type {
            ArgType::Scalar | ArgType::Complex => true,
            ArgType::Int | ArgType::SymInt => {
                matches!(number, Scalar::Bool(_) | Scalar::Int(_) | Scalar::UInt(_))
            }
            ArgType::Bool | ArgType::SymBool => matches!(number, Scalar::Bool(_) | Scalar::Int(_)),
            _ => false,
        },
        Value::Str(_) => *arg_type == ArgType::Str,
        // `int? dtype`: in schemas of old a dtype is its number.
        Value::ScalarType(_) => matches!(arg_type, ArgType::ScalarType | ArgType::Int),
        Value::Layout(_) => *arg_type == ArgType::Layout,
        Value::MemoryFormat(_) => *arg_type == ArgType::MemoryFormat,
        Value::Device(_) => *arg_type == ArgType::Device,
        Value::Generator(_) => *arg_type == ArgType::Generator,
        Value::None | Value::List(_) => false,
    }
}

/// What a number stands for where the type is an enumeration.
pub(super) fn of_number(number: i64, arg_type: &ArgType) -> Option<Value> {
    let number = i8::try_from(number).ok()?;
    match arg_type {
        ArgType::ScalarType => ScalarType::from_number(number).map(Value::ScalarType),
        ArgType::Layout => Layout::from_number(number).map(Value::Layout),
        ArgType::MemoryFormat => MemoryFormat::from_number(number).map(Value::MemoryFormat),
        _ => None,
    }
}
