//! Elements in row-major order.

use c10_core::Element;

use crate::error::{Error, Result};
use crate::kernels::hooked;
use crate::tensor::{Fresh, Tensor, access};

/// The elements of a tensor, in row-major order.
pub(crate) fn to_vec<T: Element>(tensor: &Tensor) -> Result<Vec<T>> {
    if tensor.dtype() != T::SCALAR_TYPE {
        return Err(Error::dtype(format!(
            "the elements are {}, and {} were asked for",
            tensor.dtype().name(),
            T::SCALAR_TYPE.name()
        )));
    }
    let tensor = hooked::to_host(tensor)?.to_contiguous()?;
    access([&tensor], [], Fresh::No, |[tensor], []| tensor.copied())
}
