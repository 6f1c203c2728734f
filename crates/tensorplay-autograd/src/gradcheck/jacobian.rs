//! [`Jacobian`]: the derivatives of all elements of an output with respect to all of an input.

use std::fmt;

use aten::Tensor;
use c10_core::Complex;

use super::options::GradcheckOptions;

/// Which part of an output is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Real,
    Imaginary,
}

impl Part {
    pub(super) fn of(self, value: Complex<f64>) -> f64 {
        match self {
            Self::Real => value.re,
            Self::Imaginary => value.im,
        }
    }

    /// The gradient of this part of a number with respect to the number.
    pub(super) fn gradient(self) -> Complex<f64> {
        match self {
            Self::Real => Complex::new(1.0, 0.0),
            Self::Imaginary => Complex::new(0.0, 1.0),
        }
    }
}

/// A row for each element of the input, a column for each of the output.
#[derive(Clone, Debug)]
pub(super) struct Jacobian {
    rows: usize,
    columns: usize,
    /// Whether the input is complex.
    is_complex: bool,
    values: Vec<Complex<f64>>,
}

impl Jacobian {
    pub(super) fn zeros(input: &Tensor, columns: usize) -> Self {
        let rows = input.numel() as usize;
        let values = vec![Complex::new(0.0, 0.0); rows * columns];
        Self { rows, columns, is_complex: input.dtype().is_complex(), values }
    }

    pub(super) fn set(&mut self, row: usize, column: usize, value: Complex<f64>) {
        self.values[row * self.columns + column] = value;
    }

    pub(super) fn is_zero(&self) -> bool {
        self.values.iter().all(|value| value.re == 0.0 && value.im == 0.0)
    }

    /// Whether it is near enough to a numerical one. A NaN is near to nothing.
    pub(super) fn is_close_to(&self, numerical: &Self, options: &GradcheckOptions) -> bool {
        self.values.iter().zip(&numerical.values).all(|(a, n)| {
            let distance = norm(Complex::new(a.re - n.re, a.im - n.im));
            let tolerance = options.atol + options.rtol * norm(*n);
            a == n || distance <= tolerance && tolerance.is_finite()
        })
    }

    /// Whether none of the values differ by more. NaNs are passed over.
    pub(super) fn is_within(&self, other: &Self, tolerance: f64) -> bool {
        let distance = |(a, b): (&Complex<f64>, &Complex<f64>)| norm(Complex::new(a.re - b.re, a.im - b.im));
        !self.values.iter().zip(&other.values).map(distance).any(|distance| distance > tolerance)
    }
}

impl fmt::Display for Jacobian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = [self.rows as i64, self.columns as i64];
        let tensor = if self.is_complex {
            Tensor::from_slice(&self.values, &sizes)
        } else {
            let real: Vec<f64> = self.values.iter().map(|value| value.re).collect();
            Tensor::from_slice(&real, &sizes)
        };
        tensor.map_err(|_| fmt::Error)?.fmt(f)
    }
}

fn norm(value: Complex<f64>) -> f64 {
    value.re.hypot(value.im)
}
