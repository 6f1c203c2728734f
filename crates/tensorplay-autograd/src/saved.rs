//! [`SavedTensor`]: a tensor that a node needs for its gradients (`SavedVariable`).
//!
//! It remembers the version of its storage: a write in between, through whatever handle or view, is found when it is
//! unpacked. An argument is saved as it is; a result of the node itself as an alias without history, for the node
//! would hold itself otherwise.

use aten::dispatch::Value;
use aten::{Dims, Error, Result, Tensor};
use c10_core::{Device, Scalar, ScalarType};

use crate::few::Few;
use crate::meta::{meta, requires_grad};
use crate::mode::is_grad_enabled;
use crate::node::{Edge, Node};
use crate::saved_hooks::{self, Packed};
use crate::view_track;

/// A tensor that is saved.
pub(crate) struct SavedTensor {
    data: Data,
    version: u32,
    /// For a result of the node itself, which.
    result: Option<u32>,
    /// It was an argument that a recorded call had made.
    has_history: bool,
}

enum Data {
    Tensor(Tensor),
    /// With where the gradient goes, if it is wanted.
    Packed(Box<(Packed, Option<Edge>)>),
}

/// What a node keeps.
pub(crate) type SavedList = Few<Saved>;

/// What a formula keeps between forward and backward.
pub(crate) enum Saved {
    /// An argument that is absent.
    None,
    Tensor(SavedTensor),
    Tensors(Box<[Option<SavedTensor>]>),
    Meta(Box<TensorMeta>),
    Metas(Box<[TensorMeta]>),
    /// A value that is a number, as most are.
    Number(Scalar),
    Value(Value),
    /// Tensors that were needed by a backward call that did not keep the graph.
    GivenUp,
}

/// What a tensor looks like, without its elements.
#[derive(Clone, Debug)]
pub(crate) struct TensorMeta {
    sizes: Dims,
    strides: Dims,
    storage_offset: i64,
    dtype: ScalarType,
    device: Device,
    is_conj: bool,
    is_neg: bool,
}

impl Saved {
    /// The same again.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Tensor(saved) => Self::Tensor(saved.share()),
            Self::Tensors(list) => {
                Self::Tensors(list.iter().map(|saved| saved.as_ref().map(SavedTensor::share)).collect())
            }
            Self::Meta(meta) => Self::Meta(meta.clone()),
            Self::Metas(metas) => Self::Metas(metas.clone()),
            Self::Number(number) => Self::Number(*number),
            Self::Value(value) => Self::Value(value.clone()),
            Self::GivenUp => Self::GivenUp,
        }
    }

    /// The last of it, if it is of tensors. What a node knows of them beside their elements it may go on using.
    pub(crate) fn give_up(&mut self) -> Self {
        match self {
            Self::Tensor(_) | Self::Tensors(_) => std::mem::replace(self, Self::GivenUp),
            _ => self.share(),
        }
    }

    /// Whether a saved tensor requires a gradient.
    pub(crate) fn requires_grad(&self) -> bool {
        match self {
            Self::Tensor(saved) => saved.requires_grad(),
            Self::Tensors(list) => list.iter().flatten().any(SavedTensor::requires_grad),
            _ => false,
        }
    }

    /// Whether it may hold the last handle on a node.
    pub(crate) fn may_hold_nodes(&self) -> bool {
        match self {
            Self::Tensor(saved) => saved.may_hold_nodes(),
            Self::Tensors(list) => list.iter().flatten().any(SavedTensor::may_hold_nodes),
            _ => false,
        }
    }
}

impl TensorMeta {
    pub(crate) fn of(tensor: &Tensor) -> Self {
        Self {
            sizes: tensor.sizes(),
            strides: tensor.strides(),
            storage_offset: tensor.storage_offset(),
            dtype: tensor.dtype(),
            device: tensor.device(),
            is_conj: tensor.is_conj(),
            is_neg: tensor.is_neg(),
        }
    }

    /// Of a tensor that has the memory of this one: the same, or its conjugate or its negative, as `other` is to this
    /// one.
    pub(crate) fn turned_to(&self, other: &Self, tensor: &Tensor) -> Result<Tensor> {
        let mut turned = tensor.clone();
        if self.is_conj != other.is_conj {
            turned = turned.conj()?;
        }
        if self.is_neg != other.is_neg {
            turned = turned._neg_view()?;
        }
        Ok(turned)
    }

    /// Of a complex tensor's memory as real numbers, a dimension of two more (`view_as_real`).
    pub(crate) fn as_real(&self, dtype: ScalarType) -> Self {
        let mut real = self.clone();
        real.dtype = dtype;
        real.storage_offset *= 2;
        real.strides.iter_mut().for_each(|stride| *stride *= 2);
        real.sizes.push(2);
        real.strides.push(1);
        (real.is_conj, real.is_neg) = (false, false);
        real
    }

    /// Itself: in a table of derivatives it says that a tensor's elements are not needed.
    pub(crate) fn meta(&self) -> &Self {
        self
    }

    pub(crate) fn sizes(&self) -> Dims {
        self.sizes.clone()
    }

    pub(crate) fn strides(&self) -> Dims {
        self.strides.clone()
    }

    pub(crate) fn storage_offset(&self) -> i64 {
        self.storage_offset
    }

    pub(crate) fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// The number of elements.
    pub(crate) fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }

    pub(crate) fn dtype(&self) -> ScalarType {
        self.dtype
    }

    pub(crate) fn is_conj(&self) -> bool {
        self.is_conj
    }

    pub(crate) fn is_neg(&self) -> bool {
        self.is_neg
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }
}

impl SavedTensor {
    /// Saves an argument.
    pub(crate) fn argument(tensor: &Tensor) -> Result<Self> {
        check_followed(tensor)?;
        match saved_hooks::current() {
            Some(hooks) if !tensor.is_wrapped_number() => {
                let edge = if requires_grad(tensor) { view_track::gradient_edge(tensor)? } else { None };
                let packed = hooks.pack(&alias(tensor)?)?;
                let data = Data::Packed(Box::new((packed, edge)));
                Ok(Self { data, version: 0, result: None, has_history: false })
            }
            _ => Ok(Self {
                version: tensor.version(),
                has_history: has_history(tensor),
                data: Data::Tensor(tensor.clone()),
                result: None,
            }),
        }
    }

    /// Saves a result of the node that keeps it.
    pub(crate) fn result(tensor: &Tensor, which: usize) -> Result<Self> {
        check_followed(tensor)?;
        let alias = alias(tensor)?;
        let result = u32::try_from(which).ok();
        let (version, data) = match saved_hooks::current() {
            Some(hooks) => (0, Data::Packed(Box::new((hooks.pack(&alias)?, None)))),
            None => (alias.version(), Data::Tensor(alias)),
        };
        Ok(Self { data, version, result, has_history: false })
    }

    fn share(&self) -> Self {
        let data = match &self.data {
            Data::Tensor(tensor) => Data::Tensor(tensor.clone()),
            Data::Packed(packed) => Data::Packed(packed.clone()),
        };
        Self { data, version: self.version, result: self.result, has_history: self.has_history }
    }

    fn requires_grad(&self) -> bool {
        // A result was saved by a node, and depends on what that requires the gradient of.
        self.result.is_some()
            || match &self.data {
                Data::Tensor(tensor) => requires_grad(tensor),
                Data::Packed(packed) => packed.1.is_some(),
            }
    }

    fn may_hold_nodes(&self) -> bool {
        match &self.data {
            Data::Packed(_) => true,
            Data::Tensor(tensor) => tensor.is_followed() || tensor.view_base().is_some(),
        }
    }

    /// Whether it went through hooks.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.data, Data::Packed(_))
    }

    /// The tensor, as it was saved. `node` is the one that keeps it.
    pub(crate) fn unpack(&self, node: &Node) -> Result<Tensor> {
        self.unpack_of(Some(node))
    }

    /// An argument that no node keeps.
    pub(crate) fn unpack_argument(&self) -> Result<Tensor> {
        self.unpack_of(None)
    }

    fn unpack_of(&self, node: Option<&Node>) -> Result<Tensor> {
        let own = |input: u32| node.map(|node| Edge { node: node.clone(), input: input as usize });
        match &self.data {
            Data::Packed(packed) => {
                let (packed, edge) = &**packed;
                let tensor = packed.unpack()?;
                let edge = match self.result {
                    Some(input) => own(input),
                    None => edge.clone(),
                };
                with_history(tensor, edge)
            }
            Data::Tensor(tensor) => {
                if tensor.version() != self.version {
                    let maker = match self.result {
                        Some(input) => own(input),
                        None => view_track::made_by(tensor).ok().flatten(),
                    };
                    return Err(modified(tensor, self.version, maker.as_ref()));
                }
                if self.has_history && !has_history(tensor) {
                    return Err(detached());
                }
                match self.result {
                    Some(input) if is_grad_enabled() => with_history(tensor.clone(), own(input)),
                    _ => Ok(tensor.clone()),
                }
            }
        }
    }
}

/// What is said of a tensor that was changed since its version was `expected`.
#[cold]
pub(crate) fn modified(tensor: &Tensor, expected: u32, maker: Option<&Edge>) -> Error {
    let maker = maker.map_or(String::new(), |edge| {
        let name = match edge.node.name() {
            "CopySlices" => "torch::autograd::CopySlices",
            name => bare_name(name),
        };
        format!(", which is output {} of {name},", edge.input)
    });
    let sizes: Vec<String> = tensor.sizes().iter().map(i64::to_string).collect();
    let hint = match crate::anomaly::is_enabled() {
        false => {
            "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with \
             torch.autograd.set_detect_anomaly(True, check_nan=False)."
        }
        true => {
            "Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable \
             in question was changed in there or anywhere later. Good luck!"
        }
    };
    Error::invalid_argument(format!(
        "one of the variables needed for gradient computation has been modified by an inplace operation: [{} [{}]]{maker} \
         is at version {}; expected version {expected} instead. {hint}",
        type_text(tensor),
        sizes.join(", "),
        tensor.version(),
    ))
}

/// Another tensor on the same memory, without history, and no view to those who follow views.
pub(crate) fn alias(tensor: &Tensor) -> Result<Tensor> {
    let _below = aten::dispatch::local::AutoDispatchBelowADInplaceOrView::new();
    tensor.detach()
}

/// Whether a recorded call made it, of a view when it was made.
#[inline]
fn has_history(tensor: &Tensor) -> bool {
    match meta(tensor) {
        None => tensor.made_by().is_some(),
        Some(own) => own.state().edge.is_some(),
    }
}

#[cold]
fn detached() -> Error {
    Error::invalid_argument(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, \
         please use out-of-place `.detach()` instead",
    )
}

/// The same elements, made by `edge`.
fn with_history(tensor: Tensor, edge: Option<Edge>) -> Result<Tensor> {
    let Some(edge) = edge else { return Ok(tensor) };
    let mut alias = alias(&tensor)?;
    view_track::set_result(&mut alias, edge);
    Ok(alias)
}

fn check_followed(tensor: &Tensor) -> Result<()> {
    if tensor.is_inference() {
        return Err(Error::invalid_argument(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in \
             computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use \
             it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
        ));
    }
    Ok(())
}

/// What is said when something is needed that was given up.
#[cold]
pub(crate) fn already_freed() -> Error {
    Error::invalid_argument(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already \
         been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). \
         Specify retain_graph=True if you need to backward through the graph a second time or if you need to access \
         saved tensors after calling backward.",
    )
}

/// A node's name without `Backward0`, as PyTorch's sentences have it.
pub(crate) fn bare_name(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches("Backward")
}

/// `torch.FloatTensor`.
fn type_text(tensor: &Tensor) -> String {
    let kind = match tensor.dtype() {
        ScalarType::Float32 => "Float",
        ScalarType::Float64 => "Double",
        ScalarType::Float16 => "Half",
        ScalarType::BFloat16 => "BFloat16",
        ScalarType::Int64 => "Long",
        ScalarType::Int32 => "Int",
        ScalarType::Int16 => "Short",
        ScalarType::Int8 => "Char",
        ScalarType::UInt8 => "Byte",
        ScalarType::Bool => "Bool",
        ScalarType::Complex64 => "ComplexFloat",
        ScalarType::Complex128 => "ComplexDouble",
        other => other.name(),
    };
    let device = match tensor.device() {
        device if device.is_cpu() => String::new(),
        device => format!("{}.", device.device_type()),
    };
    format!("torch.{device}{kind}Tensor")
}
