//! [`Gru`]: a recurrent network that mixes its hidden state with a candidate.

use aten::tensor::ChunkOptions;
use aten::{Error, Result, Tensor};

use super::layers::{Layers, RecurrentConfig, State};
use crate::nn::module::{Forward, Module};
use crate::nn::visit::{Visitor, VisitorMut};

/// Gated recurrent units (`torch.nn.GRU`).
#[derive(Debug)]
pub struct Gru {
    layers: Layers,
}

impl Gru {
    /// With one layer and PyTorch's defaults.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::with(input_size, hidden_size, RecurrentConfig::default())
    }

    /// As the config says.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for no layers, a size that is not positive, or a
    /// dropout that is no probability; when there is no memory.
    pub fn with(input_size: i64, hidden_size: i64, config: RecurrentConfig) -> Result<Self> {
        Layers::new(3, input_size, hidden_size, config).map(|layers| Self { layers })
    }

    /// The output for a sequence, `[length, batch, directions * hidden]`, and the hidden state after it,
    /// `[layers * directions, batch, hidden]`; `hidden` is that before it, zeros where there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](aten::ErrorKind::Shape) when sizes do not go together or the sequence is empty.
    pub fn forward_with(&self, input: &Tensor, hidden: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let before =
            hidden.as_ref().map_or(State::Zeros(1), |hidden| State::Given(std::slice::from_ref(hidden)));
        let (output, after) = self.layers.run(input, before, step)?;
        let [hidden] = after.try_into().map_err(|_| Error::shape("the state of a gru is one tensor"))?;
        Ok((output, hidden))
    }
}

fn step(of_input: &Tensor, of_hidden: &Tensor, before: &[Tensor]) -> Result<Vec<Tensor>> {
    let (of_input, of_hidden) =
        (of_input.chunk_with(3, ChunkOptions { dim: 1 })?, of_hidden.chunk_with(3, ChunkOptions { dim: 1 })?);
    let ([reset, update, candidate], [reset_h, update_h, candidate_h], [hidden]) =
        (&*of_input, &*of_hidden, before)
    else {
        return Err(Error::shape("a gru has three gates and a state of one tensor"));
    };
    let reset = reset.add(reset_h)?.sigmoid()?;
    let update = update.add(update_h)?.sigmoid()?;
    let candidate = candidate.add(&reset.mul(candidate_h)?)?.tanh()?;
    Ok(vec![hidden.sub(&candidate)?.mul(&update)?.add(&candidate)?])
}

impl Module for Gru {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.layers.visit(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        self.layers.visit_mut(visitor);
    }
}

/// The output alone, from a state of zeros.
impl Forward for Gru {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_with(input, None).map(|(output, _)| output)
    }
}
