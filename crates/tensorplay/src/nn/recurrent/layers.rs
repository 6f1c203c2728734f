//! What recurrent networks share: the weights of each layer and direction, and the walk over a sequence.

use aten::tensor::{CatOptions, LinearOptions};
use aten::{Error, Result, Tensor, TensorOptions};

use crate::nn::dropout::Dropout;
use crate::nn::init;
use crate::nn::module::{Forward, Module};
use crate::nn::parameter::Parameter;
use crate::nn::visit::{Part, Visitor, VisitorMut};

/// What a recurrent network takes beside its sizes.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentConfig {
    /// How many layers, each on the output of the one before. By default one.
    pub num_layers: usize,
    /// Has learnt biases. By default it does.
    pub bias: bool,
    /// Inputs are `[batch, length, features]`, not `[length, batch, features]`.
    pub batch_first: bool,
    /// How likely an element between two layers is dropped in training. By default never.
    pub dropout: f64,
    /// Each layer goes over the sequence in both directions.
    pub bidirectional: bool,
    /// Dtype and device of the parameters.
    pub tensor: TensorOptions,
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        Self {
            num_layers: 1,
            bias: true,
            batch_first: false,
            dropout: 0.0,
            bidirectional: false,
            tensor: TensorOptions::default(),
        }
    }
}

/// One step: the sums that the gates see of the input and of the hidden state, and the state before, whose first
/// tensor is the hidden one; gives the state after.
pub(super) type Cell = fn(&Tensor, &Tensor, &[Tensor]) -> Result<Vec<Tensor>>;

/// The weights, and how the sequence is walked.
#[derive(Debug)]
pub(super) struct Layers {
    /// The directions of each layer, one layer after another.
    weights: Vec<Weights>,
    dropout: Dropout,
    input_size: i64,
    hidden_size: i64,
    directions: usize,
    batch_first: bool,
}

/// One layer in one direction.
#[derive(Debug)]
struct Weights {
    /// What names end in: `_l0`, `_l0_reverse`.
    suffix: String,
    weight_ih: Parameter,
    weight_hh: Parameter,
    bias_ih: Option<Parameter>,
    bias_hh: Option<Parameter>,
}

impl Layers {
    /// Weights for so many gates.
    pub(super) fn new(
        gates: i64,
        input_size: i64,
        hidden_size: i64,
        config: RecurrentConfig,
    ) -> Result<Self> {
        if config.num_layers == 0 || input_size <= 0 || hidden_size <= 0 {
            return Err(Error::invalid_argument(format!(
                "no recurrent network has {} layers, {input_size} features in and {hidden_size} hidden",
                config.num_layers
            )));
        }
        let too_large = || Error::invalid_argument(format!("hidden_size {hidden_size} is too large"));
        let rows = hidden_size.checked_mul(gates).ok_or_else(too_large)?;
        let directions = if config.bidirectional { 2 } else { 1 };
        let mut weights = Vec::new();
        let parts = config.num_layers.checked_mul(directions).ok_or_else(too_large)?;
        for index in 0..parts {
            let layer = index / directions;
            let columns = if layer == 0 {
                input_size
            } else {
                hidden_size.checked_mul(directions as i64).ok_or_else(too_large)?
            };
            let reverse = if index % directions == 1 { "_reverse" } else { "" };
            weights.push(Weights::new(format!("_l{layer}{reverse}"), rows, columns, hidden_size, config)?);
        }
        let dropout = Dropout::new(config.dropout)?;
        Ok(Self { weights, dropout, input_size, hidden_size, directions, batch_first: config.batch_first })
    }

    /// The output for a sequence and the state after it. `state` has for each tensor of it
    /// `[layers * directions, batch, hidden]`, or is zeros of so many tensors.
    pub(super) fn run(&self, input: &Tensor, state: State<'_>, cell: Cell) -> Result<(Tensor, Vec<Tensor>)> {
        let has_batch = input.rank() == 3;
        if !matches!(input.rank(), 2 | 3) || input.sizes().last() != Some(&self.input_size) {
            return Err(Error::shape(format!(
                "a recurrent network takes two or three dimensions, the last of size {}",
                self.input_size
            ))
            .with_tensors([input]));
        }
        // [length, batch, features] from here on.
        let x = match (has_batch, self.batch_first) {
            (false, _) => input.unsqueeze(1)?,
            (true, true) => input.transpose(0, 1)?,
            (true, false) => input.clone(),
        };
        let state = self.first_state(&x, state, has_batch)?;
        let (output, state) = self.walk(x, &state, cell)?;
        let output = match (has_batch, self.batch_first) {
            (false, _) => output.squeeze_dim(1)?,
            (true, true) => output.transpose(0, 1)?,
            (true, false) => output,
        };
        let without_batch = |tensor: Tensor| if has_batch { Ok(tensor) } else { tensor.squeeze_dim(1) };
        Ok((output, state.into_iter().map(without_batch).collect::<Result<_>>()?))
    }

    /// The state before the sequence, of layer and direction first, then of tensor.
    fn first_state(&self, x: &Tensor, state: State<'_>, has_batch: bool) -> Result<Vec<Vec<Tensor>>> {
        let (count, batch) = (self.weights.len() as i64, x.sizes()[1]);
        match state {
            State::Zeros(tensors) => {
                let zeros = Tensor::zeros(&[batch, self.hidden_size], (x.dtype(), x.device()))?;
                Ok(vec![vec![zeros; tensors]; self.weights.len()])
            }
            State::Given(tensors) => {
                let mut parts = vec![Vec::with_capacity(tensors.len()); self.weights.len()];
                for tensor in tensors {
                    let wanted = [count, batch, self.hidden_size];
                    let whole = if has_batch { (*tensor).clone() } else { tensor.unsqueeze(1)? };
                    if *whole.sizes() != wanted {
                        return Err(Error::shape(format!("the state before has to have sizes {wanted:?}"))
                            .with_tensors([*tensor]));
                    }
                    for (part, of_layer) in parts.iter_mut().zip(whole.unbind()?) {
                        part.push(of_layer);
                    }
                }
                Ok(parts)
            }
        }
    }

    fn walk(&self, input: Tensor, state: &[Vec<Tensor>], cell: Cell) -> Result<(Tensor, Vec<Tensor>)> {
        let mut x = input;
        let mut after: Vec<Vec<Tensor>> = vec![Vec::new(); state.first().map_or(0, Vec::len)];
        for (layer, weights) in self.weights.chunks(self.directions).enumerate() {
            if layer > 0 {
                x = self.dropout.forward(&x)?;
            }
            let mut outputs = Vec::with_capacity(self.directions);
            for (direction, weights) in weights.iter().enumerate() {
                let before = &state[layer * self.directions + direction];
                let (output, last) = weights.walk(&x, before, direction == 1, cell)?;
                outputs.push(output);
                for (all, tensor) in after.iter_mut().zip(last) {
                    all.push(tensor);
                }
            }
            x = match &*outputs {
                [output] => output.clone(),
                several => Tensor::cat_with(several, CatOptions { dim: -1 })?,
            };
        }
        let after = after.iter().map(|layers| Tensor::stack(layers)).collect::<Result<_>>()?;
        Ok((x, after))
    }
}

/// The state before a sequence.
#[derive(Clone, Copy)]
pub(super) enum State<'a> {
    /// So many tensors of zeros.
    Zeros(usize),
    Given(&'a [&'a Tensor]),
}

impl Weights {
    fn new(suffix: String, rows: i64, columns: i64, hidden: i64, config: RecurrentConfig) -> Result<Self> {
        // In the order in which PyTorch draws them.
        let bound = 1.0 / (hidden as f64).sqrt();
        let drawn = |sizes: &[i64]| {
            let tensor = Tensor::empty(sizes, config.tensor)?;
            init::uniform_(&tensor, -bound, bound)?;
            Parameter::new(&tensor)
        };
        Ok(Self {
            suffix,
            weight_ih: drawn(&[rows, columns])?,
            weight_hh: drawn(&[rows, hidden])?,
            bias_ih: config.bias.then(|| drawn(&[rows])).transpose()?,
            bias_hh: config.bias.then(|| drawn(&[rows])).transpose()?,
        })
    }

    /// The hidden state at each step, and the state after the last.
    fn walk(
        &self,
        x: &Tensor,
        before: &[Tensor],
        backwards: bool,
        cell: Cell,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        // The input's part of all steps is one product.
        let of_input = x.linear_with(&self.weight_ih, LinearOptions { bias: self.bias_ih.as_deref() })?;
        let mut steps = of_input.unbind()?;
        if steps.is_empty() {
            return Err(
                Error::shape("a recurrent network takes sequences of one step or more").with_tensors([x])
            );
        }
        if backwards {
            steps.reverse();
        }
        let mut state = before.to_vec();
        let mut outputs = Vec::with_capacity(steps.len());
        for of_input in &steps {
            let of_hidden =
                state[0].linear_with(&self.weight_hh, LinearOptions { bias: self.bias_hh.as_deref() })?;
            state = cell(of_input, &of_hidden, &state)?;
            outputs.push(state[0].clone());
        }
        if backwards {
            outputs.reverse();
        }
        Ok((Tensor::stack(&outputs)?, state))
    }
}

impl Module for Layers {
    fn visit(&self, visitor: &mut dyn Visitor) {
        for weights in &self.weights {
            let name = |part: &str| format!("{part}{}", weights.suffix);
            weights.weight_ih.show(&name("weight_ih"), visitor);
            weights.weight_hh.show(&name("weight_hh"), visitor);
            weights.bias_ih.show(&name("bias_ih"), visitor);
            weights.bias_hh.show(&name("bias_hh"), visitor);
        }
        self.dropout.visit(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        for weights in &mut self.weights {
            let suffix = weights.suffix.clone();
            let name = |part: &str| format!("{part}{suffix}");
            weights.weight_ih.show_mut(&name("weight_ih"), visitor);
            weights.weight_hh.show_mut(&name("weight_hh"), visitor);
            weights.bias_ih.show_mut(&name("bias_ih"), visitor);
            weights.bias_hh.show_mut(&name("bias_hh"), visitor);
        }
        self.dropout.visit_mut(visitor);
    }
}
