//! [`FunctionSchema::bind`]: what a caller passes, by position and by name, as the arguments of a boxed call.

use c10_core::{Complex, Scalar};

use super::arg_type::ArgType;
use super::coerce::{coerce, of_number};
use super::key_set::DispatchKeySet;
use super::missing;
use super::operator::OperatorHandle;
use super::schema::{Argument, DefaultValue, FunctionSchema};
use super::value::{Stack, Value};
use crate::error::{Error, Result};

impl FunctionSchema {
    /// All arguments of a call in the schema's order: `positional` ones first, those of `keywords` by name,
    /// defaults where nothing is passed (`checkAndNormalizeInputs`). A number where a tensor is due becomes a
    /// wrapped number.
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
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for arguments that are too many,
    /// unknown, passed twice, missing or of another type.
    pub fn bind(&self, positional: Vec<Value>, mut keywords: Vec<(String, Value)>) -> Result<Stack> {
        let arguments = self.arguments();
        let name = self.name().name();
        let passed = positional.len() + keywords.len();
        if passed > arguments.len() {
            let most = arguments.len();
            return Err(self.refused(format!(
                "{name}() expected at most {most} argument(s) but received {passed} argument(s). Declaration: {self}"
            )));
        }
        let allowed = arguments.iter().filter(|argument| !argument.kwarg_only).count();
        if positional.len() > allowed {
            let given = positional.len();
            return Err(self.refused(format!(
                "{name}() takes {allowed} positional argument(s) but {given} was/were given. Declaration: {self}"
            )));
        }
        let mut positional = positional.into_iter();
        let mut stack = Stack::with_capacity(arguments.len());
        for (at, argument) in arguments.iter().enumerate() {
            let by_position = if argument.kwarg_only { None } else { positional.next() };
            let value = by_position.or_else(|| {
                let index = keywords.iter().position(|(name, _)| *name == argument.name)?;
                Some(keywords.remove(index).1)
            });
            stack.push(match (value, &argument.default) {
                (Some(value), _) => {
                    coerce(value, &argument.arg_type).map_err(|value| self.wrong_type(at, &value))?
                }
                (None, Some(default)) => default_of(argument, default),
                (None, None) => {
                    let missing = &argument.name;
                    return Err(self.refused(format!(
                        "{name}() is missing value for argument '{missing}'. Declaration: {self}"
                    )));
                }
            });
        }
        match keywords.first() {
            None => Ok(stack),
            Some((twice, _)) if self.argument_index(twice).is_some() => {
                Err(self
                    .refused(format!("{name}() is passed the argument '{twice}' twice. Declaration: {self}")))
            }
            Some((unknown, _)) => Err(self.refused(format!(
                "Unknown keyword argument '{unknown}' for operator '{name}'. Schema: {self}"
            ))),
        }
    }

    #[cold]
    fn wrong_type(&self, at: usize, value: &Value) -> Error {
        let argument = &self.arguments()[at];
        self.refused(format!(
            "{}() Expected a value of type '{}' for argument '{}' but instead found type '{}'.\nPosition: {at}\n\
             Value: {}\nDeclaration: {self}",
            self.name().name(),
            annotation(&argument.arg_type),
            argument.name,
            value.kind(),
            shown(value)
        ))
    }

    #[cold]
    fn refused(&self, message: String) -> Error {
        Error::invalid_argument(message).with_operator(self.name().to_string())
    }
}

impl OperatorHandle {
    /// Calls it with arguments by position and by name, and gives the results
    /// (`torch.ops.namespace.name.overload(…)`).
    ///
    /// # Errors
    /// As [`FunctionSchema::bind`] and [`call_boxed`](Self::call_boxed);
    /// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when it is not defined.
    pub fn call_with(self, positional: Vec<Value>, keywords: Vec<(String, Value)>) -> Result<Stack> {
        let Some(schema) = self.schema() else {
            return Err(missing::error(self, DispatchKeySet::EMPTY));
        };
        let mut stack = schema.bind(positional, keywords)?;
        self.call_boxed(&mut stack)?;
        Ok(stack)
    }
}

/// What stands for an argument that is not passed.
fn default_of(argument: &Argument, default: &DefaultValue) -> Value {
    let named = |number| of_number(number, argument.arg_type.unwrap_optional());
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

/// The type as annotations of Python write it.
fn annotation(arg_type: &ArgType) -> String {
    match arg_type {
        ArgType::Optional(inner) => format!("Optional[{}]", annotation(inner)),
        ArgType::List { element, .. } => format!("List[{}]", annotation(element)),
        ArgType::Tuple(parts) => {
            format!("Tuple[{}]", parts.iter().map(annotation).collect::<Vec<_>>().join(", "))
        }
        ArgType::Dict(key, value) => format!("Dict[{}, {}]", annotation(key), annotation(value)),
        ArgType::Scalar => "number".to_owned(),
        ArgType::SymInt => "int".to_owned(),
        other => other.to_string(),
    }
}

/// The value as a sentence can show it.
fn shown(value: &Value) -> String {
    /// Elements of a list that are shown.
    const SHOWN: usize = 8;
    match value {
        Value::None => "None".to_owned(),
        Value::Tensor(tensor) => format!("{}{:?}", tensor.dtype().name(), tensor.sizes()),
        Value::Scalar(Scalar::Bool(true)) => "True".to_owned(),
        Value::Scalar(Scalar::Bool(false)) => "False".to_owned(),
        Value::Scalar(Scalar::Int(value)) => value.to_string(),
        Value::Scalar(Scalar::UInt(value)) => value.to_string(),
        Value::Scalar(Scalar::Double(value)) => format!("{value:?}"),
        Value::Scalar(Scalar::Complex(value)) => format!("({:?}{:+?}j)", value.re, value.im),
        Value::Str(text) => format!("'{}'", text.escape_debug()),
        Value::ScalarType(dtype) => dtype.name().to_owned(),
        Value::Layout(layout) => layout.name().to_owned(),
        Value::MemoryFormat(format) => format.name().to_owned(),
        Value::Device(device) => device.to_string(),
        Value::Generator(_) => "a generator".to_owned(),
        Value::List(values) => {
            let more = if values.len() > SHOWN { ", …" } else { "" };
            format!("[{}{more}]", values.iter().take(SHOWN).map(shown).collect::<Vec<_>>().join(", "))
        }
    }
}
