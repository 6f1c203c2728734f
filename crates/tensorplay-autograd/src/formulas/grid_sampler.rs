//! The gradients of the gradients of images sampled at the places of a grid.
//!
//! The sampler is written once more, of operators that have derivatives, and the engine differentiates it twice. Only
//! second derivatives come here: the gradients themselves have kernels of their own.

use aten::{Result, Tensor, TensorOptions};
use c10_core::ScalarType;

use crate::engine::{GradOptions, grad_with};
use crate::meta::requires_grad;
use crate::mode::{GradModeGuard, is_grad_enabled};
use crate::tensor::TensorAutograd;

/// How a grid is read.
#[derive(Clone, Copy)]
pub(crate) struct Sampler {
    pub(crate) interpolation: i64,
    pub(crate) padding: i64,
    pub(crate) align_corners: bool,
}

const NEAREST: i64 = 1;
const BICUBIC: i64 = 2;
const BORDER: i64 = 1;
const REFLECTION: i64 = 2;

/// One of the places along a dimension that a sample is made of.
struct Tap {
    /// Within the image.
    place: Tensor,
    /// Zero for places that are outside of it.
    weight: Tensor,
}

impl Sampler {
    /// Of `grid_sampler_…_backward`, whose results' gradients are `grads`: for the gradient of the samples, for the
    /// image and for the grid.
    pub(crate) fn double_backward(
        self,
        grads: &[Option<Tensor>],
        grad_output: &Tensor,
        input: &Tensor,
        grid: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let create_graph = is_grad_enabled();
        let _enabled = GradModeGuard::new(true);
        let followed = |tensor: &Tensor| match create_graph && requires_grad(tensor) {
            true => tensor.alias(),
            false => tensor.detach()?.requires_grad_(true),
        };
        let arguments = [followed(grad_output)?, followed(input)?, followed(grid)?];
        let [grad_output, input, grid] = &arguments;
        let samples = self.sample(input, grid)?;
        let first = GradOptions {
            grad_outputs: &[Some(grad_output.clone())],
            create_graph: true,
            allow_unused: true,
            ..GradOptions::default()
        };
        let made = grad_with(&[samples], &[input.clone(), grid.clone()], first)?;
        let (mut outputs, mut incoming) = (Vec::new(), Vec::new());
        for (output, grad) in made.into_iter().zip(grads) {
            if let (Some(output), Some(grad)) = (output, grad)
                && requires_grad(&output)
            {
                outputs.push(output);
                incoming.push(Some(grad.clone()));
            }
        }
        if outputs.is_empty() {
            return Ok((None, None, None));
        }
        let second = GradOptions {
            grad_outputs: &incoming,
            create_graph,
            allow_unused: true,
            ..GradOptions::default()
        };
        let mut given = grad_with(&outputs, &arguments, second)?.into_iter();
        let mut next = || given.next().flatten();
        Ok((next(), next(), next()))
    }

    /// The samples of a batch of images.
    fn sample(self, input: &Tensor, grid: &Tensor) -> Result<Tensor> {
        let sizes = input.sizes();
        let (batch, channels, image) = (sizes[0], sizes[1], &sizes[2..]);
        let pixels = input.reshape(&[batch, channels, image.iter().product()])?;
        // All combinations of places, from the first dimension of the image to the last.
        let mut taps: Vec<Tap> = Vec::new();
        for (at, size) in image.iter().enumerate() {
            let coordinate = grid.select(-1, (image.len() - 1 - at) as i64)?.reshape(&[batch, 1, -1])?;
            let own = self.taps(&coordinate, *size)?;
            taps = match at {
                0 => own,
                _ => combined(&taps, &own, *size)?,
            };
        }
        let mut sum: Option<Tensor> = None;
        for Tap { place, weight } in taps {
            let places = place.sizes()[2];
            let part = (pixels.gather(2, &place.expand(&[batch, channels, places])?)? * weight)?;
            sum = Some(match sum {
                Some(sum) => (sum + part)?,
                None => part,
            });
        }
        let mut sizes = grid.sizes();
        let dims = sizes.len();
        sizes.truncate(dims - 1);
        sizes.insert(1, channels);
        match sum {
            Some(sum) => sum.reshape(&sizes),
            None => Tensor::zeros(&sizes, TensorOptions::default().dtype(input.dtype())),
        }
    }

    /// Along one dimension.
    fn taps(self, coordinate: &Tensor, size: i64) -> Result<Vec<Tap>> {
        let x = match self.align_corners {
            true => coordinate.add_scalar(1)?.mul_scalar((size - 1) as f64 / 2.0)?,
            false => coordinate.add_scalar(1)?.mul_scalar(size as f64 / 2.0)?.sub_scalar(0.5)?,
        };
        if self.interpolation == BICUBIC {
            let start = x.detach()?.floor()?;
            let part = (x - &start)?;
            let tap =
                |at: i64, weight: Tensor| tap(&self.padded(&start.add_scalar(at)?, size)?, size, &weight);
            return Ok(vec![
                tap(-1, outer_weight(&part.add_scalar(1)?)?)?,
                tap(0, inner_weight(&part)?)?,
                tap(1, inner_weight(&part.neg()?.add_scalar(1)?)?)?,
                tap(2, outer_weight(&part.neg()?.add_scalar(2)?)?)?,
            ]);
        }
        let x = self.padded(&x, size)?;
        if self.interpolation == NEAREST {
            let one = x.detach()?.ones_like(TensorOptions::default())?;
            return Ok(vec![tap(&x.detach()?.round()?, size, &one)?]);
        }
        let start = x.detach()?.floor()?;
        let part = (x - &start)?;
        Ok(vec![tap(&start, size, &part.neg()?.add_scalar(1)?)?, tap(&start.add_scalar(1)?, size, &part)?])
    }

    /// The coordinate moved into the image, as the padding says.
    fn padded(self, x: &Tensor, size: i64) -> Result<Tensor> {
        let last = (size - 1) as f64;
        match self.padding {
            BORDER => clamped(x, last),
            REFLECTION => {
                let (low, span) = if self.align_corners { (0.0, last) } else { (-0.5, size as f64) };
                if span == 0.0 {
                    return x.mul_scalar(0);
                }
                let away = x.sub_scalar(low)?.abs()?;
                let turns = away.detach()?.div_scalar(span)?.floor()?;
                let rest = (away - turns.mul_scalar(span)?)?;
                let is_even = turns.remainder_scalar(2)?.eq_scalar(0)?;
                let back = rest.neg()?.add_scalar(span)?;
                clamped(&is_even.where_self(&rest, &back)?.add_scalar(low)?, last)
            }
            _ => Ok(x.clone()),
        }
    }
}

fn clamped(x: &Tensor, last: f64) -> Result<Tensor> {
    x.clamp_min(0.0)?.clamp_max(last)
}

/// A whole coordinate as a place.
fn tap(coordinate: &Tensor, size: i64, weight: &Tensor) -> Result<Tap> {
    let coordinate = coordinate.detach()?;
    let is_inside = coordinate.ge_scalar(0)?.logical_and(&coordinate.lt_scalar(size)?)?;
    let place = clamped(&coordinate, (size - 1) as f64)?.to(ScalarType::Int64)?;
    Ok(Tap { place, weight: (weight * is_inside)? })
}

/// Each place of some dimensions with each of one more, of `size`.
fn combined(outer: &[Tap], inner: &[Tap], size: i64) -> Result<Vec<Tap>> {
    let pairs = outer.iter().flat_map(|outer| inner.iter().map(move |inner| (outer, inner)));
    let combine = |(outer, inner): (&Tap, &Tap)| {
        Ok(Tap {
            place: (outer.place.mul_scalar(size)? + &inner.place)?,
            weight: (&outer.weight * &inner.weight)?,
        })
    };
    pairs.map(combine).collect()
}

/// The cubic's sharpness.
const A: f64 = -0.75;

/// The cubic's weight at a distance from 0 to 1.
fn inner_weight(x: &Tensor) -> Result<Tensor> {
    (x.mul_scalar(A + 2.0)?.sub_scalar(A + 3.0)? * x.square()?)?.add_scalar(1)
}

/// The cubic's weight at a distance from 1 to 2.
fn outer_weight(x: &Tensor) -> Result<Tensor> {
    let inner = (x.mul_scalar(A)?.sub_scalar(5.0 * A)? * x)?.add_scalar(8.0 * A)?;
    (inner * x)?.sub_scalar(4.0 * A)
}
