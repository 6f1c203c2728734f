//! Elements and slices by index: `tensor[…]`, `index_select`, `take` and what writes where they read.

use c10_core::{Scalar, ScalarType};

use super::advanced_index::select;
use super::index_values::{at_least_1d, check_index_dtype, size_at, values_below, wrapped_values};
use super::scatter::{Counts, REDUCTIONS, element};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::combine::{Combine, Reduction, for_combination};
use crate::kernels::cpu::{index, strided};
use crate::shape;
use crate::tensor::{Dims, New, Tensor, access, for_words};
use crate::view::Strided;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, index_tensor, (this: &Tensor, indices: &[Option<Tensor>]),
        functional "index.Tensor", out "index.Tensor_out");
    register_triple!(lib, index_put,
        (this: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool),
        functional "index_put", inplace "index_put_", out "index_put.out");
    register_triple!(lib, index_put_checked,
        (this: &Tensor, indices: &[Option<Tensor>], values: &Tensor, accumulate: bool, unsafe_: bool),
        functional "_index_put_impl", inplace "_index_put_impl_");
    lib.composite("index.Tensor_hacked_twin", |this: &Tensor, indices: &[Tensor]| {
        this.index(&indices.iter().cloned().map(Some).collect::<Vec<_>>())
    })?;
    lib.composite(
        "index_put.hacked_twin",
        |this: &Tensor, indices: &[Tensor], values: &Tensor, accumulate: bool| {
            let indices: Vec<_> = indices.iter().cloned().map(Some).collect();
            super::handles::INDEX_PUT.call(this, &indices, values, accumulate)
        },
    )?;
    lib.composite(
        "index_put_.hacked_twin",
        |this: &Tensor, indices: &[Tensor], values: &Tensor, accumulate: bool| {
            let indices: Vec<_> = indices.iter().cloned().map(Some).collect();
            super::handles::INDEX_PUT_.call(this, &indices, values, accumulate)
        },
    )?;
    register_triple!(lib, index_select, (this: &Tensor, dim: i64, index: &Tensor),
        functional "index_select", out "index_select.out");
    register_triple!(lib, index_add, (this: &Tensor, dim: i64, index: &Tensor, source: &Tensor, alpha: Scalar),
        functional "index_add", inplace "index_add_", out "index_add.out");
    register_triple!(lib, index_copy, (this: &Tensor, dim: i64, index: &Tensor, source: &Tensor),
        functional "index_copy", inplace "index_copy_", out "index_copy.out");
    register_triple!(lib, index_fill_scalar, (this: &Tensor, dim: i64, index: &Tensor, value: Scalar),
        functional "index_fill.int_Scalar", inplace "index_fill_.int_Scalar");
    register_triple!(lib, index_fill_tensor, (this: &Tensor, dim: i64, index: &Tensor, value: &Tensor),
        functional "index_fill.int_Tensor", inplace "index_fill_.int_Tensor");
    register_triple!(lib, index_reduce,
        (this: &Tensor, dim: i64, index: &Tensor, source: &Tensor, reduce: &str, include_self: bool),
        functional "index_reduce", inplace "index_reduce_", out "index_reduce.out");
    register_triple!(lib, take, (this: &Tensor, index: &Tensor), functional "take", out "take.out");
    register_triple!(lib, put, (this: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool),
        functional "put", inplace "put_", out "put.out");
    Ok(())
}

fn index_tensor(dest: Dest<'_>, this: &Tensor, indices: &[Option<Tensor>]) -> Result<Made> {
    dest.check_dtype(this.dtype())?;
    let selection = select(this, indices)?;
    let new =
        New::strided(selection.plan.sizes.clone(), selection.result_strides, this.dtype(), this.device());
    let inputs: Vec<&Tensor> = indices.iter().flatten().chain([this]).collect();
    let out = dest.output(new, &inputs)?;
    if !out.is_meta() {
        access(
            [this],
            [out.tensor()],
            out.fresh(),
            |[src], [to]| for_words!(this.dtype(), W => selection.plan.get::<W>(&src, to)),
        )?;
    }
    out.finish()
}

fn index_put_checked(
    dest: Dest<'_>,
    this: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
    _unsafe: bool,
) -> Result<Made> {
    index_put(dest, this, indices, values, accumulate)
}

fn index_put(
    dest: Dest<'_>,
    this: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Made> {
    if this.dtype() != values.dtype() {
        return Err(Error::dtype(format!(
            "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
            this.dtype().name(),
            values.dtype().name()
        )));
    }
    let inputs: Vec<&Tensor> = indices.iter().flatten().chain([values]).collect();
    let strides = this.dense_strides()?;
    let is_mask = |index: &Tensor| matches!(index.dtype(), ScalarType::Bool | ScalarType::UInt8);
    if this.is_meta() && indices.iter().flatten().any(is_mask) {
        // How many elements a mask selects is not known, and the result is as large all the same.
        return dest.output_from(this, strides, &inputs)?.finish();
    }
    // Before anything is written: which elements, and whether the values fit.
    let sizes = select(this, indices)?.plan.sizes;
    let values = expanded(values, &sizes).ok_or_else(|| {
        Error::shape(format!(
            "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {sizes:?}",
            values.sizes()
        ))
    })??;
    let out = dest.output_from(this, strides, &inputs)?;
    if !out.is_meta() {
        let plan = select(out.tensor(), indices)?.plan;
        let reduction = if accumulate { Reduction::Sum } else { Reduction::Replace };
        access([&values], [out.tensor()], out.fresh(), |[src], [to]| {
            let strides = Dims::from(src.strides());
            match accumulate {
                false => for_words!(this.dtype(), W => plan.put::<W>(to, &src, &strides, |_, b| b)),
                true => for_combination!(this.dtype(), "index_put", reduction, T, f => {
                    plan.put::<T>(to, &src, &strides, f)
                }),
            }
        })?;
    }
    out.finish()
}

/// A view that repeats a tensor's elements to other sizes; `None` if they cannot be.
pub(super) fn expanded(tensor: &Tensor, sizes: &[i64]) -> Option<Result<Tensor>> {
    let mut place = Strided::of(tensor);
    place.expand(sizes).ok().map(|()| place.view(tensor))
}

fn index_select(dest: Dest<'_>, this: &Tensor, dim: i64, index: &Tensor) -> Result<Made> {
    dest.check_dtype(this.dtype())?;
    let dim = shape::wrap_dim(dim, this.rank())?;
    check_vector("index_select", index)?;
    check_index_dtype("index_select", index)?;
    let mut sizes = this.sizes();
    if let Some(size) = sizes.get_mut(dim) {
        *size = index.numel();
    } else if index.numel() != 1 {
        return Err(Error::index("index_select(): Index to scalar can have only 1 value"));
    }
    let at = if this.is_meta() { Vec::new() } else { values_below(index, size_at(this, dim), dim)? };
    let out = dest.output(New::contiguous(sizes, this.dtype(), this.device()), &[this, index])?;
    if !out.is_meta() {
        let (src, to) = (at_least_1d(this)?, at_least_1d(out.tensor())?);
        access(
            [&src],
            [&to],
            out.fresh(),
            |[src], [to]| for_words!(this.dtype(), W => index::get_slices::<W>(to, &src, &at, dim)),
        )?;
    }
    out.finish()
}

fn check_vector(operator: &str, index: &Tensor) -> Result<()> {
    if index.rank() <= 1 {
        return Ok(());
    }
    Err(Error::index(format!("{operator}(): Index is supposed to be a vector, but got {:?}", index.sizes())))
}

/// The checks that `index_add`, `index_copy` and `index_reduce` share. The source is given the dimensions of
/// `this`, all of which agree but `dim`, where there is one slice for each index.
fn check_source(operator: &str, this: &Tensor, dim: usize, index: &Tensor, source: &Tensor) -> Result<()> {
    check_vector(operator, index)?;
    check_index_dtype(operator, index)?;
    if this.dtype() != source.dtype() {
        return Err(Error::dtype(format!(
            "{operator}(): self ({}) and source ({}) must have the same scalar type",
            this.dtype().name(),
            source.dtype().name()
        )));
    }
    if index.numel() != size_at(source, dim) {
        return Err(Error::index(format!(
            "{operator}(): Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {dim}",
            index.numel(),
            size_at(source, dim)
        )));
    }
    let fits = this.rank().max(1) == source.rank().max(1)
        && (0..this.rank()).all(|d| d == dim || size_at(this, d) == size_at(source, d));
    if fits || (source.rank() == 0 && this.numel() >= 1 && this.rank() <= 1) {
        return Ok(());
    }
    Err(Error::index(format!(
        "{operator}(): source and destination slices must match in shape at dim = {dim}: {:?} and {:?}",
        source.sizes(),
        this.sizes()
    )))
}

fn index_add(
    dest: Dest<'_>,
    this: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Made> {
    let dim = shape::wrap_dim(dim, this.rank())?;
    check_source("index_add", this, dim, index, source)?;
    super::binary::check_alpha(this.dtype(), alpha)?;
    let at = if this.is_meta() { Vec::new() } else { values_below(index, size_at(this, dim), dim)? };
    let out = dest.output_from(this, shape::contiguous_strides(&this.sizes())?, &[index, source])?;
    if !out.is_meta() {
        let (src, to, dtype) = (at_least_1d(source)?, at_least_1d(out.tensor())?, this.dtype());
        for_combination!(dtype, "index_add", Reduction::Sum, T, f => {
            let alpha = element::<T>(alpha, dtype)?;
            access([&src], [&to], out.fresh(), |[src], [to]| {
                index::put_slices::<T>(to, &src, &at, dim, |a, b| f(a, T::combine(Reduction::Prod, alpha, b)))
            })
        })?;
    }
    out.finish()
}

fn index_copy(dest: Dest<'_>, this: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Made> {
    let dim = shape::wrap_dim(dim, this.rank())?;
    if index.dtype() != ScalarType::Int64 {
        return Err(Error::dtype("index_copy_(): Expected a long tensor for index"));
    }
    check_source("index_copy", this, dim, index, source)?;
    let at = if this.is_meta() { Vec::new() } else { values_below(index, size_at(this, dim), dim)? };
    let out = dest.output_from(this, shape::contiguous_strides(&this.sizes())?, &[index, source])?;
    if !out.is_meta() {
        let (src, to) = (at_least_1d(source)?, at_least_1d(out.tensor())?);
        access(
            [&src],
            [&to],
            out.fresh(),
            |[src], [to]| for_words!(this.dtype(), W => index::put_slices::<W>(to, &src, &at, dim, |_, b| b)),
        )?;
    }
    out.finish()
}

fn index_fill_tensor(
    dest: Dest<'_>,
    this: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Made> {
    if value.rank() != 0 {
        return Err(Error::shape(format!(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
            value.rank()
        )));
    }
    let value = if value.is_meta() { Scalar::from(0) } else { value.item()? };
    index_fill_scalar(dest, this, dim, index, value)
}

fn index_fill_scalar(dest: Dest<'_>, this: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Made> {
    let dim = shape::wrap_dim(dim, this.rank())?;
    if index.dtype() != ScalarType::Int64 {
        return Err(Error::dtype("index_fill_(): Expected dtype int64 for index."));
    }
    check_vector("index_fill_", index)?;
    if !this.dtype().is_complex() && value.is_complex() {
        return Err(Error::dtype(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported",
        ));
    }
    let at = if this.is_meta() { Vec::new() } else { wrapped_values(index, size_at(this, dim), dim)? };
    let strides = this.dense_strides()?;
    let out = dest.output_from(this, strides, &[index])?;
    if !out.is_meta() {
        let (to, dtype) = (at_least_1d(out.tensor())?, this.dtype());
        for_combination!(dtype, "index_fill_", Reduction::Replace, T, f => {
            let value = element::<T>(value, dtype)?;
            access([], [&to], out.fresh(), |[], [to]| {
                let (mut sizes, strides) = (Dims::from(to.sizes()), Dims::from(to.strides()));
                sizes[dim] = 1;
                let out = to.elements::<T>()?;
                for &at in &at {
                    let begin = (at * strides[dim]) as usize;
                    strided::for_each(&sizes, [&strides], |[o]| out[begin + o] = f(out[begin + o], value));
                }
                Ok(())
            })
        })?;
    }
    out.finish()
}

fn index_reduce(
    dest: Dest<'_>,
    this: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Made> {
    let dim = shape::wrap_dim(dim, this.rank())?;
    let reduction = Reduction::from_name(reduce, &REDUCTIONS[1..])?;
    check_source("index_reduce", this, dim, index, source)?;
    let at = if this.is_meta() { Vec::new() } else { values_below(index, size_at(this, dim), dim)? };
    let out = dest.output_from(this, shape::contiguous_strides(&this.sizes())?, &[index, source])?;
    if !out.is_meta() {
        let (src, to) = (at_least_1d(source)?, at_least_1d(out.tensor())?);
        let mut counts = Counts::new(&to.sizes(), include_self)?;
        counts.add_slices(&at, dim);
        for_combination!(this.dtype(), "index_reduce", reduction, T, f => {
            if !include_self {
                let start = T::identity(reduction);
                let start = Tensor::from_slice(&[start], &[])?;
                let start = expanded(&start, &src.sizes()).ok_or_else(|| Error::shape("source"))??;
                access([&start], [&to], out.fresh(), |[start], [to]| {
                    index::put_slices::<T>(to, &start, &at, dim, |_, b| b)
                })?;
            }
            access([&src], [&to], out.fresh(), |[src], [to]| index::put_slices::<T>(to, &src, &at, dim, f))?;
            match reduction {
                Reduction::Mean => access([], [&to], out.fresh(), |[], [to]| counts.divide::<T>(to)),
                _ => Ok(()),
            }
        })?;
    }
    out.finish()
}

fn take(dest: Dest<'_>, this: &Tensor, index: &Tensor) -> Result<Made> {
    dest.check_dtype(this.dtype())?;
    if index.dtype() != ScalarType::Int64 {
        return Err(Error::dtype("take(): Expected a long tensor for index"));
    }
    if this.numel() == 0 && index.numel() != 0 {
        return Err(Error::index("take(): tried to take from an empty tensor"));
    }
    let at = if this.is_meta() { Vec::new() } else { wrapped_values(index, this.numel(), 0)? };
    let strides = index.dense_strides()?;
    let out =
        dest.output(New::strided(index.sizes(), strides, this.dtype(), this.device()), &[this, index])?;
    if !out.is_meta() && !at.is_empty() {
        let src = this.to_contiguous()?;
        access([&src], [out.tensor()], out.fresh(), |[src], [to]| {
            let (sizes, strides) = (Dims::from(to.sizes()), Dims::from(to.strides()));
            for_words!(this.dtype(), W => {
                let (src, to) = (src.slice::<W>()?, to.elements::<W>()?);
                let mut at = at.iter();
                strided::for_each(&sizes, [&strides], |[o]| {
                    to[o] = src[at.next().map_or(0, |&at| at as usize)];
                });
                Ok(())
            })
        })?;
    }
    out.finish()
}

fn put(dest: Dest<'_>, this: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Made> {
    if index.dtype() != ScalarType::Int64 {
        return Err(Error::dtype("put_(): Expected a long tensor for index"));
    }
    if this.dtype() != source.dtype() {
        return Err(Error::dtype("put_(): self and source expected to have the same dtype"));
    }
    if index.numel() != source.numel() {
        return Err(Error::index(format!(
            "put_(): Expected source and index to have the same number of elements, but got {} and {}",
            source.numel(),
            index.numel()
        )));
    }
    if this.numel() == 0 && index.numel() != 0 {
        return Err(Error::index("put_(): tried to put elements into an empty tensor"));
    }
    let at = if this.is_meta() { Vec::new() } else { wrapped_values(index, this.numel(), 0)? };
    let strides = this.dense_strides()?;
    let out = dest.output_from(this, strides, &[index, source])?;
    if !out.is_meta() && !at.is_empty() {
        let src = source.to_contiguous()?;
        let reduction = if accumulate { Reduction::Sum } else { Reduction::Replace };
        access([&src], [out.tensor()], out.fresh(), |[src], [to]| {
            let places = places(to.sizes(), to.strides());
            for_combination!(this.dtype(), "put_", reduction, T, f => {
                let (src, to) = (src.slice::<T>()?, to.elements::<T>()?);
                for (&at, &value) in at.iter().zip(src) {
                    let place = &mut to[places(at)];
                    *place = f(*place, value);
                }
                Ok(())
            })
        })?;
    }
    out.finish()
}

/// Where in memory the element of a row-major number is.
fn places(sizes: &[i64], strides: &[i64]) -> impl Fn(i64) -> usize {
    let dims: Vec<(i64, i64)> = sizes.iter().copied().zip(strides.iter().copied()).rev().collect();
    move |mut number| {
        let mut place = 0;
        for &(size, stride) in &dims {
            place += number % size * stride;
            number /= size;
        }
        place as usize
    }
}
