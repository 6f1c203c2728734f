//! The gradients of the gradients of normalisations. The statistics that these are told are functions of the input.

use aten::{Error, Result, Tensor};

use super::normalization::{Normalized, Three, weighed};
use super::shape::mean_of;

/// The gradient of a normalisation: what it was computed from.
struct Gradient<'a> {
    grad: &'a Tensor,
    /// To be multiplied with the gradient.
    weight: Option<Tensor>,
    normalized: Normalized,
    /// What the statistics are along; none where they do not depend on the input.
    along: Option<&'a [i64]>,
    /// What the gradients of weight and bias are summed along.
    summed: &'a [i64],
}

/// Of the layers in the last dimensions.
pub(crate) fn layer_norm(
    grads: &[Option<Tensor>],
    grad: &Tensor,
    x: &Tensor,
    shape: &[i64],
    [mean, inverse]: [&Tensor; 2],
    weight: Option<&Tensor>,
    wants: [bool; 3],
) -> Result<Three> {
    let axis = x.rank() - shape.len();
    let (along, summed): (Vec<i64>, Vec<i64>) = (0..x.rank() as i64).partition(|dim| *dim >= axis as i64);
    let mut of_layers = x.sizes().to_vec();
    of_layers[axis..].fill(1);
    let statistics = [&mean.reshape(&of_layers)?, &inverse.reshape(&of_layers)?];
    let gradient = Gradient {
        grad,
        weight: weight.cloned(),
        normalized: Normalized::with(x, statistics, &along)?,
        along: Some(&along),
        summed: &summed,
    };
    gradient.backward([grads[0].clone(), grads[1].clone(), grads[2].clone()], wants)
}

/// Of the channels: by their own statistics in training, by the running ones otherwise.
#[allow(clippy::too_many_arguments, reason = "they are the operator's")]
pub(crate) fn batch_norm(
    grads: &[Option<Tensor>],
    grad: &Tensor,
    x: &Tensor,
    weight: Option<&Tensor>,
    running: impl FnOnce() -> Result<[Option<Tensor>; 2]>,
    own: impl FnOnce() -> Result<[Option<Tensor>; 2]>,
    training: bool,
    eps: f64,
    wants: [bool; 3],
) -> Result<Three> {
    let dims: Vec<i64> = (0..x.rank() as i64).filter(|dim| *dim != 1).collect();
    let mut shape = vec![1; x.rank()];
    shape[1] = -1;
    let statistics = if training { own()? } else { running()? };
    let [Some(mean), Some(spread)] = statistics else {
        return Err(Error::invalid_argument("the statistics that the output was made with are expected"));
    };
    let (mean, spread) = (mean.reshape(&shape)?, spread.reshape(&shape)?);
    let normalized = match training {
        true => Normalized::with(x, [&mean, &spread], &dims)?,
        false => {
            let inverse = spread.add_scalar(eps)?.rsqrt()?;
            Normalized { x: ((x - mean)? * &inverse)?, inverse }
        }
    };
    let broadcast = |param: Option<&Tensor>| param.map(|param| param.reshape(&shape)).transpose();
    let gradient = Gradient {
        grad,
        weight: broadcast(weight)?,
        normalized,
        along: training.then_some(&dims[..]),
        summed: &dims,
    };
    gradient.backward([grads[0].clone(), broadcast(grads[1].as_ref())?, broadcast(grads[2].as_ref())?], wants)
}

impl Gradient<'_> {
    /// The gradients of the gradient that it was computed from, of the input and of the weight, from those of the
    /// gradients of input, weight and bias.
    fn backward(
        &self,
        [of_input, of_weight, of_bias]: [Option<Tensor>; 3],
        wants: [bool; 3],
    ) -> Result<Three> {
        let Normalized { x, .. } = &self.normalized;
        let turned = of_input.as_ref().map(|of_input| self.through(of_input)).transpose()?;
        let (mut of_grad, mut of_x) = (None, None);
        if wants[0] {
            add(&mut of_grad, turned.as_ref().map(|turned| weighed(turned, self.weight.as_ref())))?;
            add(&mut of_grad, of_weight.as_ref().map(|of_weight| x * of_weight))?;
            add(&mut of_grad, of_bias.map(|of_bias| of_bias.expand(&x.sizes())))?;
        }
        if wants[1] {
            if let (Some(of_input), Some(along)) = (&of_input, self.along) {
                add(&mut of_x, Some(self.through_statistics(of_input, along)))?;
            }
            let of_weight = of_weight.map(|of_weight| self.through(&(self.grad * of_weight)?));
            add(&mut of_x, of_weight)?;
        }
        let summed = |turned: Tensor| -> Result<Tensor> {
            let each = (self.grad * turned)?;
            if self.summed.is_empty() { Ok(each) } else { each.sum_dim(Some(self.summed)) }
        };
        Ok((of_grad, of_x, turned.filter(|_| wants[2]).map(summed).transpose()?))
    }

    /// What a gradient of the normalised input is for the input. It is its own transpose.
    fn through(&self, grad: &Tensor) -> Result<Tensor> {
        match self.along {
            Some(along) => self.normalized.backward(grad, along),
            None => grad * &self.normalized.inverse,
        }
    }

    /// The gradient of the input's gradient by what it was normalised to and with.
    fn through_statistics(&self, of_input: &Tensor, along: &[i64]) -> Result<Tensor> {
        let Normalized { x, inverse } = &self.normalized;
        let grad = weighed(self.grad, self.weight.as_ref())?;
        let mean = |x: Result<Tensor>| mean_of(&x?, along);
        let (of_input_x, grad_x) = (mean(of_input * x)?, mean(&grad * x)?);
        let apart = (mean(of_input * &grad)? - (mean_of(of_input, along)? * mean_of(&grad, along)?)?)?;
        let apart = (apart - (&of_input_x * &grad_x)?)?;
        let by_x = (((of_input * grad_x)? + (grad * of_input_x)?)? * inverse)?.neg()?;
        self.through(&by_x)? + self.normalized.inverse_backward(&(apart * self.normalized.count())?)?
    }
}

/// Adds a part, if there is one, to a sum that has none at first.
fn add(sum: &mut Option<Tensor>, part: Option<Result<Tensor>>) -> Result<()> {
    if let Some(part) = part.transpose()? {
        *sum = Some(match sum.take() {
            None => part,
            Some(sum) => sum.add(&part)?,
        });
    }
    Ok(())
}
