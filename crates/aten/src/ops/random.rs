//! Elements drawn in place: `uniform_`, `normal_`, `random_`, `bernoulli_` and kin.

use c10_core::{Element, ScalarType, bf16, f16};

use super::index::expanded;
use super::view_copy::copied;
use super::{Dest, Made};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::iter::overlap::check_no_internal_overlap;
use crate::kernels::cpu::random;
use crate::math;
use crate::random::{Continuous, Discrete, Draws, Generator, Uniform};
use crate::tensor::{Dims, Fresh, New, Tensor};

type Gen<'a> = Option<&'a Generator>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_integers(lib)?;
    register_continuous(lib)?;
    register_bernoulli(lib)
}

/// The generator given, or the default one.
pub(super) fn or_default(generator: Gen<'_>) -> Generator {
    generator.cloned().unwrap_or_else(Generator::default_cpu)
}

fn register_integers(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("random_", |this: &Tensor, generator: Gen<'_>| random_whole(this, generator))?;
    lib.cpu_meta("random_.to", |this: &Tensor, to: i64, generator: Gen<'_>| {
        random_from_to(this, 0, Some(to), generator)
    })?;
    lib.cpu_meta("random_.from", |this: &Tensor, from: i64, to: Option<i64>, generator: Gen<'_>| {
        random_from_to(this, from, to, generator)
    })?;
    lib.cpu_meta("geometric_", |this: &Tensor, p: f64, generator: Gen<'_>| {
        if p.is_nan() || p <= 0.0 || p >= 1.0 {
            return Err(Error::invalid_argument(format!("geometric_ expects p to be in (0, 1), but got p={p}")));
        }
        if this.is_meta() {
            return Ok(());
        }
        check_no_internal_overlap(this)?;
        dispatch!(this.dtype(), "geometric_cpu", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T => {
            random::fill::<T>(this, Fresh::No, &or_default(generator), |draws| T::from_real(draws.geometric(p)))
        })
    })
}

fn register_continuous(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("uniform_", |this: &Tensor, from: f64, to: f64, generator: Gen<'_>| {
        uniform(this, from, to, generator)
    })?;
    lib.cpu_meta("normal_", |this: &Tensor, mean: f64, std: f64, generator: Gen<'_>| {
        normal(this, Fresh::No, mean, std, generator)
    })?;
    lib.cpu_meta("exponential_", |this: &Tensor, lambd: f64, generator: Gen<'_>| {
        if !this.dtype().is_floating_point() {
            return Err(Error::dtype(format!(
                "Exponential distribution is a continuous probability distribution. dtype must be a floating point \
                 but you specified {}",
                this.dtype().name()
            )));
        }
        check_positive("exponential_ expects lambda", lambd)?;
        by_f64(this, "exponential_cpu", generator, |draws| draws.exponential(lambd))
    })?;
    lib.cpu_meta("cauchy_", |this: &Tensor, median: f64, sigma: f64, generator: Gen<'_>| {
        if !this.dtype().is_floating_point() {
            return Err(Error::dtype(format!(
                "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you \
                 specified {}",
                this.dtype().name()
            )));
        }
        check_positive("cauchy_ expects sigma", sigma)?;
        by_f64(this, "cauchy_cpu", generator, |draws| draws.cauchy(median, sigma))
    })?;
    lib.cpu_meta("log_normal_", |this: &Tensor, mean: f64, std: f64, generator: Gen<'_>| {
        check_positive("log_normal_ expects std", std)?;
        by_f64(this, "log_normal_cpu", generator, |draws| draws.log_normal(mean, std))
    })
}

fn check_positive(what: &str, value: f64) -> Result<()> {
    if value > 0.0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("{what} > 0.0, but found {value}")))
}

/// A distribution that is computed in `f64` and rounded.
fn by_f64(
    this: &Tensor,
    name: &str,
    generator: Gen<'_>,
    mut draw: impl FnMut(&mut Draws<'_>) -> f64,
) -> Result<()> {
    check_no_internal_overlap(this)?;
    dispatch!(this.dtype(), name, [f16, bf16, f32, f64], T => {
        if this.is_meta() {
            return Ok(());
        }
        random::fill::<T>(this, Fresh::No, &or_default(generator), |draws| T::from_real(draw(draws)))
    })
}

/// Parts of complex elements as real ones; others as they are.
fn as_real(tensor: &Tensor) -> Result<Tensor> {
    if !tensor.dtype().is_complex() {
        return Ok(tensor.clone());
    }
    let (mut sizes, mut strides) = (tensor.sizes(), tensor.strides());
    strides.iter_mut().for_each(|stride| *stride *= 2);
    sizes.push(2);
    strides.push(1);
    let offset = tensor.storage_offset() * 2;
    Tensor::from_storage(tensor.storage(), tensor.dtype().to_real(), &sizes, &strides, offset)
}

fn uniform(this: &Tensor, from: f64, to: f64, generator: Gen<'_>) -> Result<()> {
    check_no_internal_overlap(this)?;
    let real = as_real(this)?;
    dispatch!(real.dtype(), "check_uniform_bounds", [f16, bf16, f32, f64], T => {
        let max = math::to_f64(T::MAX);
        for (name, bound) in [("from", from), ("to", to)] {
            if !(-max..=max).contains(&bound) {
                return Err(Error::invalid_argument(format!(
                    "{name} is out of bounds for {}: {bound}", real.dtype().name()
                )));
            }
        }
        if from > to {
            return Err(Error::invalid_argument(format!(
                "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
            )));
        }
        if to - from > max {
            return Err(Error::invalid_argument(format!(
                "uniform_ expects to - from to be no more than the largest {}, but found to={to} and from={from}",
                real.dtype().name()
            )));
        }
        if this.is_meta() {
            return Ok(());
        }
        let uniform = Uniform::<T>::new(from, to);
        random::fill::<T>(&real, Fresh::No, &or_default(generator), |draws| uniform.sample(draws))
    })
}

/// Fills with normal numbers; the variance of complex ones is that of both parts together.
pub(super) fn normal(this: &Tensor, fresh: Fresh, mean: f64, std: f64, generator: Gen<'_>) -> Result<()> {
    if std.is_nan() || std < 0.0 {
        return Err(Error::invalid_argument(format!("normal expects std >= 0.0, but found std {std}")));
    }
    check_no_internal_overlap(this)?;
    let real = as_real(this)?;
    let std = if this.dtype().is_complex() { std / std::f64::consts::SQRT_2 } else { std };
    dispatch!(real.dtype(), "normal_kernel_cpu", [f16, bf16, f32, f64], T => {
        if this.is_meta() {
            return Ok(());
        }
        random::fill_normal::<T>(&real, fresh, &or_default(generator), mean, std)
    })
}

/// Calls `$body` with `$T` being the element and `$put` what turns a drawn one into what is stored: a `bool` is
/// stored as a byte.
macro_rules! for_discrete {
    ($dtype:expr, $operator:expr, [$($element:ty),*], $T:ident, $put:ident => $body:expr) => {
        match $dtype {
            ScalarType::Bool => {
                type $T = bool;
                let $put = u8::from;
                $body
            }
            dtype => dispatch!(dtype, $operator, [$($element),*], $T => {
                let $put = |element: $T| element;
                $body
            }),
        }
    };
}

fn random_whole(this: &Tensor, generator: Gen<'_>) -> Result<()> {
    check_no_internal_overlap(this)?;
    for_discrete!(this.dtype(), "random_kernel_cpu", [u8, i8, i16, i32, i64, f16, bf16, f32, f64], T, put => {
        if this.is_meta() {
            return Ok(());
        }
        random::fill(this, Fresh::No, &or_default(generator), |draws| put(T::random(draws)))
    })
}

fn random_from_to(this: &Tensor, from: i64, to: Option<i64>, generator: Gen<'_>) -> Result<()> {
    check_no_internal_overlap(this)?;
    if let Some(to) = to
        && from >= to
    {
        return Err(Error::invalid_argument(format!(
            "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
        )));
    }
    if to.is_none() && from == i64::MIN {
        if this.is_meta() {
            return Ok(());
        }
        let generator = or_default(generator);
        return dispatch!(this.dtype(), "random_full_64_bits_range_kernel_cpu", [i64, bf16, f32, f64], T => {
            random::fill::<T>(this, Fresh::No, &generator, T::random_of_64_bits)
        });
    }
    for_discrete!(
        this.dtype(),
        "random_from_to",
        [u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64],
        T,
        put => {
            let (lowest, highest) = bounds(this.dtype());
            let last = to.map_or(default_last(this.dtype()), |to| i128::from(to) - 1);
            for (name, bound) in [("from", i128::from(from)), ("to - 1", last)] {
                if bound < lowest || bound > highest {
                    return Err(Error::invalid_argument(format!(
                        "{name} is out of bounds for {}: {bound}",
                        this.dtype().name()
                    )));
                }
            }
            if last < i128::from(from) {
                return Err(Error::invalid_argument(format!(
                    "random_ expects 'from' to be no more than the largest {}, but got {from}",
                    this.dtype().name()
                )));
            }
            let (from, range) = match to {
                Some(to) => {
                    let (from, to) = T::exact_bounds(from, to);
                    (from, i128::from(to) - i128::from(from))
                }
                None => (from, last + 1 - i128::from(from)),
            };
            let Some(range) = u64::try_from(range).ok().and_then(std::num::NonZeroU64::new) else {
                return Err(Error::invalid_argument(format!(
                    "{} has no number from {from} to {last}",
                    this.dtype().name()
                )));
            };
            if this.is_meta() {
                return Ok(());
            }
            random::fill(this, Fresh::No, &or_default(generator), |draws| put(T::random_from_to(draws, range, from)))
        }
    )
}

/// The least and the greatest integer that a dtype holds, exactly or rounded.
fn bounds(dtype: ScalarType) -> (i128, i128) {
    match dtype {
        ScalarType::Bool => (0, 1),
        ScalarType::UInt8 => (0, u8::MAX.into()),
        ScalarType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        ScalarType::UInt16 => (0, u16::MAX.into()),
        ScalarType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        ScalarType::UInt32 => (0, u32::MAX.into()),
        ScalarType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        ScalarType::UInt64 => (0, u64::MAX.into()),
        ScalarType::Float16 => (-65504, 65504),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// The last integer of `random_(from, None)`: the greatest of an integer type, or two to the number of bits in the
/// significand of a float.
fn default_last(dtype: ScalarType) -> i128 {
    match dtype {
        ScalarType::Float16 => 1 << f16::MANTISSA_DIGITS,
        ScalarType::BFloat16 => 1 << bf16::MANTISSA_DIGITS,
        ScalarType::Float32 => 1 << f32::MANTISSA_DIGITS,
        ScalarType::Float64 => 1 << f64::MANTISSA_DIGITS,
        dtype => bounds(dtype).1.min(i64::MAX.into()),
    }
}

fn register_bernoulli(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("bernoulli_.float", |this: &Tensor, p: f64, generator: Gen<'_>| {
        bernoulli(this, Fresh::No, p, generator)
    })?;
    lib.cpu_meta("bernoulli_.Tensor", |this: &Tensor, p: &Tensor, generator: Gen<'_>| {
        bernoulli_by(this, Fresh::No, p, generator)
    })?;
    lib.cpu_meta("bernoulli", |p: &Tensor, generator: Gen<'_>| {
        let out = New::contiguous(p.sizes(), p.dtype(), p.device()).make()?;
        bernoulli_by(&out, Fresh::Yes, p, generator)?;
        Ok(out)
    })?;
    lib.cpu_meta("bernoulli.out", |p: &Tensor, generator: Gen<'_>, out: &Tensor| {
        let new = New::contiguous(p.sizes(), out.dtype(), p.device());
        let made = Dest::Out(out).output(new, &[p])?;
        bernoulli_by(made.tensor(), made.fresh(), p, generator)?;
        made.finish().map(drop)
    })?;
    lib.cpu_meta("bernoulli.p", |this: &Tensor, p: f64, generator: Gen<'_>| {
        let out = New::contiguous(this.sizes(), this.dtype(), this.device()).make()?;
        bernoulli(&out, Fresh::Yes, p, generator)?;
        Ok(out)
    })
}

/// Ones where an event of probability `p` comes about, zeros elsewhere.
pub(super) fn bernoulli(this: &Tensor, fresh: Fresh, p: f64, generator: Gen<'_>) -> Result<()> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::invalid_argument(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")));
    }
    check_no_internal_overlap(this)?;
    for_discrete!(
        this.dtype(),
        "bernoulli_scalar_cpu_",
        [u8, i8, i16, i32, i64, f16, bf16, f32, f64],
        T,
        put => {
            if this.is_meta() {
                return Ok(());
            }
            random::fill(this, fresh, &or_default(generator), |draws| {
                put(T::from_integer(draws.bernoulli(p).into()))
            })
        }
    )
}

fn bernoulli_by(this: &Tensor, fresh: Fresh, p: &Tensor, generator: Gen<'_>) -> Result<()> {
    check_no_internal_overlap(this)?;
    let p = expanded(p, &this.sizes()).ok_or_else(|| {
        Error::shape(format!("probabilities of {:?} do not expand to {:?}", p.sizes(), this.sizes()))
    })??;
    if this.is_meta() {
        return Ok(());
    }
    // A tensor's own probabilities are read before they are written.
    let p = if p.is_alias_of(this) { copied(&p)? } else { p };
    dispatch!(p.dtype(), "bernoulli_tensor_cpu_p_", [f16, bf16, f32, f64], P => {
        check_probabilities::<P>(&p)?;
        for_discrete!(
            this.dtype(),
            "bernoulli_tensor_cpu_self_",
            [u8, i8, i16, i32, i64, f16, bf16, f32, f64],
            T,
            put => random::fill_by(this, fresh, &p, &or_default(generator), |draws, p: P| {
                let event = match P::SCALAR_TYPE {
                    ScalarType::Float64 => draws.bernoulli(math::to_f64(p)),
                    _ => draws.bernoulli_f32(math::to_f64(p) as f32),
                };
                put(T::from_integer(event.into()))
            })
        )
    })
}

fn check_probabilities<P: Continuous + Into<f64>>(p: &Tensor) -> Result<()> {
    let elements: Vec<P> = p.to_vec()?;
    match elements.into_iter().map(Into::into).find(|p: &f64| !(0.0..=1.0).contains(p)) {
        None => Ok(()),
        Some(p) => Err(Error::invalid_argument(format!("Expected p_in >= 0 && p_in <= 1, but got {p}"))),
    }
}

/// A tensor of the sizes, filled by one of the above.
pub(super) fn made(
    dest: Dest<'_>,
    sizes: Dims,
    like: &Tensor,
    fill: impl FnOnce(&Tensor, Fresh) -> Result<()>,
) -> Result<Made> {
    let out = dest.output(New::contiguous(sizes, like.dtype(), like.device()), &[like])?;
    fill(out.tensor(), out.fresh())?;
    out.finish()
}
