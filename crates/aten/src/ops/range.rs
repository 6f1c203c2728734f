//! Numbers in a row: `arange`, `range`, `linspace`, `logspace`; `eye`.

use c10_core::{Complex, Device, Layout, Scalar, ScalarType, bf16, f16};

use super::factory::options;
use super::new_options::{Options, checked_sizes, fill_fresh};
use super::{Dest, Made};
use crate::dispatch::Library;
use crate::error::{Error, ErrorKind, Result};
use crate::iter::loops::dispatch;
use crate::kernels::cpu::range::{Progression, Step};
use crate::shape;
use crate::tensor::{Dims, Fresh, New, Tensor, access, default_dtype};

type Dtype = Option<ScalarType>;
type Lay = Option<Layout>;
type Dev = Option<Device>;
type Pin = Option<bool>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_arange(lib)?;
    register_spaces(lib)?;
    lib.all_backends("eye", |n: i64, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
        eye(n, n, options!(dtype, layout, device, pin))
    })?;
    lib.all_backends("eye.m", |n: i64, m: i64, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
        eye(n, m, options!(dtype, layout, device, pin))
    })?;
    lib.all_backends("eye.out", |n: i64, out: &Tensor| {
        eye_to(Dest::Out(out), n, n, out.dtype(), out.device()).map(drop)
    })?;
    lib.all_backends("eye.m_out", |n: i64, m: i64, out: &Tensor| {
        eye_to(Dest::Out(out), n, m, out.dtype(), out.device()).map(drop)
    })
}

fn register_arange(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("arange", |end: Scalar, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
        arange(0.into(), end, 1.into(), options!(dtype, layout, device, pin))
    })?;
    lib.all_backends(
        "arange.start",
        |start: Scalar, end: Scalar, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            arange(start, end, 1.into(), options!(dtype, layout, device, pin))
        },
    )?;
    lib.all_backends(
        "arange.start_step",
        |start: Scalar, end: Scalar, step: Scalar, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            arange(start, end, step, options!(dtype, layout, device, pin))
        },
    )?;
    lib.all_backends("arange.out", |end: Scalar, out: &Tensor| arange_out(0.into(), end, 1.into(), out))?;
    lib.all_backends("arange.start_out", |start: Scalar, end: Scalar, step: Scalar, out: &Tensor| {
        arange_out(start, end, step, out)
    })?;
    lib.all_backends(
        "range.step",
        |start: Scalar, end: Scalar, step: Scalar, dtype: Dtype, layout: Lay, device: Dev, pin: Pin| {
            let (dtype, device) = options!(dtype, layout, device, pin).or_default()?;
            let count = count(start, end, step)?.last_included();
            progression(Dest::New, count, dtype, device, Step::By { start, step }).map(Made::new_tensor)
        },
    )
}

fn register_spaces(lib: &mut Library<'_>) -> Result<()> {
    macro_rules! bounds {
        ($start:ident: $start_type:ty, $end:ident: $end_type:ty, $linspace:literal, $linspace_out:literal, $logspace:literal, $logspace_out:literal) => {
            lib.all_backends(
                $linspace,
                |$start: $start_type,
                 $end: $end_type,
                 steps: i64,
                 dtype: Dtype,
                 layout: Lay,
                 device: Dev,
                 pin: Pin| {
                    let bounds = (bound($start)?, bound($end)?);
                    space(bounds, steps, None, options!(dtype, layout, device, pin))
                },
            )?;
            lib.all_backends(
                $linspace_out,
                |$start: $start_type, $end: $end_type, steps: i64, out: &Tensor| {
                    space_out((bound($start)?, bound($end)?), steps, None, out)
                },
            )?;
            lib.all_backends(
                $logspace,
                |$start: $start_type,
                 $end: $end_type,
                 steps: i64,
                 base: f64,
                 dtype: Dtype,
                 layout: Lay,
                 device: Dev,
                 pin: Pin| {
                    let bounds = (bound($start)?, bound($end)?);
                    space(bounds, steps, Some(base), options!(dtype, layout, device, pin))
                },
            )?;
            lib.all_backends(
                $logspace_out,
                |$start: $start_type, $end: $end_type, steps: i64, base: f64, out: &Tensor| {
                    space_out((bound($start)?, bound($end)?), steps, Some(base), out)
                },
            )?;
        };
    }
    bounds!(start: Scalar, end: Scalar, "linspace", "linspace.out", "logspace", "logspace.out");
    bounds!(start: &Tensor, end: &Tensor,
        "linspace.Tensor_Tensor", "linspace.Tensor_Tensor_out", "logspace.Tensor_Tensor", "logspace.Tensor_Tensor_out");
    bounds!(start: &Tensor, end: Scalar,
        "linspace.Tensor_Scalar", "linspace.Tensor_Scalar_out", "logspace.Tensor_Scalar", "logspace.Tensor_Scalar_out");
    bounds!(start: Scalar, end: &Tensor,
        "linspace.Scalar_Tensor", "linspace.Scalar_Tensor_out", "logspace.Scalar_Tensor", "logspace.Scalar_Tensor_out");
    Ok(())
}

/// A bound of `linspace`: a number, or the one element of a tensor of no dimension.
trait Bound {
    fn scalar(self) -> Result<Scalar>;
}

impl Bound for Scalar {
    fn scalar(self) -> Result<Scalar> {
        Ok(self)
    }
}

impl Bound for &Tensor {
    fn scalar(self) -> Result<Scalar> {
        if self.rank() != 0 {
            return Err(Error::shape(format!(
                "linspace and logspace only support 0-dimensional start and end tensors, but got one of {} dimensions",
                self.rank()
            )));
        }
        self.item()
    }
}

fn bound(bound: impl Bound) -> Result<Scalar> {
    bound.scalar()
}

/// How many steps there are between two numbers.
struct Count {
    /// Up to the end, which is not reached.
    steps: i64,
    /// The end itself is reached.
    exact: bool,
}

impl Count {
    /// The count with an end that belongs to the range.
    fn last_included(self) -> i64 {
        if self.exact { self.steps.saturating_add(1) } else { self.steps }
    }
}

/// Counts in `f64` from the numbers as they are given; integers exactly.
fn count(start: Scalar, end: Scalar, step: Scalar) -> Result<Count> {
    if let (Scalar::Int(start), Scalar::Int(end), Scalar::Int(step)) = (start, end, step) {
        let distance = i128::from(end) - i128::from(start);
        check_direction(distance as f64, step as f64)?;
        let step = i128::from(step);
        let steps = (distance + step - step.signum()) / step;
        return Ok(Count {
            steps: i64::try_from(steps).map_err(|_| too_many())?,
            exact: distance % step == 0,
        });
    }
    let [start, end, step] = [start, end, step].map(|number| number.to::<f64>());
    let (start, end, step) = (start?, end?, step?);
    if !start.is_finite() || !end.is_finite() {
        return Err(Error::invalid_argument(format!("unsupported range: {start} -> {end}")));
    }
    check_direction(end - start, step)?;
    let steps = (end - start) / step;
    if steps.is_nan() || steps >= i64::MAX as f64 {
        return Err(too_many());
    }
    Ok(Count { steps: steps.ceil() as i64, exact: steps.fract() == 0.0 })
}

#[cold]
fn too_many() -> Error {
    Error::new(ErrorKind::Overflow, "invalid size, possible overflow?")
}

fn check_direction(distance: f64, step: f64) -> Result<()> {
    if step == 0.0 || step.is_nan() {
        return Err(Error::invalid_argument("step must be nonzero"));
    }
    if (step > 0.0 && distance < 0.0) || (step < 0.0 && distance > 0.0) {
        return Err(Error::invalid_argument("upper bound and lower bound inconsistent with step sign"));
    }
    Ok(())
}

fn arange(start: Scalar, end: Scalar, step: Scalar, options: Options) -> Result<Tensor> {
    let integral = [start, end, step].iter().all(|number| number.is_integral(true));
    let dtype = if integral { ScalarType::Int64 } else { default_dtype() };
    let (dtype, device) = options.or(dtype, Device::CPU)?;
    let count = count_of(start, end, step)?;
    progression(Dest::New, count, dtype, device, Step::By { start, step }).map(Made::new_tensor)
}

fn count_of(start: Scalar, end: Scalar, step: Scalar) -> Result<i64> {
    // Truth values count as integers.
    let [start, end, step] = [start, end, step].map(|number| match number {
        Scalar::Bool(value) => Scalar::from(i64::from(value)),
        other => other,
    });
    Ok(count(start, end, step)?.steps)
}

fn arange_out(start: Scalar, end: Scalar, step: Scalar, out: &Tensor) -> Result<()> {
    let count = count_of(start, end, step)?;
    progression(Dest::Out(out), count, out.dtype(), out.device(), Step::By { start, step }).map(drop)
}

fn space(bounds: (Scalar, Scalar), steps: i64, base: Option<f64>, options: Options) -> Result<Tensor> {
    let complex = bounds.0.is_complex() || bounds.1.is_complex();
    let dtype = if complex { default_dtype().to_complex()? } else { default_dtype() };
    let (dtype, device) = options.or(dtype, Device::CPU)?;
    if complex && !dtype.is_complex() {
        return Err(Error::dtype(format!("complex bounds cannot give elements of {}", dtype.name())));
    }
    space_to(Dest::New, bounds, steps, base, dtype, device).map(Made::new_tensor)
}

fn space_out(bounds: (Scalar, Scalar), steps: i64, base: Option<f64>, out: &Tensor) -> Result<()> {
    space_to(Dest::Out(out), bounds, steps, base, out.dtype(), out.device()).map(drop)
}

fn space_to(
    dest: Dest<'_>,
    (start, end): (Scalar, Scalar),
    steps: i64,
    base: Option<f64>,
    dtype: ScalarType,
    device: Device,
) -> Result<Made> {
    if steps < 0 {
        return Err(Error::invalid_argument("number of steps must be non-negative"));
    }
    progression(dest, steps, dtype, device, Step::Between { start, end, steps, base })
}

/// A tensor of so many numbers. A given one of as many elements keeps its sizes.
fn progression(dest: Dest<'_>, count: i64, dtype: ScalarType, device: Device, step: Step) -> Result<Made> {
    let sizes = match dest.given() {
        Some(given) if given.numel() == count => given.sizes(),
        _ => Dims::from([count]),
    };
    let out = dest.output(New::contiguous(sizes, dtype, device), &[])?;
    if !device.is_cpu() && !out.is_meta() {
        return elsewhere(dest, count, dtype, device, step);
    }
    if !out.is_meta() {
        access([], [out.tensor()], out.fresh(), |[], [to]| {
            dispatch!(
                dtype,
                "arange",
                [u8, i8, i16, i32, i64, f16, bf16, f32, f64, Complex<f32>, Complex<f64>],
                T => T::fill(to.slice::<T>()?, step)
            )
        })?;
    }
    out.finish()
}

/// On another device the numbers are made here and copied there.
fn elsewhere(dest: Dest<'_>, count: i64, dtype: ScalarType, device: Device, step: Step) -> Result<Made> {
    let here = progression(Dest::New, count, dtype, Device::CPU, step)?.new_tensor();
    let out = dest.output(New::contiguous([count], dtype, device), &[])?;
    out.copy_from(&here)?;
    out.finish()
}

fn eye(n: i64, m: i64, options: Options) -> Result<Tensor> {
    let (dtype, device) = options.or_default()?;
    eye_to(Dest::New, n, m, dtype, device).map(Made::new_tensor)
}

fn eye_to(dest: Dest<'_>, n: i64, m: i64, dtype: ScalarType, device: Device) -> Result<Made> {
    if n < 0 || m < 0 {
        return Err(Error::invalid_argument(format!("n must be greater or equal to 0, got {n} and {m}")));
    }
    let out = dest.output(New::contiguous(checked_sizes(&[n, m])?, dtype, device), &[])?;
    fill_fresh(out.tensor(), 0.into())?;
    let diagonal = out.tensor().view_of(
        Dims::from([n.min(m)]),
        Dims::from([shape::contiguous_strides(&[n, m])?.iter().sum::<i64>()]),
        out.tensor().storage_offset(),
    )?;
    if diagonal.device().is_cpu() && diagonal.numel() > 0 {
        let one = Tensor::from_slice(&[1_u8], &[])?.to_dtype(dtype)?;
        access([&one], [&diagonal], Fresh::Yes, |[one], [to]| {
            crate::tensor::for_words!(dtype, W => {
                let (one, step) = (one.elements::<W>()?[0], to.strides()[0] as usize);
                to.elements::<W>()?.iter_mut().step_by(step).for_each(|element| *element = one);
                Ok(())
            })
        })?;
    } else {
        super::handles::FILL__SCALAR.call(&diagonal, 1.into())?;
    }
    out.finish()
}
