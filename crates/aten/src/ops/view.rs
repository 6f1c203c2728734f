//! Views: the view, and with the same arithmetic its copy and the copy into `out=`.

use c10_core::ScalarType;

use super::view_copy::{copied, copy_out};
use crate::dispatch::{DispatchKeySet, IntoKernel, Library};
use crate::error::{Error, Result};
use crate::shape::wrap_dim;
use crate::tensor::Tensor;
use crate::view::{check_lengths, split_lengths, view_as_complex, view_as_real, view_dtype};

/// Registers a view, which says what it is one of where no autograd kernel stood before its own.
macro_rules! linked {
    ($lib:ident, $name:literal, ($tensor:ident $(, $arg:ident: $type:ty)*) => $view:expr) => {
        let kernel = |keys: DispatchKeySet, $tensor: &Tensor $(, $arg: $type)*| -> Result<Tensor> {
            Ok($view?.linked_to($tensor, keys))
        };
        $lib.all_backends($name, kernel.into_kernel().linking_views())?;
    };
}

/// Registers a view, its copy and the `out=` form of the copy.
macro_rules! view {
    ($lib:ident, $name:literal, $copy:literal, $out:literal,
     ($tensor:ident $(, $arg:ident: $type:ty)*) => $view:expr) => {
        linked!($lib, $name, ($tensor $(, $arg: $type)*) => $view);
        $lib.all_backends($copy, |$tensor: &Tensor $(, $arg: $type)*| -> Result<Tensor> { copied(&$view?) })?;
        $lib.all_backends($out, |$tensor: &Tensor $(, $arg: $type)*, out: &Tensor| -> Result<()> {
            copy_out(&$view?, out)
        })?;
    };
}

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_shapes(lib)?;
    register_dimensions(lib)?;
    register_parts(lib)?;
    register_elements(lib)?;
    register_lists(lib)
}

fn register_shapes(lib: &mut Library<'_>) -> Result<()> {
    linked!(lib, "view", (x, size: &[i64]) => viewed(x, size));
    lib.all_backends("_unsafe_view", |x: &Tensor, size: &[i64]| viewed(x, size))?;
    lib.all_backends("_reshape_alias", |x: &Tensor, size: &[i64], stride: &[i64]| -> Result<Tensor> {
        x.viewed(|place| place.restrided(size, stride, None))
    })?;
    view!(lib, "alias", "alias_copy", "alias_copy.out", (x) => x.rearranged(|_, _| Ok(())));
    view!(lib, "detach", "detach_copy", "detach_copy.out", (x) => x.rearranged(|_, _| Ok(())));
    view!(lib, "expand", "expand_copy", "expand_copy.out",
        (x, size: &[i64], _implicit: bool) => x.viewed(|place| place.expand(size)));
    view!(lib, "as_strided", "as_strided_copy", "as_strided_copy.out",
        (x, size: &[i64], stride: &[i64], offset: Option<i64>) =>
            x.viewed(|place| place.restrided(size, stride, offset)));
    Ok(())
}

fn register_dimensions(lib: &mut Library<'_>) -> Result<()> {
    view!(lib, "permute", "permute_copy", "permute_copy.out",
        (x, dims: &[i64]) => x.reordered(|place| place.permute(dims)));
    view!(lib, "transpose.int", "transpose_copy.int", "transpose_copy.int_out",
        (x, dim0: i64, dim1: i64) => x.reordered(|place| place.transpose(dim0, dim1)));
    view!(lib, "t", "t_copy", "t_copy.out", (x) => x.reordered(|place| place.t()));
    view!(lib, "squeeze", "squeeze_copy", "squeeze_copy.out", (x) => x.reordered(|place| {
        place.squeeze();
        Ok(())
    }));
    view!(lib, "squeeze.dim", "squeeze_copy.dim", "squeeze_copy.dim_out",
        (x, dim: i64) => x.reordered(|place| place.squeeze_dims(&[dim])));
    view!(lib, "squeeze.dims", "squeeze_copy.dims", "squeeze_copy.dims_out",
        (x, dims: &[i64]) => x.reordered(|place| place.squeeze_dims(dims)));
    view!(lib, "unsqueeze", "unsqueeze_copy", "unsqueeze_copy.out",
        (x, dim: i64) => x.reordered(|place| place.unsqueeze(dim)));
    Ok(())
}

fn register_parts(lib: &mut Library<'_>) -> Result<()> {
    view!(lib, "slice.Tensor", "slice_copy.Tensor", "slice_copy.Tensor_out",
        (x, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) =>
            x.part(|place| place.slice(dim, start, end, step)));
    view!(lib, "select.int", "select_copy.int", "select_copy.int_out",
        (x, dim: i64, index: i64) => x.part(|place| place.select(dim, index)));
    view!(lib, "diagonal", "diagonal_copy", "diagonal_copy.out",
        (x, offset: i64, dim1: i64, dim2: i64) => x.viewed(|place| place.diagonal(offset, dim1, dim2)));
    view!(lib, "unfold", "unfold_copy", "unfold_copy.out",
        (x, dim: i64, size: i64, step: i64) => x.viewed(|place| place.unfold(dim, size, step)));
    Ok(())
}

fn register_elements(lib: &mut Library<'_>) -> Result<()> {
    view!(lib, "view.dtype", "view_copy.dtype", "view_copy.dtype_out",
        (x, dtype: ScalarType) => view_dtype(x, dtype));
    view!(lib, "view_as_real", "view_as_real_copy", "view_as_real_copy.out", (x) => view_as_real(x));
    view!(lib, "view_as_complex", "view_as_complex_copy", "view_as_complex_copy.out",
        (x) => view_as_complex(x));
    Ok(())
}

fn register_lists(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("split.Tensor", split)?;
    lib.all_backends("unsafe_split.Tensor", split)?;
    lib.all_backends("split_with_sizes", split_with_sizes)?;
    lib.all_backends("unsafe_split_with_sizes", split_with_sizes)?;
    lib.all_backends("unbind.int", unbind)
}

#[inline(always)]
fn viewed(x: &Tensor, size: &[i64]) -> Result<Tensor> {
    x.rearranged(|geometry, own| geometry.reshaped(own, size, x.dtype()))
}

pub(super) fn split(x: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    if x.rank() == 0 {
        return Err(Error::shape("split expects at least a 1-dimensional tensor"));
    }
    let dim = wrap_dim(dim, x.rank())?;
    parts(x, dim, &split_lengths(x.sizes()[dim], split_size)?)
}

pub(super) fn split_with_sizes(x: &Tensor, lengths: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    if x.rank() == 0 {
        return Err(Error::shape("split_with_sizes expects at least a 1-dimensional tensor"));
    }
    let dim = wrap_dim(dim, x.rank())?;
    check_lengths(x.sizes()[dim], dim, lengths)?;
    parts(x, dim, lengths)
}

/// Parts of `dim` that follow each other.
fn parts(x: &Tensor, dim: usize, lengths: &[i64]) -> Result<Vec<Tensor>> {
    let mut start = 0;
    lengths
        .iter()
        .map(|&length| {
            let part = x.part(|place| place.narrow(dim as i64, start, length))?;
            start += length;
            Ok(part)
        })
        .collect()
}

pub(super) fn unbind(x: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    if x.rank() == 0 {
        return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
    }
    let dim = wrap_dim(dim, x.rank())?;
    (0..x.sizes()[dim]).map(|index| x.part(|place| place.select(dim as i64, index))).collect()
}
