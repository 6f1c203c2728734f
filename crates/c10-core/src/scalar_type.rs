//! [`ScalarType`]: what one element of a tensor is.
//!
//! The variants carry the names of `torch.float32` and kin; numbers, categories and both families of
//! names are PyTorch's. Quantized types, packed sub-byte types and the `fnuz` and `e8m0` floats are not here.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The type of an element (`c10::ScalarType`, `torch.dtype`).
///
/// It is exhaustive: whoever chooses a kernel by type should be told by the compiler when a type is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum ScalarType {
    /// `u8` (`Byte`).
    UInt8 = 0,
    /// `i8` (`Char`).
    Int8 = 1,
    /// `i16` (`Short`).
    Int16 = 2,
    /// `i32` (`Int`).
    Int32 = 3,
    /// `i64` (`Long`).
    Int64 = 4,
    /// IEEE half precision (`Half`).
    Float16 = 5,
    /// `f32` (`Float`).
    Float32 = 6,
    /// `f64` (`Double`).
    Float64 = 7,
    /// Two halves (`ComplexHalf`).
    Complex32 = 8,
    /// Two `f32` (`ComplexFloat`).
    Complex64 = 9,
    /// Two `f64` (`ComplexDouble`).
    Complex128 = 10,
    /// `bool`, one byte (`Bool`).
    Bool = 11,
    /// The upper half of an `f32` (`BFloat16`).
    BFloat16 = 15,
    /// Eight bits, five of them exponent (`Float8_e5m2`). For storage: it promotes with no other type.
    Float8E5M2 = 23,
    /// Eight bits, four of them exponent, without infinities (`Float8_e4m3fn`). For storage, too.
    Float8E4M3Fn = 24,
    /// `u16` (`UInt16`). Promotes with floating types alone.
    UInt16 = 27,
    /// `u32` (`UInt32`). Promotes with floating types alone.
    UInt32 = 28,
    /// `u64` (`UInt64`). Promotes with floating types alone.
    UInt64 = 29,
    /// Two `bfloat16`s (`BComplex32`). As in PyTorch, few operators take it.
    BComplex32 = 46,
}

impl ScalarType {
    /// Every type, in the order of their numbers.
    pub const ALL: [Self; 19] = [
        Self::UInt8,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Complex32,
        Self::Complex64,
        Self::Complex128,
        Self::Bool,
        Self::BFloat16,
        Self::Float8E5M2,
        Self::Float8E4M3Fn,
        Self::UInt16,
        Self::UInt32,
        Self::UInt64,
        Self::BComplex32,
    ];

    /// The type of one of PyTorch's numbers, which serialized schemas and tensors hold; `None` for the
    /// numbers of types that are not here.
    pub fn from_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.number() == number)
    }

    /// The type of one of c10's names, such as `Float` or `ComplexHalf`.
    pub fn from_c10_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.c10_name() == name)
    }

    /// PyTorch's number of the type.
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// PyTorch's name of the type without `torch.`: `float32`, `complex64`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UInt8 => "uint8",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Complex32 => "complex32",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::Bool => "bool",
            Self::BFloat16 => "bfloat16",
            Self::Float8E5M2 => "float8_e5m2",
            Self::Float8E4M3Fn => "float8_e4m3fn",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
            Self::BComplex32 => "bcomplex32",
        }
    }

    /// PyTorch's second name, where there is one: `float`, `long`, `chalf`.
    pub const fn alias(self) -> Option<&'static str> {
        match self {
            Self::Int16 => Some("short"),
            Self::Int32 => Some("int"),
            Self::Int64 => Some("long"),
            Self::Float16 => Some("half"),
            Self::Float32 => Some("float"),
            Self::Float64 => Some("double"),
            Self::Complex32 => Some("chalf"),
            Self::Complex64 => Some("cfloat"),
            Self::Complex128 => Some("cdouble"),
            _ => None,
        }
    }

    /// The name of c10's enumerator, which PyTorch's error texts use: `Float`, `ComplexHalf`.
    pub const fn c10_name(self) -> &'static str {
        match self {
            Self::UInt8 => "Byte",
            Self::Int8 => "Char",
            Self::Int16 => "Short",
            Self::Int32 => "Int",
            Self::Int64 => "Long",
            Self::Float16 => "Half",
            Self::Float32 => "Float",
            Self::Float64 => "Double",
            Self::Complex32 => "ComplexHalf",
            Self::Complex64 => "ComplexFloat",
            Self::Complex128 => "ComplexDouble",
            Self::Bool => "Bool",
            Self::BFloat16 => "BFloat16",
            Self::Float8E5M2 => "Float8_e5m2",
            Self::Float8E4M3Fn => "Float8_e4m3fn",
            Self::UInt16 => "UInt16",
            Self::UInt32 => "UInt32",
            Self::UInt64 => "UInt64",
            Self::BComplex32 => "BComplex32",
        }
    }

    /// The size of an element, in bytes (`elementSize`).
    pub const fn element_size(self) -> usize {
        match self {
            Self::UInt8 | Self::Int8 | Self::Bool | Self::Float8E5M2 | Self::Float8E4M3Fn => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 | Self::BFloat16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 | Self::Complex32 | Self::BComplex32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
        }
    }

    /// Whether it is an integer type; `bool` counts if `include_bool` (`isIntegralType`).
    pub const fn is_integral(self, include_bool: bool) -> bool {
        match self {
            Self::UInt8 | Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 => true,
            Self::UInt16 | Self::UInt32 | Self::UInt64 => true,
            Self::Bool => include_bool,
            _ => false,
        }
    }

    /// Whether it is a real floating-point type of any width (`isFloatingType`).
    pub const fn is_floating_point(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64) || self.is_reduced_floating_point()
    }

    /// Whether it is a floating-point type narrower than `f32` (`isReducedFloatingType`).
    pub const fn is_reduced_floating_point(self) -> bool {
        matches!(self, Self::Float16 | Self::BFloat16) || self.is_float8()
    }

    /// Whether it is a floating-point type of eight bits (`isFloat8Type`).
    pub const fn is_float8(self) -> bool {
        matches!(self, Self::Float8E5M2 | Self::Float8E4M3Fn)
    }

    /// Whether it is a complex type (`isComplexType`).
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::Complex32 | Self::Complex64 | Self::Complex128 | Self::BComplex32)
    }

    /// Whether it has negative values; complex types do (`isSignedType`).
    pub const fn is_signed(self) -> bool {
        !matches!(self, Self::UInt8 | Self::Bool) && !self.is_barebones_unsigned()
    }

    /// Whether it is an unsigned type wider than `u8`, for which PyTorch has few kernels and no promotion
    /// to other integers (`isBarebonesUnsignedType`).
    pub const fn is_barebones_unsigned(self) -> bool {
        matches!(self, Self::UInt16 | Self::UInt32 | Self::UInt64)
    }

    /// The type of the parts of a complex type; every other type is its own (`toRealValueType`).
    pub const fn to_real(self) -> Self {
        match self {
            Self::Complex32 => Self::Float16,
            Self::BComplex32 => Self::BFloat16,
            Self::Complex64 => Self::Float32,
            Self::Complex128 => Self::Float64,
            other => other,
        }
    }

    /// The complex type with parts of this type; a complex type is its own (`toComplexType`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for types that are the parts of
    /// no complex type: integers, `bool` and the eight-bit floats.
    pub fn to_complex(self) -> Result<Self> {
        match self {
            Self::Float16 | Self::Complex32 => Ok(Self::Complex32),
            Self::BFloat16 | Self::BComplex32 => Ok(Self::BComplex32),
            Self::Float32 | Self::Complex64 => Ok(Self::Complex64),
            Self::Float64 | Self::Complex128 => Ok(Self::Complex128),
            other => Err(Error::invalid_argument(format!(
                "no complex type has parts of type {other}; those of float16, bfloat16, float32 and float64 exist"
            ))),
        }
    }
}

impl fmt::Display for ScalarType {
    /// `float32`; with `{:#}` as Python prints it, `torch.float32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { f.pad(&format!("torch.{}", self.name())) } else { f.pad(self.name()) }
    }
}

impl FromStr for ScalarType {
    type Err = Error;

    /// Takes each [`name`](Self::name) and [`alias`](Self::alias), with or without `torch.`.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`](crate::ErrorKind::Parse) when the text is none of them.
    fn from_str(text: &str) -> Result<Self> {
        let name = text.strip_prefix("torch.").unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|t| t.name() == name || t.alias() == Some(name))
            .ok_or_else(|| Error::unknown_name("scalar type", text, Self::ALL.into_iter().map(Self::name)))
    }
}
