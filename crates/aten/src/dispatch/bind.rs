//! [`FunctionSchema::bind`]: what a caller passes, by position and by name, as the arguments of a boxed call.

use c10_core::{Complex, Layout, MemoryFormat, Scalar, ScalarType};

use super::arg_type::ArgType;
use super::schema::{Argument, DefaultValue, FunctionSchema};
use super::value::{Stack, Value};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

impl FunctionSchema {
    /// All arguments of a call in the schema's order: `positional` ones first, those of `keywords` by name, defaults
    /// where nothing is passed (`checkAndNormalizeInputs`). A number where a tensor is due becomes a wrapped number.
    ///
    /// ```
    /// use aten::dispatch::{Dispatcher, Value};
    ///
    /// let add = Dispatcher::global().find("aten::add.Tensor").expect("it is defined");
    /// let ones = aten::Tensor::from_elements(&[1.0_f32, 1.0])?;
    /// let schema = add.schema().expect("it is defined");
    /// let mut stack = schema.bind(vec![ones.into(), Value::from(2.5)], vec![("alpha".to_owned(), Value::from(2_i64))])?;
    /// add.call_boxed(&mut stack)?;
    /// # Ok::<(), aten::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for arguments that are too many, unknown,
    /// passed twice or missing.
    pub fn bind(&self, positional: Vec<Value>, keywords: Vec<(String, Value)>) -> Result<Stack> {
        let arguments = self.arguments();
        let allowed = arguments.iter().filter(|argument| !argument.kwarg_only).count();
        if positional.len() > allowed {
            return Err(self.refused(&format!(
                "takes {allowed} arguments by position, and {} are passed",
                positional.len()
            )));
        }
        let mut bound: Vec<Option<Value>> = positional.into_iter().map(Some).collect();
        bound.resize_with(arguments.len(), || None);
        for (name, value) in keywords {
            let Some(at) = self.argument_index(&name) else {
                return Err(self.refused(&format!("has no argument '{name}'")));
            };
            if bound[at].replace(value).is_some() {
                return Err(self.refused(&format!("is passed '{name}' twice")));
            }
        }
        let pairs = bound.into_iter().zip(arguments);
        pairs
            .map(|(value, argument)| match (value, &argument.default) {
                (Some(value), _) => with_wrapped_numbers(value, &argument.arg_type),
                (None, Some(default)) => Ok(default_of(argument, default)),
                (None, None) => Err(self.refused(&format!("is not passed '{}'", argument.name))),
            })
            .collect()
    }

    #[cold]
    fn refused(&self, what: &str) -> Error {
        Error::invalid_argument(format!("it {what}: {self}")).with_operator(self.name().to_string())
    }
}

/// What stands for an argument that is not passed.
fn default_of(argument: &Argument, default: &DefaultValue) -> Value {
    let named = |number: i64| {
        let number = i8::try_from(number).ok()?;
        match argument.arg_type.unwrap_optional() {
            ArgType::ScalarType => ScalarType::from_number(number).map(Value::ScalarType),
            ArgType::Layout => Layout::from_number(number).map(Value::Layout),
            ArgType::MemoryFormat => MemoryFormat::from_number(number).map(Value::MemoryFormat),
            _ => None,
        }
    };
    match default {
        DefaultValue::None => Value::None,
        DefaultValue::Bool(value) => Value::from(*value),
        DefaultValue::Int(value) => named(*value).unwrap_or_else(|| Value::from(*value)),
        DefaultValue::Float(value) => Value::from(*value),
        DefaultValue::Complex(re, im) => Value::Scalar(Scalar::Complex(Complex::new(*re, *im))),
        DefaultValue::Str(value) => Value::Str(value.clone()),
        DefaultValue::Device(device) => Value::Device(*device),
        DefaultValue::List(values) => {
            Value::List(values.iter().map(|value| default_of(argument, value)).collect())
        }
    }
}

/// The value, with a tensor in the place of each number that stands where the type has one.
fn with_wrapped_numbers(value: Value, arg_type: &ArgType) -> Result<Value> {
    match (value, arg_type.unwrap_optional()) {
        (Value::Scalar(number), ArgType::Tensor) => wrapped_number(number).map(Value::Tensor),
        (Value::List(values), ArgType::List { element, .. }) if element.holds_tensors() => {
            let wrapped = values.into_iter().map(|value| with_wrapped_numbers(value, element));
            wrapped.collect::<Result<_>>().map(Value::List)
        }
        (value, _) => Ok(value),
    }
}

/// A tensor of a number, of the widest type of its kind, that gives way to others in type promotion
/// (`wrapped_scalar_tensor`).
fn wrapped_number(number: Scalar) -> Result<Tensor> {
    let tensor = match number {
        Scalar::Bool(value) => Tensor::from_slice(&[value], &[]),
        Scalar::Int(value) => Tensor::from_slice(&[value], &[]),
        Scalar::UInt(value) => Tensor::from_slice(&[value], &[]),
        Scalar::Double(value) => Tensor::from_slice(&[value], &[]),
        Scalar::Complex(value) => Tensor::from_slice(&[value], &[]),
    };
    tensor?.into_wrapped_number()
}
