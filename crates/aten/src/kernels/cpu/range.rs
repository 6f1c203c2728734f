//! Numbers in a row.

use c10_core::{Complex, Element, Scalar, bf16, f16};

use crate::error::Result;

/// How one number follows another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// By a distance (`arange`).
    By { start: Scalar, step: Scalar },
    /// So many numbers from `start` to `end`, both included (`linspace`); with a base, its powers (`logspace`).
    Between { start: Scalar, end: Scalar, steps: i64, base: Option<f64> },
}

/// An element of which there can be a row.
pub(crate) trait Progression: Element {
    /// Fills `out` with the numbers from the first on.
    fn fill(out: &mut [Self], step: Step) -> Result<()>;
}

/// The `i`-th of `steps` numbers, from the nearer end, so that both ends are exact.
#[inline]
fn between(start: f64, end: f64, distance: f64, i: i64, steps: i64) -> f64 {
    if i < steps / 2 { start + distance * i as f64 } else { end - distance * (steps - 1 - i) as f64 }
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Progression for $int {
            fn fill(out: &mut [Self], step: Step) -> Result<()> {
                match step {
                    Step::By { start, step } => {
                        let (start, step) = (start.to::<i64>()?, step.to::<i64>()?);
                        let mut next = start;
                        for element in out {
                            *element = next as Self;
                            next = next.wrapping_add(step);
                        }
                    }
                    Step::Between { start, end, steps, base } => {
                        let (start, end) = (start.to::<Self>()? as f64, end.to::<Self>()? as f64);
                        let distance = (end - start) / (steps - 1) as f64;
                        for (i, element) in out.iter_mut().enumerate() {
                            let value =
                                if steps == 1 { start } else { between(start, end, distance, i as i64, steps) };
                            *element = base.map_or(value, |base| base.powf(value)) as Self;
                        }
                    }
                }
                Ok(())
            }
        }
    )*};
}
integers!(u8, i8, i16, i32, i64);

macro_rules! floats {
    ($($float:ty, $of:expr;)*) => {$(
        impl Progression for $float {
            fn fill(out: &mut [Self], step: Step) -> Result<()> {
                match step {
                    Step::By { start, step } => {
                        let (start, step) = (start.to::<f64>()?, step.to::<f64>()?);
                        for (i, element) in out.iter_mut().enumerate() {
                            *element = $of(start + step * i as f64);
                        }
                    }
                    Step::Between { start, end, steps, base } => {
                        let (start, end): (f64, f64) = (start.to::<Self>()?.into(), end.to::<Self>()?.into());
                        let distance = (end - start) / (steps - 1) as f64;
                        for (i, element) in out.iter_mut().enumerate() {
                            let value =
                                if steps == 1 { start } else { between(start, end, distance, i as i64, steps) };
                            *element = $of(base.map_or(value, |base| base.powf(value)));
                        }
                    }
                }
                Ok(())
            }
        }
    )*};
}
floats! {
    f16, |x: f64| Self::from_f32(x as f32);
    bf16, |x: f64| Self::from_f32(x as f32);
    f32, |x: f64| x as Self;
    f64, |x: f64| x;
}

macro_rules! complex_numbers {
    ($($float:ty),*) => {$(
        impl Progression for Complex<$float> {
            fn fill(out: &mut [Self], step: Step) -> Result<()> {
                let Step::Between { start, end, steps, base } = step else {
                    return Err(crate::iter::loops::no_kernel("arange", Self::SCALAR_TYPE));
                };
                let (start, end) = (start.to::<Self>()?, end.to::<Self>()?);
                let (start, end): (Complex<f64>, Complex<f64>) =
                    (start.map(Into::into), end.map(Into::into));
                let distance = |start: f64, end: f64| (end - start) / (steps - 1) as f64;
                let (re, im) = (distance(start.re, end.re), distance(start.im, end.im));
                for (i, element) in out.iter_mut().enumerate() {
                    let i = i as i64;
                    let value = if steps == 1 {
                        start
                    } else {
                        Complex::new(
                            between(start.re, end.re, re, i, steps),
                            between(start.im, end.im, im, i, steps),
                        )
                    };
                    let value = base.map_or(value, |base| power(base, value));
                    *element = value.map(|part| part as $float);
                }
                Ok(())
            }
        }
    )*};
}
complex_numbers!(f32, f64);

/// A real number to a complex power.
fn power(base: f64, exponent: Complex<f64>) -> Complex<f64> {
    let (radius, angle) = (base.powf(exponent.re), exponent.im * base.abs().ln());
    Complex::new(radius * angle.cos(), radius * angle.sin())
}
