//! Elements in order along a dimension: `sort`, `topk`, `kthvalue`, `median`, `mode`.

use c10_core::{ScalarType, bf16, f16};

use super::{Dest, Made, handles};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::kernels::cpu::sort::{self, Lines};
use crate::shape;
use crate::tensor::{Dims, Fresh, New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_sort(lib)?;
    register_selection(lib)?;
    register_medians(lib)
}

/// Where values and indices go.
type Pair<'a> = [Dest<'a>; 2];

const NEW: Pair<'static> = [Dest::New, Dest::New];

fn outs<'a>(values: &'a Tensor, indices: &'a Tensor) -> Pair<'a> {
    [Dest::Out(values), Dest::Out(indices)]
}

fn pair(made: [Made; 2]) -> (Tensor, Tensor) {
    let [values, indices] = made.map(Made::new_tensor);
    (values, indices)
}

fn register_sort(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("sort", |this: &Tensor, dim: i64, descending: bool| {
        by_order(NEW, this, dim, Order::Sort { descending }).map(pair)
    })?;
    lib.cpu_meta(
        "sort.values",
        |this: &Tensor, dim: i64, descending: bool, values: &Tensor, indices: &Tensor| {
            by_order(outs(values, indices), this, dim, Order::Sort { descending }).map(drop)
        },
    )?;
    // Sorting is always stable here.
    lib.cpu_meta("sort.stable", |this: &Tensor, _stable: Option<bool>, dim: i64, descending: bool| {
        by_order(NEW, this, dim, Order::Sort { descending }).map(pair)
    })?;
    lib.cpu_meta(
        "sort.values_stable",
        |this: &Tensor,
         _stable: Option<bool>,
         dim: i64,
         descending: bool,
         values: &Tensor,
         indices: &Tensor| {
            by_order(outs(values, indices), this, dim, Order::Sort { descending }).map(drop)
        },
    )?;
    lib.composite("argsort", |this: &Tensor, dim: i64, descending: bool| {
        Ok(handles::SORT.call(this, dim, descending)?.1)
    })?;
    lib.all_backends("argsort.stable", |this: &Tensor, stable: bool, dim: i64, descending: bool| {
        Ok(handles::SORT_STABLE.call(this, Some(stable), dim, descending)?.1)
    })?;
    lib.composite("msort", |this: &Tensor| Ok(handles::SORT.call(this, 0, false)?.0))?;
    lib.composite("msort.out", |this: &Tensor, out: &Tensor| {
        let indices = New::contiguous([0], ScalarType::Int64, this.device()).make()?;
        handles::SORT_VALUES.call(this, 0, false, out, &indices)
    })
}

fn register_selection(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("topk", |this: &Tensor, k: i64, dim: i64, largest: bool, _sorted: bool| {
        by_order(NEW, this, dim, Order::Top { k, largest }).map(pair)
    })?;
    lib.cpu_meta(
        "topk.values",
        |this: &Tensor, k: i64, dim: i64, largest: bool, _sorted: bool, values: &Tensor, indices: &Tensor| {
            by_order(outs(values, indices), this, dim, Order::Top { k, largest }).map(drop)
        },
    )?;
    macro_rules! one_of_each_line {
        ($plain:literal, $out:literal, ($($arg:ident: $type:ty),*) => $order:expr) => {
            lib.cpu_meta($plain, |this: &Tensor, $($arg: $type,)* dim: i64, keepdim: bool| {
                one(NEW, this, dim, keepdim, $order).map(pair)
            })?;
            lib.cpu_meta(
                $out,
                |this: &Tensor, $($arg: $type,)* dim: i64, keepdim: bool, values: &Tensor, indices: &Tensor| {
                    one(outs(values, indices), this, dim, keepdim, $order).map(drop)
                },
            )?;
        };
    }
    one_of_each_line!("kthvalue", "kthvalue.values", (k: i64) => Order::Nth { k });
    one_of_each_line!("median.dim", "median.dim_values", () => Order::Median { ignore_nan: false });
    one_of_each_line!("nanmedian.dim", "nanmedian.dim_values", () => Order::Median { ignore_nan: true });
    one_of_each_line!("mode", "mode.values", () => Order::Mode);
    Ok(())
}

fn register_medians(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("median", |this: &Tensor| median_of_all(Dest::New, this, false).map(Made::new_tensor))?;
    lib.cpu_meta("nanmedian", |this: &Tensor| median_of_all(Dest::New, this, true).map(Made::new_tensor))?;
    lib.cpu_meta("median.out", |this: &Tensor, out: &Tensor| {
        median_of_all(Dest::Out(out), this, false).map(drop)
    })?;
    lib.cpu_meta("nanmedian.out", |this: &Tensor, out: &Tensor| {
        median_of_all(Dest::Out(out), this, true).map(drop)
    })
}

/// What becomes of each line of elements.
#[derive(Clone, Copy)]
enum Order {
    Sort { descending: bool },
    Top { k: i64, largest: bool },
    Nth { k: i64 },
    Median { ignore_nan: bool },
    Mode,
}

impl Order {
    fn operator(self) -> &'static str {
        match self {
            Self::Sort { .. } => "sort",
            Self::Top { .. } => "topk",
            Self::Nth { .. } => "kthvalue",
            Self::Median { .. } => "median",
            Self::Mode => "mode",
        }
    }

    /// How many elements of a line of `len` remain.
    fn remaining(self, len: i64, dim: usize) -> Result<i64> {
        match self {
            Self::Sort { .. } => Ok(len),
            Self::Top { k, .. } if (0..=len).contains(&k) => Ok(k),
            Self::Top { .. } => Err(Error::invalid_argument("selected index k out of range")),
            Self::Nth { k } if k < 1 || k > len => Err(Error::invalid_argument(format!(
                "kthvalue(): selected number k out of range for dimension {dim}: {k} of {len}"
            ))),
            _ if len == 0 => Err(Error::index(format!(
                "{}(): Expected reduction dim {dim} to have non-zero size.",
                self.operator()
            ))),
            _ => Ok(1),
        }
    }
}

fn check_ordered(operator: &str, dtype: ScalarType) -> Result<()> {
    if dtype.is_complex() {
        return Err(Error::not_implemented(format!("{operator}(): complex numbers have no order")));
    }
    Ok(())
}

/// Values and indices with as many elements along the dimension as remain.
fn by_order(dests: Pair<'_>, this: &Tensor, dim: i64, order: Order) -> Result<[Made; 2]> {
    check_ordered(order.operator(), this.dtype())?;
    let dim = shape::wrap_dim(dim, this.rank())?;
    let mut sizes = this.sizes();
    let remaining = order.remaining(sizes.get(dim).copied().unwrap_or(1), dim)?;
    // A tensor of no dimension has its one element whatever is asked for.
    if let Some(size) = sizes.get_mut(dim) {
        *size = remaining;
    }
    let strides = match order {
        Order::Sort { .. } => shape::dense_strides_like(&sizes, &this.strides())?,
        _ => shape::contiguous_strides(&sizes)?,
    };
    write(dests, this, dim, order, &sizes, &strides, &sizes)
}

/// Values and indices with one element along the dimension, which remains on request.
fn one(dests: Pair<'_>, this: &Tensor, dim: i64, keepdim: bool, order: Order) -> Result<[Made; 2]> {
    check_ordered(order.operator(), this.dtype())?;
    let dim = shape::wrap_dim(dim, this.rank())?;
    let mut kept = this.sizes();
    let len = kept.get(dim).copied().unwrap_or(1);
    order.remaining(len, dim)?;
    if let Some(size) = kept.get_mut(dim) {
        *size = 1;
    }
    let mut sizes = kept.clone();
    if !keepdim && !sizes.is_empty() {
        sizes.remove(dim);
    }
    let strides = shape::contiguous_strides(&sizes)?;
    write(dests, this, dim, order, &sizes, &strides, &kept)
}

/// Makes outputs of `sizes`, and writes them as of `kept`, which has the dimension.
fn write(
    dests: Pair<'_>,
    this: &Tensor,
    dim: usize,
    order: Order,
    sizes: &Dims,
    strides: &Dims,
    kept: &Dims,
) -> Result<[Made; 2]> {
    let [values, indices] = dests;
    values.check_dtype(this.dtype())?;
    indices.check_dtype(ScalarType::Int64)?;
    let new = |dtype| New::strided(sizes.clone(), strides.clone(), dtype, this.device());
    let values = values.output(new(this.dtype()), &[this])?;
    let indices = indices.output(new(ScalarType::Int64), &[this, values.tensor()])?;
    if !values.is_meta() && values.tensor().numel() > 0 {
        let src = super::index_values::at_least_1d(&bools_as_bytes(this)?)?;
        let [to, at] = [with_dim(values.tensor(), dim, kept)?, with_dim(indices.tensor(), dim, kept)?];
        let fresh = if values.fresh() == Fresh::No { Fresh::No } else { indices.fresh() };
        access([&src], [&to, &at], fresh, |[src], [to, at]| {
            let (lines, scalar) = (Lines::new(&src, dim), this.rank() == 0);
            dispatch!(
                src_dtype(this.dtype()),
                order.operator(),
                [u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64],
                T => lines.reorder::<T>(to, at, |line| match order {
                    Order::Sort { descending } => sort::sort(line, descending),
                    // As many as the results have room for.
                    Order::Top { k, largest } => sort::top(line, k.max(i64::from(scalar)) as usize, largest),
                    Order::Nth { k } => sort::nth(line, k as usize - 1),
                    Order::Median { ignore_nan } => sort::median(line, ignore_nan),
                    Order::Mode => sort::mode(line),
                })
            )
        })?;
    }
    Ok([values.finish()?, indices.finish()?])
}

/// Truth values are ordered as the bytes 0 and 1.
fn src_dtype(dtype: ScalarType) -> ScalarType {
    if dtype == ScalarType::Bool { ScalarType::UInt8 } else { dtype }
}

fn bools_as_bytes(tensor: &Tensor) -> Result<Tensor> {
    tensor.to_dtype(src_dtype(tensor.dtype()))
}

/// A view that has the dimension which the sizes lack, and one dimension at least.
fn with_dim(tensor: &Tensor, dim: usize, kept: &Dims) -> Result<Tensor> {
    if kept.is_empty() {
        return super::index_values::at_least_1d(tensor);
    }
    let mut strides = tensor.strides();
    if strides.len() < kept.len() {
        strides.insert(dim, 0);
    }
    tensor.view_of(kept.clone(), strides, tensor.storage_offset())
}

fn median_of_all(dest: Dest<'_>, this: &Tensor, ignore_nan: bool) -> Result<Made> {
    check_ordered("median", this.dtype())?;
    if this.numel() == 0 {
        let out = dest.output(New::contiguous([], this.dtype(), this.device()), &[this])?;
        // What PyTorch's processors make of a NaN where the dtype has none.
        let nothing = match this.dtype() {
            ScalarType::Int64 => i64::MIN.into(),
            ScalarType::Int32 => i32::MIN.into(),
            dtype if dtype.is_floating_point() => f64::NAN.into(),
            _ => 0.into(),
        };
        super::new_options::fill_fresh(out.tensor(), nothing)?;
        return out.finish();
    }
    let flat = this.to_contiguous()?;
    let flat = flat.view_of(Dims::from([this.numel()]), Dims::from([1]), flat.storage_offset())?;
    let [values, _] = one([dest, Dest::New], &flat, 0, false, Order::Median { ignore_nan })?;
    Ok(values)
}
