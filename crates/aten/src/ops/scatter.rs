//! `gather`, and the family of `scatter` that is its inverse.

use c10_core::{Element, Scalar, ScalarType};

use super::index_values::{at_least_1d, check_index_dtype, size_at, values_below};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::combine::{Combine, Reduction, for_combination};
use crate::kernels::cpu::index;
use crate::shape;
use crate::tensor::{Dims, New, Tensor, access, for_words};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, gather, (this: &Tensor, dim: i64, index: &Tensor, sparse_grad: bool),
        functional "gather", out "gather.out");
    register_triple!(lib, scatter_src, (this: &Tensor, dim: i64, index: &Tensor, src: &Tensor),
        functional "scatter.src", inplace "scatter_.src", out "scatter.src_out");
    register_triple!(lib, scatter_value, (this: &Tensor, dim: i64, index: &Tensor, value: Scalar),
        functional "scatter.value", inplace "scatter_.value", out "scatter.value_out");
    register_triple!(lib, scatter_src_reduce,
        (this: &Tensor, dim: i64, index: &Tensor, src: &Tensor, reduce: &str),
        functional "scatter.reduce", inplace "scatter_.reduce", out "scatter.reduce_out");
    register_triple!(lib, scatter_value_reduce,
        (this: &Tensor, dim: i64, index: &Tensor, value: Scalar, reduce: &str),
        functional "scatter.value_reduce", inplace "scatter_.value_reduce", out "scatter.value_reduce_out");
    register_triple!(lib, scatter_add, (this: &Tensor, dim: i64, index: &Tensor, src: &Tensor),
        functional "scatter_add", inplace "scatter_add_", out "scatter_add.out");
    register_triple!(lib, scatter_reduce,
        (this: &Tensor, dim: i64, index: &Tensor, src: &Tensor, reduce: &str, include_self: bool),
        functional "scatter_reduce.two", inplace "scatter_reduce_.two", out "scatter_reduce.two_out");
    Ok(())
}

fn gather(dest: Dest<'_>, this: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool) -> Result<Made> {
    dest.check_dtype(this.dtype())?;
    let dim = shape::wrap_dim(dim, this.rank())?;
    let empty = index.numel() == 0;
    if !empty {
        check_index_dtype("gather", index)?;
        check_ranks("gather", this, index)?;
        for d in (0..index.rank()).filter(|&d| d != dim) {
            if size_at(index, d) > size_at(this, d) {
                return Err(Error::shape(format!(
                    "Size does not match at dimension {d} expected index {:?} to be no larger than self {:?} \
                     apart from dimension {dim}",
                    index.sizes(),
                    this.sizes()
                )));
            }
        }
    }
    let new = New::contiguous(index.sizes(), this.dtype(), this.device());
    let at = if empty || this.is_meta() { Vec::new() } else { values_below(index, size_at(this, dim), dim)? };
    let out = dest.output(new, &[this, index])?;
    if !out.is_meta() && !empty {
        let (src, to) = (at_least_1d(this)?, at_least_1d(out.tensor())?);
        access(
            [&src],
            [&to],
            out.fresh(),
            |[src], [to]| for_words!(this.dtype(), W => index::gather::<W>(to, &src, &at, dim)),
        )?;
    }
    out.finish()
}

fn check_ranks(operator: &str, this: &Tensor, other: &Tensor) -> Result<()> {
    if this.rank().max(1) == other.rank().max(1) {
        return Ok(());
    }
    Err(Error::shape(format!(
        "{operator}(): Index tensor must have the same number of dimensions as self tensor, not {} and {}",
        other.rank(),
        this.rank()
    )))
}

/// What is scattered.
#[derive(Clone, Copy)]
enum Source<'a> {
    Tensor(&'a Tensor),
    Value(Scalar),
}

/// How a call of the family goes.
struct Scatter<'a> {
    operator: &'static str,
    this: &'a Tensor,
    dim: i64,
    index: &'a Tensor,
    source: Source<'a>,
    reduction: Reduction,
    include_self: bool,
}

fn scatter_src(dest: Dest<'_>, this: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Made> {
    let (source, reduction) = (Source::Tensor(src), Reduction::Replace);
    Scatter { operator: "scatter", this, dim, index, source, reduction, include_self: true }.run(dest)
}

fn scatter_value(dest: Dest<'_>, this: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Made> {
    let (source, reduction) = (Source::Value(value), Reduction::Replace);
    Scatter { operator: "scatter", this, dim, index, source, reduction, include_self: true }.run(dest)
}

const OLD_NAMES: [(&str, Reduction); 2] = [("add", Reduction::Sum), ("multiply", Reduction::Prod)];

fn scatter_src_reduce(
    dest: Dest<'_>,
    this: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Made> {
    let (source, reduction) = (Source::Tensor(src), Reduction::from_name(reduce, &OLD_NAMES)?);
    Scatter { operator: "scatter", this, dim, index, source, reduction, include_self: true }.run(dest)
}

fn scatter_value_reduce(
    dest: Dest<'_>,
    this: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Made> {
    let (source, reduction) = (Source::Value(value), Reduction::from_name(reduce, &OLD_NAMES)?);
    Scatter { operator: "scatter", this, dim, index, source, reduction, include_self: true }.run(dest)
}

fn scatter_add(dest: Dest<'_>, this: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Made> {
    let (source, reduction) = (Source::Tensor(src), Reduction::Sum);
    Scatter { operator: "scatter_add", this, dim, index, source, reduction, include_self: true }.run(dest)
}

/// The names that `scatter_reduce` and `index_reduce` know.
pub(super) const REDUCTIONS: [(&str, Reduction); 5] = [
    ("sum", Reduction::Sum),
    ("prod", Reduction::Prod),
    ("mean", Reduction::Mean),
    ("amax", Reduction::Max),
    ("amin", Reduction::Min),
];

fn scatter_reduce(
    dest: Dest<'_>,
    this: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Made> {
    let (source, reduction) = (Source::Tensor(src), Reduction::from_name(reduce, &REDUCTIONS)?);
    if matches!(reduction, Reduction::Max | Reduction::Min) && this.dtype().is_complex() {
        return Err(Error::dtype("complex numbers have no order"));
    }
    Scatter { operator: "scatter_reduce", this, dim, index, source, reduction, include_self }.run(dest)
}

impl Scatter<'_> {
    fn run(self, dest: Dest<'_>) -> Result<Made> {
        let Self { this, index, .. } = self;
        let dim = shape::wrap_dim(self.dim, this.rank())?;
        self.check(dim)?;
        let empty = index.numel() == 0;
        let strides = shape::contiguous_strides(&this.sizes())?;
        let at =
            if empty || this.is_meta() { Vec::new() } else { values_below(index, size_at(this, dim), dim)? };
        let others: &[&Tensor] = match &self.source {
            Source::Tensor(src) => &[index, src],
            Source::Value(_) => &[index],
        };
        let out = dest.output_from(this, strides, others)?;
        if !out.is_meta() && !empty {
            self.fill(out.tensor(), out.fresh(), &at, dim)?;
        }
        out.finish()
    }

    fn check(&self, dim: usize) -> Result<()> {
        let Self { operator, this, index, .. } = *self;
        if let Source::Tensor(src) = self.source
            && src.dtype() != this.dtype()
        {
            return Err(Error::dtype(format!(
                "{operator}(): Expected self.dtype to be equal to src.dtype, not {} and {}",
                this.dtype().name(),
                src.dtype().name()
            )));
        }
        if index.numel() == 0 {
            return Ok(());
        }
        check_index_dtype(operator, index)?;
        check_ranks(operator, this, index)?;
        let fits = |of: &Tensor, d: usize| size_at(index, d) <= size_at(of, d);
        let in_this = (0..index.rank()).all(|d| d == dim || fits(this, d));
        let in_src = match self.source {
            Source::Tensor(src) => {
                check_ranks(operator, src, index)?;
                (0..index.rank()).all(|d| fits(src, d))
            }
            Source::Value(_) => true,
        };
        if in_this && in_src {
            return Ok(());
        }
        Err(Error::shape(format!(
            "Expected index {:?} to be no larger than self {:?} apart from dimension {dim}, and no larger than src",
            index.sizes(),
            this.sizes()
        )))
    }

    /// Writes the elements that the index names.
    fn fill(&self, out: &Tensor, fresh: crate::tensor::Fresh, at: &[i64], dim: usize) -> Result<()> {
        let (to, dtype) = (at_least_1d(out)?, self.this.dtype());
        let sizes = at_least_1d(self.index)?.sizes();
        match self.source {
            Source::Value(value) => {
                let zeros = Dims::filled(0, sizes.len());
                for_combination!(dtype, self.operator, self.reduction, T, f => {
                    let value = element::<T>(value, dtype)?;
                    access([], [&to], fresh, |[], [to]| {
                        index::scatter(&sizes, to, &[value], &zeros, at, dim, f)
                    })
                })
            }
            Source::Tensor(src) => {
                let src = at_least_1d(src)?;
                if self.reduction == Reduction::Replace {
                    return access([&src], [&to], fresh, |[src], [to]| {
                        for_words!(dtype, W => {
                            let strides = src.strides();
                            index::scatter(&sizes, to, src.elements::<W>()?, strides, at, dim, |_, b| b)
                        })
                    });
                }
                for_combination!(dtype, self.operator, self.reduction, T, f => {
                    self.reduce::<T>(&to, &src, fresh, &sizes, at, dim, f)
                })
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what `fill` has found out")]
    fn reduce<T: Combine>(
        &self,
        to: &Tensor,
        src: &Tensor,
        fresh: crate::tensor::Fresh,
        sizes: &[i64],
        at: &[i64],
        dim: usize,
        f: impl Fn(T, T) -> T,
    ) -> Result<()> {
        let mut counts = if self.reduction == Reduction::Mean {
            Some(Counts::new(&to.sizes(), self.include_self)?)
        } else {
            None
        };
        if let Some(counts) = &mut counts {
            counts.add(sizes, at, dim);
        }
        if !self.include_self {
            let start = T::identity(self.reduction);
            let zeros = Dims::filled(0, sizes.len());
            access([], [to], fresh, |[], [to]| {
                index::scatter(sizes, to, &[start], &zeros, at, dim, |_, b| b)
            })?;
        }
        access([src], [to], fresh, |[src], [to]| {
            index::scatter(sizes, to, src.elements::<T>()?, src.strides(), at, dim, f)
        })?;
        match counts {
            Some(counts) => access([], [to], fresh, |[], [to]| counts.divide::<T>(to)),
            None => Ok(()),
        }
    }
}

/// A number as an element; of a `bool` tensor, as a byte.
pub(super) fn element<T: Element>(value: Scalar, dtype: ScalarType) -> Result<T> {
    if dtype == ScalarType::Bool {
        return Ok(Scalar::from(i64::from(value.to::<bool>()?)).to::<T>()?);
    }
    Ok(value.to::<T>()?)
}

/// How many elements have met in each place, for means.
pub(super) struct Counts {
    sizes: Dims,
    strides: Dims,
    counts: Vec<i64>,
}

impl Counts {
    /// One in each place if what was there counts.
    pub(super) fn new(sizes: &[i64], include_self: bool) -> Result<Self> {
        let numel = c10_core::bytes::numel(sizes)? as usize;
        let strides = shape::contiguous_strides(sizes)?;
        Ok(Self { sizes: sizes.into(), strides, counts: vec![i64::from(include_self); numel] })
    }

    /// One more in each place that the index names.
    fn add(&mut self, sizes: &[i64], at: &[i64], dim: usize) {
        let mut strides = self.strides.clone();
        let step = std::mem::take(&mut strides[dim]) as usize;
        let mut at = at.iter();
        crate::kernels::cpu::strided::for_each(sizes, [&strides], |[o]| {
            self.counts[o + at.next().map_or(0, |&at| at as usize) * step] += 1;
        });
    }

    /// One more in each place of the slices at `at`.
    pub(super) fn add_slices(&mut self, at: &[i64], dim: usize) {
        let mut sizes = self.sizes.clone();
        sizes[dim] = 1;
        for &at in at {
            let begin = (at * self.strides[dim]) as usize;
            crate::kernels::cpu::strided::for_each(&sizes, [&self.strides], |[o]| {
                self.counts[begin + o] += 1
            });
        }
    }

    /// Divides the sums by their counts.
    pub(super) fn divide<T: Combine>(&self, out: crate::tensor::Write<'_>) -> Result<()> {
        let strides = Dims::from(out.strides());
        let out = out.elements::<T>()?;
        crate::kernels::cpu::strided::for_each(&self.sizes, [&strides, &self.strides], |[o, k]| {
            if self.counts[k] > 1 {
                out[o] = out[o].over(self.counts[k]);
            }
        });
        Ok(())
    }
}
