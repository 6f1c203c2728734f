//! Elements that a mask selects: `masked_fill`, `masked_select`, `masked_scatter`, `nonzero`.

use c10_core::{Scalar, ScalarType};

use super::index::expanded;
use super::scatter::element;
use super::{Dest, Made, handles, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::combine::{Reduction, for_combination};
use crate::kernels::cpu::strided;
use crate::shape;
use crate::tensor::{Dims, Fresh, New, Tensor, access, for_words};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, masked_fill_scalar, (this: &Tensor, mask: &Tensor, value: Scalar),
        functional "masked_fill.Scalar", inplace "masked_fill_.Scalar", out "masked_fill.Scalar_out");
    register_triple!(lib, masked_fill_tensor, (this: &Tensor, mask: &Tensor, value: &Tensor),
        functional "masked_fill.Tensor", inplace "masked_fill_.Tensor", out "masked_fill.Tensor_out");
    register_triple!(lib, masked_select, (this: &Tensor, mask: &Tensor),
        functional "masked_select", out "masked_select.out");
    register_triple!(lib, masked_scatter, (this: &Tensor, mask: &Tensor, source: &Tensor),
        functional "masked_scatter", inplace "masked_scatter_", out "masked_scatter.out");
    lib.cpu_meta("masked_scatter_backward", masked_scatter_backward)?;
    register_triple!(lib, nonzero, (this: &Tensor), functional "nonzero", out "nonzero.out");
    register_triple!(lib, nonzero_static, (this: &Tensor, size: i64, fill_value: i64),
        functional "nonzero_static", out "nonzero_static.out");
    lib.composite("argwhere", |this: &Tensor| handles::NONZERO.call(this))?;
    lib.composite("nonzero_numpy", nonzero_numpy)?;
    lib.composite("where", nonzero_numpy)
}

fn check_mask(operator: &str, mask: &Tensor) -> Result<()> {
    if mask.dtype() == ScalarType::Bool {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "{operator} only supports boolean masks, but got mask with dtype {}",
        mask.dtype().name()
    )))
}

fn expand(operator: &str, tensor: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    expanded(tensor, sizes).unwrap_or_else(|| {
        Err(Error::shape(format!("{operator}: {:?} does not expand to {sizes:?}", tensor.sizes())))
    })
}

/// What a masked operator begins with: `this`, broadcast with the mask unless it is written in place, and the mask of
/// as many sizes.
fn broadcast(operator: &str, dest: Dest<'_>, this: &Tensor, mask: &Tensor) -> Result<(Tensor, Tensor)> {
    check_mask(operator, mask)?;
    if matches!(dest, Dest::InPlace(_)) {
        return Ok((this.clone(), expand(operator, mask, &this.sizes())?));
    }
    let sizes = shape::broadcast(&this.sizes(), &mask.sizes())?;
    let this = if this.sizes() == sizes { this.clone() } else { expand(operator, this, &sizes)? };
    Ok((this, expand(operator, mask, &sizes)?))
}

fn masked_fill_tensor(dest: Dest<'_>, this: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Made> {
    if value.rank() != 0 {
        return Err(Error::shape(format!(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            value.rank()
        )));
    }
    let value = if value.is_meta() { Scalar::from(0) } else { value.item()? };
    masked_fill_scalar(dest, this, mask, value)
}

fn masked_fill_scalar(dest: Dest<'_>, this: &Tensor, mask: &Tensor, value: Scalar) -> Result<Made> {
    let (this, mask) = broadcast("masked_fill", dest, this, mask)?;
    if value.is_complex() && !this.dtype().is_complex() {
        return Err(Error::dtype("value cannot be converted to type without overflow: it is complex"));
    }
    for_combination!(this.dtype(), "masked_fill", Reduction::Replace, T, f => {
        let value = element::<T>(value, this.dtype())?;
        let out = dest.output_from(&this, shape::contiguous_strides(&this.sizes())?, &[&mask])?;
        if !out.is_meta() {
            access([&mask], [out.tensor()], out.fresh(), |[mask], [to]| {
                let (sizes, strides) = (Dims::from(to.sizes()), Dims::from(to.strides()));
                let (to, truths) = (to.elements::<T>()?, mask.elements::<u8>()?);
                strided::for_each(&sizes, [&strides, mask.strides()], |[o, m]| {
                    if truths[m] != 0 {
                        to[o] = f(to[o], value);
                    }
                });
                Ok(())
            })?;
        }
        out.finish()
    })
}

/// The truths of a mask in row-major order.
fn truths(mask: &Tensor) -> Result<Vec<bool>> {
    mask.to_dtype(ScalarType::Bool)?.to_vec()
}

fn masked_select(dest: Dest<'_>, this: &Tensor, mask: &Tensor) -> Result<Made> {
    if !matches!(mask.dtype(), ScalarType::Bool | ScalarType::UInt8) {
        return Err(Error::dtype("masked_select: expected BoolTensor or ByteTensor for mask"));
    }
    dest.check_dtype(this.dtype())?;
    let sizes = shape::broadcast(&this.sizes(), &mask.sizes())?;
    let (this, mask) = (expand("masked_select", this, &sizes)?, expand("masked_select", mask, &sizes)?);
    not_of_meta(&mask)?;
    let truths = truths(&mask)?;
    let count = truths.iter().filter(|&&truth| truth).count() as i64;
    let out = dest.output(New::contiguous([count], this.dtype(), this.device()), &[&this, &mask])?;
    access([&this], [out.tensor()], out.fresh(), |[src], [to]| {
        for_words!(this.dtype(), W => {
            let (elements, mut to) = (src.elements::<W>()?, to.slice::<W>()?.iter_mut());
            let mut truths = truths.iter();
            strided::for_each(&sizes, [src.strides()], |[s]| {
                if truths.next() == Some(&true)
                    && let Some(to) = to.next()
                {
                    *to = elements[s];
                }
            });
            Ok(())
        })
    })?;
    out.finish()
}

fn not_of_meta(tensor: &Tensor) -> Result<()> {
    if tensor.is_meta() {
        return Err(Error::not_implemented("how many elements are selected is not known of a meta tensor"));
    }
    Ok(())
}

fn masked_scatter(dest: Dest<'_>, this: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Made> {
    if this.dtype() != source.dtype() {
        return Err(Error::dtype(format!(
            "masked_scatter: expected self and source to have same dtypes but got {} and {}",
            this.dtype().name(),
            source.dtype().name()
        )));
    }
    let (this, mask) = broadcast("masked_scatter", dest, this, mask)?;
    let strides = shape::contiguous_strides(&this.sizes())?;
    if this.is_meta() {
        return dest.output_from(&this, strides, &[&mask, source])?.finish();
    }
    let truths = truths(&mask)?;
    let count = truths.iter().filter(|&&truth| truth).count() as i64;
    if count > source.numel() {
        return Err(Error::shape(format!(
            "masked_scatter: the mask selects {count} elements, and source has {}",
            source.numel()
        )));
    }
    let out = dest.output_from(&this, strides, &[&mask, source])?;
    let source = source.to_contiguous()?;
    access([&source], [out.tensor()], out.fresh(), |[src], [to]| {
        let (sizes, strides) = (Dims::from(to.sizes()), Dims::from(to.strides()));
        for_words!(this.dtype(), W => {
            let (mut src, to) = (src.slice::<W>()?.iter(), to.elements::<W>()?);
            let mut truths = truths.iter();
            strided::for_each(&sizes, [&strides], |[o]| {
                if truths.next() == Some(&true)
                    && let Some(&element) = src.next()
                {
                    to[o] = element;
                }
            });
            Ok(())
        })
    })?;
    out.finish()
}

/// The selected gradients in a row, then zeros, as many as `sizes` have.
fn masked_scatter_backward(grad: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let sizes = super::new_options::checked_sizes(sizes)?;
    let out = New::contiguous(sizes, grad.dtype(), grad.device()).make()?;
    super::new_options::fill_fresh(&out, 0.into())?;
    if out.is_meta() {
        return Ok(out);
    }
    let selected = masked_select(Dest::New, grad, mask)?.new_tensor();
    access([&selected], [&out], Fresh::Yes, |[src], [to]| {
        for_words!(grad.dtype(), W => {
            let src = src.slice::<W>()?;
            to.slice::<W>()?.iter_mut().zip(src).for_each(|(to, &element)| *to = element);
            Ok(())
        })
    })?;
    Ok(out)
}

/// The coordinates of each element that is not zero, in row-major order, one dimension after another.
fn coordinates(this: &Tensor) -> Result<Vec<i64>> {
    not_of_meta(this)?;
    let (sizes, truths) = (this.sizes(), truths(this)?);
    let mut rows = Vec::new();
    let mut position = vec![0_i64; sizes.len()];
    for truth in truths {
        if truth {
            rows.extend_from_slice(&position);
        }
        for dim in (0..position.len()).rev() {
            position[dim] += 1;
            if position[dim] < sizes[dim] {
                break;
            }
            position[dim] = 0;
        }
    }
    Ok(rows)
}

fn nonzero(dest: Dest<'_>, this: &Tensor) -> Result<Made> {
    dest.check_dtype(ScalarType::Int64)?;
    let (rank, coordinates) = (this.rank() as i64, coordinates(this)?);
    let count = match rank {
        0 => i64::from(truths(this)?[0]),
        _ => coordinates.len() as i64 / rank,
    };
    // Each dimension's coordinates lie in a row.
    let strides = Dims::from([1, count.max(1)]);
    let new = New::strided(Dims::from([count, rank]), strides, ScalarType::Int64, this.device());
    let out = dest.output(new, &[this])?;
    write_columns(out.tensor(), out.fresh(), &coordinates)?;
    out.finish()
}

/// Writes rows of coordinates.
fn write_columns(out: &Tensor, fresh: Fresh, coordinates: &[i64]) -> Result<()> {
    access([], [out], fresh, |[], [to]| {
        let (sizes, strides) = (Dims::from(to.sizes()), Dims::from(to.strides()));
        let (to, mut next) = (to.elements::<i64>()?, coordinates.iter());
        strided::for_each(&sizes, [&strides], |[o]| {
            if let Some(&coordinate) = next.next() {
                to[o] = coordinate;
            }
        });
        Ok(())
    })
}

fn nonzero_static(dest: Dest<'_>, this: &Tensor, size: i64, fill_value: i64) -> Result<Made> {
    if size < 0 {
        return Err(Error::invalid_argument("nonzero_static: 'size' must be an non-negative integer"));
    }
    dest.check_dtype(ScalarType::Int64)?;
    let rank = this.rank() as i64;
    let out = dest.output(New::contiguous([size, rank], ScalarType::Int64, this.device()), &[this])?;
    if !out.is_meta() {
        let mut coordinates = coordinates(this)?;
        coordinates.resize(out.tensor().numel() as usize, fill_value);
        write_columns(out.tensor(), out.fresh(), &coordinates)?;
    }
    out.finish()
}

fn nonzero_numpy(this: &Tensor) -> Result<Vec<Tensor>> {
    let this = if this.rank() == 0 { this.unsqueeze(0)? } else { this.clone() };
    handles::UNBIND_INT.call(&handles::NONZERO.call(&this)?, 1)
}
