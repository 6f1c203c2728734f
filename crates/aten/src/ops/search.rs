//! Places in sorted sequences, and counts: `searchsorted`, `bucketize`, `bincount`, `histc`.

use std::cmp::Ordering;

use c10_core::{Scalar, ScalarType, bf16, f16};

use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::Input;
use crate::iter::loops::dispatch;
use crate::iter::promote::ResultType;
use crate::kernels::cpu::combine::Combine;
use crate::reserve::reserved;
use crate::tensor::{Dims, New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, searchsorted,
        (sorted: &Tensor, this: &Tensor, out_int32: bool, right: bool, side: Option<&str>, sorter: Option<&Tensor>),
        functional "searchsorted.Tensor", out "searchsorted.Tensor_out");
    register_triple!(lib, searchsorted_scalar,
        (sorted: &Tensor, this: Scalar, out_int32: bool, right: bool, side: Option<&str>, sorter: Option<&Tensor>),
        functional "searchsorted.Scalar", out "searchsorted.Scalar_out");
    register_triple!(lib, bucketize, (this: &Tensor, boundaries: &Tensor, out_int32: bool, right: bool),
        functional "bucketize.Tensor", out "bucketize.Tensor_out");
    register_triple!(lib, bucketize_scalar, (this: Scalar, boundaries: &Tensor, out_int32: bool, right: bool),
        functional "bucketize.Scalar", out "bucketize.Scalar_out");
    lib.cpu_meta("bincount", bincount)?;
    register_triple!(lib, histc, (this: &Tensor, bins: i64, min: Scalar, max: Scalar),
        functional "histc", out "histc.out");
    Ok(())
}

fn searchsorted_scalar(
    dest: Dest<'_>,
    sorted: &Tensor,
    this: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Made> {
    if sorted.rank() != 1 {
        return Err(Error::shape("a number can be searched in a sequence of one dimension alone"));
    }
    let (sorted, this) = common(sorted, this)?;
    searchsorted(dest, &sorted, &this, out_int32, right, side, sorter)
}

/// A sequence and a number in the dtype that both have in common.
fn common(sorted: &Tensor, number: Scalar) -> Result<(Tensor, Tensor)> {
    let dtype =
        ResultType::of_inputs(&[Input::Tensor(sorted), Input::Number(number)])?.unwrap_or(sorted.dtype());
    let tensor = New::contiguous([], dtype, sorted.device()).make()?;
    super::new_options::fill_fresh(&tensor, number)?;
    Ok((sorted.to_dtype(dtype)?, tensor))
}

fn bucketize(
    dest: Dest<'_>,
    this: &Tensor,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Made> {
    if boundaries.rank() != 1 {
        return Err(Error::shape(format!(
            "boundaries tensor must be 1 dimension, but got dim({})",
            boundaries.rank()
        )));
    }
    searchsorted(dest, boundaries, this, out_int32, right, None, None)
}

fn bucketize_scalar(
    dest: Dest<'_>,
    this: Scalar,
    boundaries: &Tensor,
    out_int32: bool,
    right: bool,
) -> Result<Made> {
    let (boundaries, this) = common(boundaries, this)?;
    bucketize(dest, &this, &boundaries, out_int32, right)
}

fn searchsorted(
    dest: Dest<'_>,
    sorted: &Tensor,
    this: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Made> {
    let right = match side {
        None => right,
        Some("left") if right => {
            return Err(Error::invalid_argument(
                "side and right can't be set to opposites, got side of left while right was True",
            ));
        }
        Some("left") => false,
        Some("right") => true,
        Some(other) => {
            return Err(Error::invalid_argument(format!(
                "side can only be 'left' or 'right' but got {other}"
            )));
        }
    };
    check_sequence(sorted, this, sorter)?;
    let dtype = if out_int32 { ScalarType::Int32 } else { ScalarType::Int64 };
    dest.check_dtype(dtype)?;
    let new = New::contiguous(this.sizes(), dtype, this.device());
    let len = sorted.sizes().last().copied().unwrap_or(1);
    if out_int32 && len > i64::from(i32::MAX) {
        return Err(Error::invalid_argument(
            "the size of boundaries' last dimension exceeds the largest int32",
        ));
    }
    if this.is_meta() {
        return dest.output(new, &[])?.finish();
    }
    let places: Vec<i64> = dispatch!(
        sorted.dtype(),
        "searchsorted",
        [u8, i8, i16, i32, i64, f16, bf16, f32, f64],
        T => {
            let order: Option<Vec<i64>> = sorter.map(Tensor::to_vec).transpose()?;
            if let Some(order) = &order
                && order.iter().any(|&at| at < 0 || at >= len)
            {
                return Err(Error::index("torch.searchsorted(): sorter index out of range"));
            }
            let (sequence, values) = (sorted.to_vec::<T>()?, this.to_vec::<T>()?);
            let row = if sorted.rank() <= 1 { usize::MAX } else { this.sizes().last().map_or(1, |&n| n as usize) };
            let len = len as usize;
            Ok::<_, Error>(values.iter().enumerate().map(|(i, &value)| {
                let begin = if row == usize::MAX { 0 } else { i / row.max(1) * len };
                let at = |k: usize| match &order {
                    Some(order) => sequence[begin + order[begin + k] as usize],
                    None => sequence[begin + k],
                };
                lower_end(len, |k| passes(at(k), value, right)) as i64
            }).collect())
        }
    )?;
    let out = dest.output(new, &[sorted, this])?;
    access([], [out.tensor()], out.fresh(), |[], [to]| {
        match out_int32 {
            true => to.slice::<i32>()?.iter_mut().zip(&places).for_each(|(to, &place)| *to = place as i32),
            false => to.slice::<i64>()?.copy_from_slice(&places),
        }
        Ok(())
    })?;
    out.finish()
}

/// Whether a value goes behind an element of the sequence; a NaN goes behind all.
fn passes<T: PartialOrd>(element: T, value: T, right: bool) -> bool {
    match element.partial_cmp(&value) {
        Some(Ordering::Greater) => false,
        Some(Ordering::Equal) => right,
        _ => true,
    }
}

/// How many of `len` begin with `passes` being true.
fn lower_end(len: usize, passes: impl Fn(usize) -> bool) -> usize {
    let (mut start, mut end) = (0, len);
    while start < end {
        let middle = start + (end - start) / 2;
        if passes(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

fn check_sequence(sorted: &Tensor, this: &Tensor, sorter: Option<&Tensor>) -> Result<()> {
    if sorted.dtype() != this.dtype() {
        return Err(Error::dtype(format!(
            "torch.searchsorted(): boundary tensor and input value tensor should have same dtype, but got {} and {}",
            sorted.dtype().name(),
            this.dtype().name()
        )));
    }
    if let Some(sorter) = sorter
        && (sorter.sizes() != sorted.sizes() || sorter.dtype() != ScalarType::Int64)
    {
        return Err(Error::shape(
            "torch.searchsorted(): sorter must be int64 and of the sizes of the boundary tensor",
        ));
    }
    let (sizes, values) = (sorted.sizes(), this.sizes());
    if sizes.is_empty() {
        return Err(Error::shape("torch.searchsorted(): boundaries tensor should have positive dimension"));
    }
    let lead = sizes.len() - 1;
    if sizes.len() == 1 || (values.len() == sizes.len() && values[..lead] == sizes[..lead]) {
        return Ok(());
    }
    Err(Error::shape(format!(
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries \
         tensor and input value tensor must match, but got {sizes:?} and {values:?}"
    )))
}

fn bincount(this: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<Tensor> {
    if minlength < 0 {
        return Err(Error::invalid_argument("minlength should be >= 0"));
    }
    if this.rank() != 1 || !this.dtype().is_integral(false) {
        return Err(Error::invalid_argument("bincount only supports 1-d non-negative integral inputs."));
    }
    if weights.is_some_and(|weights| weights.sizes() != this.sizes()) {
        return Err(Error::shape("weights should be 1-d and have the same length as input"));
    }
    if this.is_meta() {
        return Err(Error::not_implemented("how many counts there are is not known of a meta tensor"));
    }
    let values = super::index_values::values(this)?;
    if values.iter().any(|&value| value < 0) {
        return Err(Error::invalid_argument("bincount only supports 1-d non-negative integral inputs."));
    }
    let len = values.iter().max().map_or(0, |&max| max.saturating_add(1)).max(minlength);
    let dtype = match weights.map(Tensor::dtype) {
        None => ScalarType::Int64,
        Some(ScalarType::Float32) => ScalarType::Float32,
        Some(_) => ScalarType::Float64,
    };
    let out = New::contiguous([len], dtype, this.device()).make()?;
    super::new_options::fill_fresh(&out, 0.into())?;
    dispatch!(dtype, "bincount", [i64, f32, f64], T => {
        let weights: Option<Vec<T>> = match weights {
            Some(weights) => Some(weights.to_dtype(dtype)?.to_vec()?),
            None => None,
        };
        access([], [&out], crate::tensor::Fresh::Yes, |[], [to]| {
            let to = to.slice::<T>()?;
            for (i, &value) in values.iter().enumerate() {
                let weight = weights.as_ref().map_or(T::of_count(1), |weights| weights[i]);
                to[value as usize] += weight;
            }
            Ok(())
        })
    })?;
    Ok(out)
}

fn histc(dest: Dest<'_>, this: &Tensor, bins: i64, min: Scalar, max: Scalar) -> Result<Made> {
    if bins <= 0 {
        return Err(Error::invalid_argument(format!("torch.histc(): bins must be > 0, but got {bins}")));
    }
    if matches!(this.dtype(), ScalarType::Float16 | ScalarType::BFloat16) {
        let counts = histc(Dest::New, &this.to_dtype(ScalarType::Float32)?, bins, min, max)?.new_tensor();
        let out = dest.output(New::contiguous([bins], this.dtype(), this.device()), &[this])?;
        out.copy_from(&counts)?;
        return out.finish();
    }
    let (min, max) = (min.to::<f64>()?, max.to::<f64>()?);
    let new = New::contiguous(Dims::from([bins]), this.dtype(), this.device());
    dispatch!(this.dtype(), "histogram_cpu", [f32, f64], T => {
        if this.is_meta() {
            return dest.output(new, &[])?.finish();
        }
        let values: Vec<T> = this.to_vec()?;
        let (mut low, mut high) = (min as T, max as T);
        if low == high && !values.is_empty() {
            low = values.iter().copied().fold(values[0], |a, b| if b.is_nan() || b < a { b } else { a });
            high = values.iter().copied().fold(values[0], |a, b| if b.is_nan() || b > a { b } else { a });
        }
        if low == high {
            low -= 1.0;
            high += 1.0;
        }
        if !low.is_finite() || !high.is_finite() {
            return Err(Error::invalid_argument(format!("torch.histc: range of [{low}, {high}] is not finite")));
        }
        if low > high {
            return Err(Error::invalid_argument("torch.histc: max must be larger than min"));
        }
        let mut counts = reserved(bins as usize)?;
        counts.resize(bins as usize, T::of_count(0));
        for value in values.into_iter().filter(|value| *value >= low && *value <= high) {
            let at = ((value - low) * bins as T / (high - low)) as usize;
            counts[at.min(bins as usize - 1)] += T::of_count(1);
        }
        let out = dest.output(new, &[this])?;
        access([], [out.tensor()], out.fresh(), |[], [to]| {
            to.slice::<T>()?.copy_from_slice(&counts);
            Ok(())
        })?;
        out.finish()
    })
}
