//! Draws by parameters in tensors: `normal(mean, std)`, `multinomial`; and `native_dropout`.

use c10_core::{Complex, Device, Layout, ScalarType, bf16, f16};

use super::factory::options;
use super::new_options::Options;
use super::random::{bernoulli, made, normal, or_default};
use super::{Dest, Made};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::{self, dispatch};
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::cpu::random;
use crate::math;
use crate::random::{Continuous, CumulativeDistribution, Discrete, Generator, first_categories};
use crate::reserve::reserved;
use crate::shape;
use crate::tensor::{Fresh, New, Plain, Tensor, access};

type Gen<'a> = Option<&'a Generator>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_normal(lib)?;
    lib.cpu_meta("multinomial", |this: &Tensor, count: i64, replacement: bool, generator: Gen<'_>| {
        multinomial(Dest::New, this, count, replacement, generator).map(Made::new_tensor)
    })?;
    lib.cpu_meta(
        "multinomial.out",
        |this: &Tensor, count: i64, replacement: bool, generator: Gen<'_>, out: &Tensor| {
            multinomial(Dest::Out(out), this, count, replacement, generator).map(drop)
        },
    )?;
    lib.cpu_meta("native_dropout", |input: &Tensor, p: f64, train: Option<bool>| {
        native_dropout(input, p, train)
    })?;
    Ok(())
}

fn register_normal(lib: &mut Library<'_>) -> Result<()> {
    lib.cpu_meta("normal.Tensor_Tensor", |mean: &Tensor, std: &Tensor, generator: Gen<'_>| {
        normal_of(Dest::New, mean, std, generator).map(Made::new_tensor)
    })?;
    lib.cpu_meta(
        "normal.Tensor_Tensor_out",
        |mean: &Tensor, std: &Tensor, generator: Gen<'_>, out: &Tensor| {
            normal_of(Dest::Out(out), mean, std, generator).map(drop)
        },
    )?;
    lib.cpu_meta("normal.Tensor_float", |mean: &Tensor, std: f64, generator: Gen<'_>| {
        normal_about(Dest::New, mean, std, generator).map(Made::new_tensor)
    })?;
    lib.cpu_meta("normal.Tensor_float_out", |mean: &Tensor, std: f64, generator: Gen<'_>, out: &Tensor| {
        normal_about(Dest::Out(out), mean, std, generator).map(drop)
    })?;
    lib.cpu_meta("normal.float_Tensor", |mean: f64, std: &Tensor, generator: Gen<'_>| {
        normal_wide(Dest::New, mean, std, generator).map(Made::new_tensor)
    })?;
    lib.cpu_meta("normal.float_Tensor_out", |mean: f64, std: &Tensor, generator: Gen<'_>, out: &Tensor| {
        normal_wide(Dest::Out(out), mean, std, generator).map(drop)
    })?;
    lib.all_backends(
        "normal.float_float",
        |mean: f64,
         std: f64,
         size: &[i64],
         generator: Gen<'_>,
         dtype: Option<ScalarType>,
         layout: Option<Layout>,
         device: Option<Device>,
         pin: Option<bool>| {
            let tensor = options!(dtype, layout, device, pin).empty(size)?;
            super::handles::NORMAL_.call(&tensor, mean, std, generator)?;
            Ok(tensor)
        },
    )?;
    lib.all_backends(
        "normal.float_float_out",
        |mean: f64, std: f64, size: &[i64], generator: Gen<'_>, out: &Tensor| {
            let sizes = super::new_options::checked_sizes(size)?;
            if out.sizes() != sizes {
                out.resize_for_output(&sizes, &shape::contiguous_strides(&sizes)?)?;
            }
            super::handles::NORMAL_.call(out, mean, std, generator)
        },
    )
}

/// A number as a tensor of no dimension that goes along with another.
fn number_like(value: f64, like: &Tensor) -> Result<Tensor> {
    let tensor = New::contiguous([], like.dtype(), like.device()).make()?;
    super::new_options::fill_fresh(&tensor, value.into())?;
    Ok(tensor)
}

fn check_std(std: &Tensor) -> Result<()> {
    if std.dtype().is_complex() {
        return Err(Error::dtype("normal expects standard deviation to be non-complex"));
    }
    if std.is_meta() {
        return Ok(());
    }
    let values: Vec<f64> = std.to_dtype(ScalarType::Float64)?.to_vec()?;
    match values.iter().find(|value| **value < 0.0) {
        None => Ok(()),
        Some(value) => Err(Error::invalid_argument(format!(
            "normal expects all elements of std >= 0.0, but found {value}"
        ))),
    }
}

fn normal_of(dest: Dest<'_>, mean: &Tensor, std: &Tensor, generator: Gen<'_>) -> Result<Made> {
    check_std(std)?;
    let sizes = shape::broadcast(&mean.sizes(), &std.sizes())?;
    made(dest, sizes, mean, |out, fresh| {
        normal(out, fresh, 0.0, 1.0, generator)?;
        scale_and_shift(out, std, mean)
    })
}

fn normal_about(dest: Dest<'_>, mean: &Tensor, std: f64, generator: Gen<'_>) -> Result<Made> {
    made(dest, mean.sizes(), mean, |out, fresh| {
        normal(out, fresh, 0.0, std, generator)?;
        scale_and_shift(out, &number_like(1.0, mean)?, mean)
    })
}

fn normal_wide(dest: Dest<'_>, mean: f64, std: &Tensor, generator: Gen<'_>) -> Result<Made> {
    check_std(std)?;
    made(dest, std.sizes(), std, |out, fresh| {
        normal(out, fresh, 0.0, 1.0, generator)?;
        scale_and_shift(out, std, &number_like(mean, std)?)
    })
}

/// `out = out * std + mean`, rounded after each step.
fn scale_and_shift(out: &Tensor, std: &Tensor, mean: &Tensor) -> Result<()> {
    if out.is_meta() {
        return Ok(());
    }
    let (std, mean) = (std.to_dtype(out.dtype())?, mean.to_dtype(out.dtype())?);
    let inputs = [Input::Tensor(out), Input::Tensor(&std), Input::Tensor(&mean)];
    let iter = TensorIter::new(&[Dest::InPlace(out)], &inputs, Config::SAME)?;
    match out.dtype() {
        ScalarType::Complex64 => scale_complex::<f32>(&iter)?,
        ScalarType::Complex128 => scale_complex::<f64>(&iter)?,
        dtype => dispatch!(dtype, "normal", [f16, bf16, f32, f64], T => {
            loops::ternary(&iter, |z: T, std: T, mean: T| z * std + mean)
        })?,
    }
    iter.finish().map(drop)
}

fn scale_complex<F>(iter: &TensorIter<'_>) -> Result<()>
where
    F: std::ops::Mul<Output = F> + std::ops::Add<Output = F> + Copy,
    Complex<F>: loops::Elem,
{
    loops::ternary(iter, |z: Complex<F>, std: Complex<F>, mean: Complex<F>| {
        Complex::new(z.re * std.re + mean.re, z.im * std.re + mean.im)
    })
}

fn multinomial(
    dest: Dest<'_>,
    this: &Tensor,
    count: i64,
    replacement: bool,
    generator: Gen<'_>,
) -> Result<Made> {
    let sizes = this.sizes();
    if !matches!(sizes.len(), 1 | 2) {
        return Err(Error::shape("prob_dist must be 1 or 2 dim"));
    }
    if !this.dtype().is_floating_point() {
        return Err(Error::dtype(format!(
            "multinomial only supports floating-point dtypes for input, got: {}",
            this.dtype().name()
        )));
    }
    dest.check_dtype(ScalarType::Int64)?;
    let categories = sizes[sizes.len() - 1];
    if count <= 0 {
        return Err(Error::invalid_argument("cannot sample n_sample <= 0 samples"));
    }
    if !replacement && count > categories {
        return Err(Error::invalid_argument(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
        ));
    }
    if categories > 1 << 24 {
        return Err(Error::invalid_argument("number of categories cannot exceed 2^24"));
    }
    let mut out_sizes = sizes.clone();
    out_sizes[sizes.len() - 1] = count;
    let new = New::contiguous(out_sizes, ScalarType::Int64, this.device());
    if this.is_meta() {
        return dest.output(new, &[])?.finish();
    }
    dispatch!(this.dtype(), "multinomial", [f16, bf16, f32, f64], T => {
        let rows: Vec<T> = this.to_vec()?;
        let rows = || rows.chunks(categories.max(1) as usize);
        // Everything is checked before anything is drawn.
        let distributions: Vec<_> =
            rows().map(|row| CumulativeDistribution::try_new(row.iter().copied())).collect::<Result<_, _>>()?;
        let total = usize::try_from(count).ok().and_then(|count| count.checked_mul(distributions.len()));
        let mut drawn: Vec<i64> = reserved(total.unwrap_or(usize::MAX))?;
        let generator = or_default(generator);
        if replacement && count > 1 {
            generator.draw(|draws| {
                for distribution in &distributions {
                    drawn.extend((0..count).map(|_| distribution.sample(draws) as i64));
                }
            });
        } else {
            let times = waiting_times::<T>(this, &generator)?;
            let times = times.chunks(categories.max(1) as usize);
            let first = rows().zip(times).flat_map(|(row, times)| first_categories(row, times, count as usize));
            drawn.extend(first.map(|at| at as i64));
        }
        let out = dest.output(new, &[this])?;
        access([], [out.tensor()], out.fresh(), |[], [to]| {
            to.slice::<i64>()?.copy_from_slice(&drawn);
            Ok(())
        })?;
        out.finish()
    })
}

/// Exponential numbers for each weight, in row-major order; they are drawn in the order of memory of a tensor that
/// is laid out like the weights.
fn waiting_times<T: Continuous + Plain>(weights: &Tensor, generator: &Generator) -> Result<Vec<T>> {
    let sizes = weights.sizes();
    let strides = shape::dense_strides_like(&sizes, &weights.strides())?;
    let times = New::strided(sizes, strides, weights.dtype(), weights.device()).make()?;
    random::fill::<T>(&times, Fresh::Yes, generator, |draws| T::from_real(draws.exponential(1.0)))?;
    times.to_vec()
}

fn native_dropout(input: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::invalid_argument(format!(
            "dropout probability has to be between 0 and 1, but got {p}"
        )));
    }
    let strides = input.dense_strides()?;
    let mask = New::strided(input.sizes(), strides, ScalarType::Bool, input.device()).make()?;
    if train == Some(false) {
        super::new_options::fill_fresh(&mask, 1.into())?;
        return Ok((masked(input, &mask, 1.0)?, mask));
    }
    bernoulli(&mask, Fresh::Yes, 1.0 - p, None)?;
    let scale = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
    Ok((masked(input, &mask, scale)?, mask))
}

/// `input * mask * scale`.
fn masked(input: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    if mask.dtype() != ScalarType::Bool {
        return Err(Error::dtype(format!("Mask should be Bool Scalar Type, not {}", mask.dtype().name())));
    }
    let inputs = [Input::Tensor(input), Input::Uncast(mask)];
    let iter = TensorIter::new(&[Dest::New], &inputs, Config::OWN_DTYPES.with_output_dtype(input.dtype()))?;
    if !iter.is_meta() {
        match input.dtype() {
            ScalarType::Complex64 => mask_complex::<f32>(&iter, scale)?,
            ScalarType::Complex128 => mask_complex::<f64>(&iter, scale)?,
            dtype => dispatch!(dtype, "native_dropout", [f16, bf16, f32, f64], T => {
                loops::binary(&iter, |a: T, keep: bool| {
                    let kept = a * T::from_integer(keep.into());
                    T::from_real(math::to_f64(kept) * scale)
                })
            })?,
        }
    }
    Ok(iter.finish()?.new_tensor())
}

fn mask_complex<F: Continuous + std::ops::Mul<Output = F>>(iter: &TensorIter<'_>, scale: f64) -> Result<()>
where
    Complex<F>: loops::Elem,
{
    let scale = F::from_real(scale);
    loops::binary(iter, |a: Complex<F>, keep: bool| {
        let factor = F::from_integer(keep.into()) * scale;
        Complex::new(a.re * factor, a.im * factor)
    })
}
