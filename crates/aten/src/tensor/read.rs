//! Elements of small tensors as Rust values.

use c10_core::{Complex, Element, Scalar, ScalarType, bf16, f16};

use super::Tensor;
use super::access::{Fresh, Plain, access};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::hooked;

impl Tensor {
    /// The one element (`item`, `aten::_local_scalar_dense`).
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] when there is not exactly one, [`ErrorKind::NotImplemented`] when the host cannot
    /// reach it.
    pub fn item(&self) -> Result<Scalar> {
        if self.is_meta() {
            return Err(Error::not_implemented("Tensor.item() cannot be called on meta tensors"));
        }
        if !self.device().is_cpu() {
            return hooked::to_host(self)?.item();
        }
        if self.numel() != 1 {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("a Tensor with {} elements cannot be converted to Scalar", self.numel()),
            ));
        }
        if self.has_math_bits() {
            return self.resolved()?.item();
        }
        use ScalarType as S;
        match self.dtype() {
            S::Bool => Ok(Scalar::Bool(self.first::<u8>()? != 0)),
            S::UInt8 => self.first::<u8>().map(Scalar::from),
            S::Int8 => self.first::<i8>().map(Scalar::from),
            S::Int16 => self.first::<i16>().map(Scalar::from),
            S::Int32 => self.first::<i32>().map(Scalar::from),
            S::Int64 => self.first::<i64>().map(Scalar::from),
            S::UInt16 => self.first::<u16>().map(Scalar::from),
            S::UInt32 => self.first::<u32>().map(Scalar::from),
            S::UInt64 => self.first::<u64>().map(Scalar::from),
            S::Float16 => self.first::<f16>().map(Scalar::from),
            S::BFloat16 => self.first::<bf16>().map(Scalar::from),
            S::Float32 => self.first::<f32>().map(Scalar::from),
            S::Float64 => self.first::<f64>().map(Scalar::from),
            S::Complex32 => self.first::<Complex<f16>>().map(Scalar::from),
            S::BComplex32 => self.first::<Complex<bf16>>().map(Scalar::from),
            S::Complex64 => self.first::<Complex<f32>>().map(Scalar::from),
            S::Complex128 => self.first::<Complex<f64>>().map(Scalar::from),
            other => Err(Error::not_implemented(format!("item of {}", other.name()))),
        }
    }

    fn first<T: Plain>(&self) -> Result<T> {
        access([self], [], Fresh::No, |[tensor], []| Ok(tensor.elements::<T>()?[0]))
    }

    /// The elements in row-major order, whatever the strides. `bool`s come as `bool`.
    ///
    /// # Errors
    /// [`ErrorKind::Dtype`] when the elements are no `T`s, [`ErrorKind::NotImplemented`] when the host cannot
    /// reach them.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        crate::kernels::cpu::to_vec::to_vec(self)
    }
}
