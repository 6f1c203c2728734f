//! [`Gradients`]: the recorded gradients of a call, and how the same ones are computed here.

use aten::dispatch::Value;
use aten::{Error, Tensor};
use c10_core::Device;
use serde_json::{Map, Value as Json};
use tensorplay_autograd::{GradOptions, TensorAutograd, grad_with};

use super::case::{list, named};
use super::tensor_value::TensorValue;
use super::tensors::{tensor_of, value_of};
use super::values::CaseValue;

/// What PyTorch computed: the gradients of the sum over outputs of `out * grad_out`.
#[derive(Clone, Debug)]
pub(super) struct Gradients {
    pub(super) out: Vec<CaseValue>,
    /// The paths of the arguments that are leaves.
    pub(super) leaves: Vec<String>,
    /// The gradients that came in, by the paths of the outputs.
    pub(super) incoming: Vec<(String, TensorValue)>,
    /// The gradients of arguments by path; `None` where there is none.
    pub(super) grads: Vec<(String, Option<TensorValue>)>,
    /// Whether other outputs would be as right. The gradients were made not to depend on which.
    pub(super) is_ambiguous: bool,
}

impl Gradients {
    /// Reads the fields of a case.
    ///
    /// # Errors
    /// One is missing or is not what it should be.
    pub(super) fn from_json(fields: &Map<String, Json>) -> Result<Self, String> {
        let leaves = fields.get("requires_grad").and_then(Json::as_array);
        let leaves =
            leaves.and_then(|leaves| leaves.iter().map(|path| path.as_str().map(str::to_owned)).collect());
        let tensor = |name: &str, (path, value)| match value {
            CaseValue::Tensor(tensor) => Ok((path, Some(tensor))),
            CaseValue::Null => Ok((path, None)),
            _ => Err(format!("{name}.{path}: is no tensor")),
        };
        let incoming = named(fields, "grad_out")?.into_iter().map(|named| match tensor("grad_out", named)? {
            (path, Some(gradient)) => Ok((path, gradient)),
            (path, None) => Err(format!("grad_out.{path}: is no tensor")),
        });
        let grads = named(fields, "grads")?.into_iter().map(|named| tensor("grads", named));
        Ok(Self {
            out: list(fields, "out")?,
            leaves: leaves.ok_or("`requires_grad` is a list of paths")?,
            incoming: incoming.collect::<Result<_, String>>()?,
            grads: grads.collect::<Result<_, String>>()?,
            is_ambiguous: fields.get("ambiguous").is_some_and(|kind| !kind.is_null()),
        })
    }

    /// The gradients of the leaves, from the results of the call.
    ///
    /// # Errors
    /// What autograd refuses; an output that has no such gradient as came in.
    pub(super) fn compute(&self, results: &[Value], leaves: &[Tensor]) -> aten::Result<Vec<Option<Tensor>>> {
        let mut outputs = Vec::new();
        let mut gradients = Vec::new();
        for (path, gradient) in &self.incoming {
            let Some(output) = tensor_at(results, path) else {
                return Err(Error::invalid_argument(format!("output {path} is no tensor")));
            };
            let Some(gradient) = tensor_of(gradient, Device::CPU) else {
                return Err(Error::invalid_argument(format!("the gradient of output {path} has no values")));
            };
            outputs.push(output.clone());
            gradients.push(Some(gradient));
        }
        let options = GradOptions { grad_outputs: &gradients, allow_unused: true, ..GradOptions::default() };
        grad_with(&outputs, leaves, options)
    }
}

/// Makes the tensor one whose gradient is wanted.
///
/// # Errors
/// Its dtype has none.
pub(super) fn make_leaf(tensor: &Tensor) -> aten::Result<()> {
    tensor.requires_grad_(true).map(drop)
}

/// A gradient as results are written: row-major, without lazy bits.
pub(super) fn gradient_value(gradient: Option<&Tensor>) -> Option<CaseValue> {
    let Some(gradient) = gradient else { return Some(CaseValue::Null) };
    let plain = gradient.resolve_conj().and_then(|plain| plain.resolve_neg()?.contiguous());
    value_of(&plain.ok()?).map(CaseValue::Tensor)
}

/// The tensor at a path among results.
fn tensor_at<'a>(results: &'a [Value], path: &str) -> Option<&'a Tensor> {
    let mut places = path.split('.').map(str::parse::<usize>);
    let first = results.get(places.next()?.ok()?)?;
    let value = places.try_fold(first, |value, place| match value {
        Value::List(items) => items.get(place.ok()?),
        _ => None,
    })?;
    match value {
        Value::Tensor(tensor) => Some(tensor),
        _ => None,
    }
}
