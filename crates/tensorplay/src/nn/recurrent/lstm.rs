//! [`Lstm`]: a recurrent network that keeps a cell beside its hidden state.

use aten::tensor::ChunkOptions;
use aten::{Error, Result, Tensor};

use super::layers::{Layers, RecurrentConfig, State};
use crate::nn::module::{Forward, Module};
use crate::nn::visit::{Visitor, VisitorMut};

/// Long short-term memory (`torch.nn.LSTM`).
#[derive(Debug)]
pub struct Lstm {
    layers: Layers,
}

/// The state of an [`Lstm`] between steps, each tensor `[layers * directions, batch, hidden]`.
#[derive(Clone, Debug)]
pub struct LstmState {
    /// What is put out (`h_n`).
    pub hidden: Tensor,
    /// What is kept (`c_n`).
    pub cell: Tensor,
}

impl Lstm {
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
        Layers::new(4, input_size, hidden_size, config).map(|layers| Self { layers })
    }

    /// The output for a sequence, `[length, batch, directions * hidden]`, and the state after it; `state` is that
    /// before it, zeros where there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](aten::ErrorKind::Shape) when sizes do not go together or the sequence is empty.
    pub fn forward_with(&self, input: &Tensor, state: Option<&LstmState>) -> Result<(Tensor, LstmState)> {
        let given = state.map(|state| [&state.hidden, &state.cell]);
        let before = given.as_ref().map_or(State::Zeros(2), |given| State::Given(given));
        let (output, after) = self.layers.run(input, before, step)?;
        let [hidden, cell] =
            after.try_into().map_err(|_| Error::shape("the state of an lstm is two tensors"))?;
        Ok((output, LstmState { hidden, cell }))
    }
}

fn step(of_input: &Tensor, of_hidden: &Tensor, before: &[Tensor]) -> Result<Vec<Tensor>> {
    let gates = of_input.add(of_hidden)?.chunk_with(4, ChunkOptions { dim: 1 })?;
    let ([input, forget, candidate, output], [_, cell]) = (&*gates, before) else {
        return Err(Error::shape("an lstm has four gates and a state of two tensors"));
    };
    let kept = forget.sigmoid()?.mul(cell)?;
    let cell = kept.add(&input.sigmoid()?.mul(&candidate.tanh()?)?)?;
    let hidden = output.sigmoid()?.mul(&cell.tanh()?)?;
    Ok(vec![hidden, cell])
}

impl Module for Lstm {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.layers.visit(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        self.layers.visit_mut(visitor);
    }
}

/// The output alone, from a state of zeros.
impl Forward for Lstm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_with(input, None).map(|(output, _)| output)
    }
}
