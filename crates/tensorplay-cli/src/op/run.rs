//! [`call`]: a case's arguments made, its operator called, and what came of it written down.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aten::Tensor;
use aten::dispatch::{Argument, Dispatcher, FunctionSchema, OperatorHandle, Stack, Value};
use c10_core::{Complex, Device, Scalar};

use super::case::{Case, Expected};
use super::gradients::{self, Gradients};
use super::outcome::{Alias, Outcome};
use super::tensor_value::TensorValue;
use super::tensors::{logical_bytes, tensor_of, value_of};
use super::values::CaseValue;

/// Calls the operator of a case.
pub(super) fn call(case: &Case) -> Outcome {
    let Some(call) = Call::new(case, Device::CPU) else { return Outcome::Missing };
    let run = || match &case.expected {
        Expected::Gradients(gradients) => call.run_with_gradients(gradients),
        _ => call.run(),
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome,
        Err(panic) => Outcome::Faulty(format!("panicked: {}", message(&*panic))),
    }
}

/// A call with its arguments.
pub(super) struct Call<'a> {
    operator: OperatorHandle,
    schema: &'static FunctionSchema,
    device: Device,
    positional: Vec<Value>,
    keywords: Vec<(String, Value)>,
    tensors: Vec<Passed<'a>>,
}

/// A tensor among the arguments.
struct Passed<'a> {
    path: String,
    tensor: Tensor,
    /// What it was made of.
    recorded: &'a TensorValue,
    /// Whether the schema says that it is written.
    is_written: bool,
}

impl<'a> Call<'a> {
    /// The case's call, with its tensors on a device. `None` when there is no such operator here, or no
    /// argument such as the case has.
    pub(super) fn new(case: &'a Case, device: Device) -> Option<Self> {
        let operator = Dispatcher::global().find(&case.op)?;
        let schema = operator.schema()?;
        let (positional, keywords) = (Vec::new(), Vec::new());
        let mut call = Self { operator, schema, device, positional, keywords, tensors: Vec::new() };
        for (index, value) in case.args.iter().enumerate() {
            let is_written = schema.arguments().get(index).is_some_and(Argument::is_write);
            let value = call.value(value, index.to_string(), is_written)?;
            call.positional.push(value);
        }
        for (name, value) in &case.kwargs {
            let argument = schema.argument_index(name).map(|index| &schema.arguments()[index]);
            let value = call.value(value, name.clone(), argument.is_some_and(Argument::is_write))?;
            call.keywords.push((name.clone(), value));
        }
        Some(call)
    }

    /// The value to pass; its tensors are noted under the path.
    fn value(&mut self, value: &'a CaseValue, path: String, is_written: bool) -> Option<Value> {
        Some(match value {
            CaseValue::Null => Value::None,
            CaseValue::Bool(value) => Value::from(*value),
            CaseValue::Int(value) => Value::Scalar(match i64::try_from(*value) {
                Ok(value) => Scalar::Int(value),
                Err(_) => Scalar::UInt(u64::try_from(*value).ok()?),
            }),
            CaseValue::Float(value) => Value::from(*value),
            CaseValue::Complex(re, im) => Value::Scalar(Scalar::Complex(Complex::new(*re, *im))),
            CaseValue::Text(text) => Value::Str(text.clone()),
            CaseValue::Type(dtype) => Value::ScalarType(*dtype),
            CaseValue::Ref(_) => return None,
            CaseValue::MemoryFormat(format) => Value::MemoryFormat(*format),
            CaseValue::Layout(layout) => Value::Layout(*layout),
            CaseValue::Device(_) => Value::Device(self.device),
            CaseValue::List(items) => {
                let item = |(index, item)| self.value(item, format!("{path}.{index}"), is_written);
                Value::List(items.iter().enumerate().map(item).collect::<Option<_>>()?)
            }
            CaseValue::Tensor(recorded) => {
                let tensor = tensor_of(recorded, self.device)?;
                self.tensors.push(Passed { path, tensor: tensor.clone(), recorded, is_written });
                Value::Tensor(tensor)
            }
        })
    }

    /// What the operator gives.
    ///
    /// # Errors
    /// What it refuses.
    pub(super) fn results(&self) -> aten::Result<Stack> {
        let mut stack = self.schema.bind(self.positional.clone(), self.keywords.clone())?;
        self.operator.call_boxed(&mut stack)?;
        Ok(stack)
    }

    /// The tensor that is passed as the argument of a path.
    pub(super) fn tensor(&self, path: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|passed| passed.path == path).map(|passed| &passed.tensor)
    }

    fn run(self) -> Outcome {
        match self.results() {
            Ok(results) => Results { tensors: self.tensors, alias: Vec::new() }.outcome(&results, None),
            Err(error) => refused(&error, &self.tensors),
        }
    }

    fn run_with_gradients(self, recorded: &Gradients) -> Outcome {
        let leaves: Vec<Tensor> =
            recorded.leaves.iter().filter_map(|path| self.tensor(path)).cloned().collect();
        let made = leaves.iter().try_for_each(gradients::make_leaf);
        let results = match made.and_then(|()| self.results()) {
            Ok(results) => results,
            Err(error) => return refused(&error, &self.tensors),
        };
        // What the call itself wrote stays written when the backward call is refused.
        let grads = match recorded.compute(&results, &leaves) {
            Ok(grads) => grads,
            Err(error) => return Outcome::of_error(&error),
        };
        let values = grads.iter().map(|grad| gradients::gradient_value(grad.as_ref()));
        let named = recorded.leaves.iter().zip(values).map(|(path, value)| Some((path.clone(), value?)));
        match named.collect() {
            Some(named) => {
                Results { tensors: self.tensors, alias: Vec::new() }.outcome(&results, Some(named))
            }
            None => Outcome::Faulty("gave a gradient beyond its storage".into()),
        }
    }
}

/// An error is one before any effect.
fn refused(error: &aten::Error, tensors: &[Passed<'_>]) -> Outcome {
    match tensors.iter().find(|passed| passed.has_changed()) {
        Some(passed) => {
            Outcome::Faulty(format!("refused with argument {} already changed: {error}", passed.path))
        }
        None => Outcome::of_error(error),
    }
}

/// What a call gave, put into words.
struct Results<'a> {
    tensors: Vec<Passed<'a>>,
    alias: Vec<Alias>,
}

impl Results<'_> {
    fn outcome(mut self, results: &Stack, grads: Option<Vec<(String, CaseValue)>>) -> Outcome {
        let out = results.iter().enumerate().map(|(index, value)| self.value(value, index.to_string()));
        let out: Option<Vec<CaseValue>> = out.collect();
        let written = self.tensors.iter().filter(|passed| passed.is_written || passed.has_changed());
        let mutated =
            written.map(|passed| Some((passed.path.clone(), CaseValue::Tensor(value_of(&passed.tensor)?))));
        let mutated: Option<Vec<(String, CaseValue)>> = mutated.collect();
        match (out, mutated) {
            (Some(out), Some(mutated)) => Outcome::Returned { out, mutated, alias: self.alias, grads },
            _ => Outcome::Faulty("gave something that no case has, or a tensor beyond its storage".into()),
        }
    }

    fn value(&mut self, value: &Value, path: String) -> Option<CaseValue> {
        Some(match value {
            Value::None => CaseValue::Null,
            Value::Scalar(Scalar::Bool(value)) => CaseValue::Bool(*value),
            Value::Scalar(Scalar::Int(value)) => CaseValue::Int((*value).into()),
            Value::Scalar(Scalar::UInt(value)) => CaseValue::Int((*value).into()),
            Value::Scalar(Scalar::Double(value)) => CaseValue::Float(*value),
            Value::Scalar(Scalar::Complex(value)) => CaseValue::Complex(value.re, value.im),
            Value::Str(text) => CaseValue::Text(text.clone()),
            Value::ScalarType(dtype) => CaseValue::Type(*dtype),
            Value::Layout(layout) => CaseValue::Layout(*layout),
            Value::MemoryFormat(format) => CaseValue::MemoryFormat(*format),
            Value::Device(device) => CaseValue::Device(*device),
            Value::List(items) => {
                let item = |(index, item)| self.value(item, format!("{path}.{index}"));
                CaseValue::List(items.iter().enumerate().map(item).collect::<Option<_>>()?)
            }
            Value::Tensor(tensor) => return self.tensor(tensor, path),
            _ => return None,
        })
    }

    /// A written argument is itself; any other tensor is described, and the argument named that it shares
    /// memory with.
    fn tensor(&mut self, tensor: &Tensor, path: String) -> Option<CaseValue> {
        let written = self.tensors.iter().find(|passed| passed.is_written && passed.tensor.is_same(tensor));
        if let Some(passed) = written {
            return Some(CaseValue::Ref(passed.path.clone()));
        }
        if let Some(passed) = self.tensors.iter().find(|passed| passed.tensor.is_alias_of(tensor)) {
            self.alias.push(Alias { out: path, arg: passed.path.clone(), offset: tensor.storage_offset() });
        }
        value_of(tensor).map(CaseValue::Tensor)
    }
}

impl Passed<'_> {
    /// Whether it is not what it was made of any more.
    fn has_changed(&self) -> bool {
        let Self { tensor, recorded, .. } = self;
        let is_same = *tensor.sizes() == *recorded.sizes
            && *tensor.strides() == *recorded.strides
            && tensor.storage_offset() == recorded.offset as i64;
        // A storage may have grown; what was recorded of it must still be there.
        let bytes = logical_bytes(tensor);
        !is_same
            || !bytes.is_some_and(|bytes| bytes.starts_with(recorded.data.as_deref().unwrap_or_default()))
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
