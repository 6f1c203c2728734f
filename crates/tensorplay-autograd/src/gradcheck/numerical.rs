//! Derivatives by central differences.

use aten::{Error, Result, Tensor};
use c10_core::Complex;

use super::function::{Function, elements, scalar, with_elements};
use super::jacobian::{Jacobian, Part};
use crate::mode::no_grad;

/// How each output changes with each element of one input.
pub(super) struct Differences {
    input: Tensor,
    /// By output, then by element of the input.
    real: Vec<Vec<Row>>,
    /// Of changes of the imaginary part, where the input is complex.
    imaginary: Vec<Vec<Row>>,
}

/// How the elements of one output change.
type Row = Vec<Complex<f64>>;

impl Differences {
    /// Changes one element of `input` after the other. `outputs` are what is to be looked at, and how it is without a
    /// change.
    pub(super) fn of(function: &Function<'_>, input: &Tensor, outputs: &Outputs, eps: f64) -> Result<Self> {
        let is_complex = input.dtype().is_complex();
        let mut differences = Self {
            input: input.clone(),
            real: vec![Vec::new(); outputs.len()],
            imaginary: vec![Vec::new(); outputs.len()],
        };
        let sizes = input.sizes();
        for (flat, value) in elements(input)?.into_iter().enumerate() {
            let index = unraveled(flat, &sizes);
            let place = no_grad(|| index.iter().try_fold(input.detach()?, |view, at| view.select(0, *at)))?;
            let at = |change: Complex<f64>| {
                let changed = Complex::new(value.re + change.re, value.im + change.im);
                let set = |value| no_grad(|| place.fill_scalar_(scalar(value, is_complex)).map(drop));
                set(changed)?;
                let result = outputs.evaluate(function, &format!("on index {index:?} by {eps:?}"));
                set(value)?;
                result
            };
            let difference = |change: Complex<f64>| {
                let (before, after) = (at(Complex::new(-change.re, -change.im))?, at(change)?);
                Ok::<_, Error>(outputs.quotients(&before, &after, 2.0 * eps))
            };
            for (rows, row) in differences.real.iter_mut().zip(difference(Complex::new(eps, 0.0))?) {
                rows.push(row);
            }
            if is_complex {
                for (rows, row) in differences.imaginary.iter_mut().zip(difference(Complex::new(0.0, eps))?) {
                    rows.push(row);
                }
            }
        }
        Ok(differences)
    }

    /// The Jacobian of a part of an output.
    pub(super) fn jacobian(&self, output: usize, part: Part, columns: usize) -> Jacobian {
        let mut jacobian = Jacobian::zeros(&self.input, columns);
        for (row, real) in self.real[output].iter().enumerate() {
            let imaginary = self.imaginary[output].get(row);
            for (column, value) in real.iter().enumerate() {
                let imaginary = imaginary.map_or(0.0, |values| part.of(values[column]));
                jacobian.set(row, column, Complex::new(part.of(*value), imaginary));
            }
        }
        jacobian
    }
}

/// How all outputs change along `direction` in `input`, which has its size: by output, by element.
pub(super) fn along(
    function: &Function<'_>,
    input: &Tensor,
    direction: &[Complex<f64>],
    outputs: &Outputs,
    eps: f64,
) -> Result<Vec<Row>> {
    let values = elements(input)?;
    let before = with_elements(input, &values)?;
    let at = |eps: f64| {
        let moved: Vec<_> = values
            .iter()
            .zip(direction)
            .map(|(value, way)| Complex::new(value.re + eps * way.re, value.im + eps * way.im))
            .collect();
        let moved = with_elements(input, &moved)?;
        let set = |tensor: &Tensor| no_grad(|| input.detach()?.copy_(tensor).map(drop));
        set(&moved)?;
        let result = outputs.evaluate(function, &format!("by {eps:?}"));
        set(&before)?;
        result
    };
    Ok(outputs.quotients(&at(-eps)?, &at(eps)?, 2.0 * eps))
}

/// Which results are looked at, and what they look like.
pub(super) struct Outputs {
    /// Of each result: sizes and dtype, if it is looked at.
    like: Vec<Option<Tensor>>,
}

impl Outputs {
    /// Those of `results` that `is_wanted` says.
    pub(super) fn of(results: &[Tensor], is_wanted: impl Fn(&Tensor) -> bool) -> Self {
        Self { like: results.iter().map(|result| is_wanted(result).then(|| result.clone())).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Tensor> {
        self.like.iter().flatten()
    }

    /// The elements of each at the present point.
    fn evaluate(&self, function: &Function<'_>, change: &str) -> Result<Vec<Row>> {
        let results = function.call()?;
        if results.len() != self.like.len() {
            return Err(Error::invalid_argument(format!(
                "Expected `func` to return {} outputs when inputs are perturbed {change}, but got {}.",
                self.like.len(),
                results.len()
            )));
        }
        let mut rows = Vec::with_capacity(self.like.len());
        for (result, like) in results.iter().zip(&self.like) {
            let Some(like) = like else { continue };
            if (result.sizes(), result.dtype()) != (like.sizes(), like.dtype()) {
                return Err(Error::invalid_argument(format!(
                    "Expected `func` to return outputs with the same shape and dtype when inputs are perturbed {change}, \
                     but got: {:?} of {} and {:?} of {}.",
                    like.sizes(),
                    like.dtype(),
                    result.sizes(),
                    result.dtype()
                )));
            }
            rows.push(elements(result)?);
        }
        Ok(rows)
    }

    fn quotients(&self, before: &[Row], after: &[Row], distance: f64) -> Vec<Row> {
        let quotient = |(a, b): (&Complex<f64>, &Complex<f64>)| {
            Complex::new((b.re - a.re) / distance, (b.im - a.im) / distance)
        };
        before.iter().zip(after).map(|(a, b)| a.iter().zip(b).map(quotient).collect()).collect()
    }
}

/// The index of an element by its place in row-major order.
fn unraveled(mut flat: usize, sizes: &[i64]) -> Vec<i64> {
    let mut index = vec![0; sizes.len()];
    for (at, size) in index.iter_mut().zip(sizes).rev() {
        *at = (flat % *size as usize) as i64;
        flat /= *size as usize;
    }
    index
}
