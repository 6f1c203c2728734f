//! The gradients of a convolution's gradients.

use aten::ops::handles;
use aten::{Result, Tensor};

/// How a convolution slides.
pub(crate) struct Convolution<'a> {
    pub(crate) stride: &'a [i64],
    pub(crate) padding: &'a [i64],
    pub(crate) dilation: &'a [i64],
    pub(crate) transposed: bool,
    pub(crate) output_padding: &'a [i64],
    pub(crate) groups: i64,
}

impl Convolution<'_> {
    /// Of the three gradients `grads` of the input's, the weight's and the bias's gradient: what they are for the
    /// gradient of the result, for the input and for the weight.
    ///
    /// A convolution is linear in the input and in the weight, and its backward is linear in the gradient of the result.
    /// So the two gradients stand in the places of what they are gradients of.
    pub(crate) fn double_backward(
        &self,
        grads: &[Option<Tensor>],
        grad_output: &Tensor,
        input: &Tensor,
        weight: &Tensor,
        wants: [bool; 3],
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let of = |at: usize| grads.get(at).and_then(Option::as_ref);
        let (of_input, of_weight, of_bias) = (of(0), of(1), of(2));
        let mut for_output = None;
        if wants[0] {
            let parts = [
                of_input.map(|own| self.forward(own, weight)),
                of_weight.map(|own| self.forward(input, own)),
                of_bias.map(|own| Self::per_channel(own, grad_output)),
            ];
            for part in parts.into_iter().flatten() {
                let part = part?;
                for_output = Some(match for_output {
                    Some(sum) => (sum + part)?,
                    None => part,
                });
            }
        }
        let for_input = match of_weight {
            Some(own) if wants[1] => self.backward(grad_output, input, own, [true, false, false])?.0,
            _ => None,
        };
        let for_weight = match of_input {
            Some(own) if wants[2] => self.backward(grad_output, own, weight, [false, true, false])?.1,
            _ => None,
        };
        Ok((for_output, for_input, for_weight))
    }

    fn forward(&self, input: &Tensor, weight: &Tensor) -> Result<Tensor> {
        handles::CONVOLUTION.call(
            input,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            self.transposed,
            self.output_padding,
            self.groups,
        )
    }

    fn backward(
        &self,
        grad_output: &Tensor,
        input: &Tensor,
        weight: &Tensor,
        mask: [bool; 3],
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        handles::CONVOLUTION_BACKWARD.call(
            grad_output,
            input,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            self.transposed,
            self.output_padding,
            self.groups,
            &mask,
        )
    }

    fn per_channel(bias: &Tensor, output: &Tensor) -> Result<Tensor> {
        let mut sizes = vec![1; output.rank()];
        sizes[1] = -1;
        bias.reshape(&sizes)?.expand(&output.sizes())
    }
}
