//! [`Value`]: an argument or result of a boxed call (`c10::IValue`).

use c10_core::{Device, Layout, MemoryFormat, Scalar, ScalarType};

use crate::random::Generator;
use crate::tensor::Tensor;

/// The arguments of a boxed call, first to last; then its results (`torch::jit::Stack`).
pub type Stack = Vec<Value>;

/// An argument or result of any type of the schema grammar. Numbers and truth values are all
/// [`Scalar`](Self::Scalar)s; what is absent is `None`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Value {
    /// Nothing: an optional argument left out.
    #[default]
    None,
    /// A tensor.
    Tensor(Tensor),
    /// An `int`, `float`, `bool`, `complex` or `Scalar`.
    Scalar(Scalar),
    /// A `str`.
    Str(String),
    /// A `ScalarType`.
    ScalarType(ScalarType),
    /// A `Layout`.
    Layout(Layout),
    /// A `MemoryFormat`.
    MemoryFormat(MemoryFormat),
    /// A `Device`.
    Device(Device),
    /// A `Generator`.
    Generator(Generator),
    /// A list of values.
    List(Vec<Self>),
}

impl Value {
    /// The kind, in a word, for sentences.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "NoneType",
            Self::Tensor(_) => "Tensor",
            Self::Scalar(Scalar::Bool(_)) => "bool",
            Self::Scalar(Scalar::Int(_) | Scalar::UInt(_)) => "int",
            Self::Scalar(Scalar::Double(_)) => "float",
            Self::Scalar(Scalar::Complex(_)) => "complex",
            Self::Str(_) => "str",
            Self::ScalarType(_) => "ScalarType",
            Self::Layout(_) => "Layout",
            Self::MemoryFormat(_) => "MemoryFormat",
            Self::Device(_) => "Device",
            Self::Generator(_) => "Generator",
            Self::List(_) => "list",
        }
    }

    /// Calls `f` with each tensor, those in lists too.
    pub fn for_each_tensor(&self, f: &mut dyn FnMut(&Tensor)) {
        match self {
            Self::Tensor(tensor) => f(tensor),
            Self::List(values) => values.iter().for_each(|value| value.for_each_tensor(f)),
            _ => {}
        }
    }
}

/// The tensors among values, those in lists too.
pub(super) fn tensors(values: &[Value]) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    values.iter().for_each(|value| value.for_each_tensor(&mut |tensor| tensors.push(tensor.clone())));
    tensors
}

macro_rules! from {
    ($($type:ty => $variant:ident,)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
from! {
    Tensor => Tensor,
    Scalar => Scalar,
    bool => Scalar,
    i64 => Scalar,
    f64 => Scalar,
    String => Str,
    &str => Str,
    ScalarType => ScalarType,
    Layout => Layout,
    MemoryFormat => MemoryFormat,
    Device => Device,
    Generator => Generator,
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}
