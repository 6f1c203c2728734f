//! [`Rule`]: how an optimiser changes one parameter by its gradient.

use aten::{Error, Result, Tensor};

use super::options::Options;

/// How one parameter is changed, and what is kept of it from step to step.
pub trait Rule: Send + 'static {
    /// The settings of a group.
    type Options: Options;

    /// Names of the tensors that are kept for a parameter, as PyTorch's saved states have them.
    const SLOTS: &'static [&'static str];

    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) that names the setting.
    fn check(options: &Self::Options) -> Result<()>;

    /// Changes `parameter` in place. Nothing is recorded meanwhile.
    ///
    /// # Errors
    /// When an operator refuses.
    fn update(
        options: &Self::Options,
        parameter: &Tensor,
        gradient: &Tensor,
        state: &mut ParameterState,
    ) -> Result<()>;
}

/// What is kept of a parameter from step to step.
#[derive(Clone, Debug)]
pub struct ParameterState {
    /// How many steps changed it, the present one included.
    pub steps: u64,
    /// The tensors, in the order of [`Rule::SLOTS`]; those not made yet are missing.
    pub(super) slots: Vec<Option<Tensor>>,
}

impl ParameterState {
    pub(super) fn new<R: Rule>() -> Self {
        Self { steps: 0, slots: vec![None; R::SLOTS.len()] }
    }

    /// The tensor of a slot, if it was made.
    pub fn slot(&self, index: usize) -> Option<&Tensor> {
        self.slots.get(index)?.as_ref()
    }

    /// The tensor of a slot, which `make` makes when it is first asked for.
    ///
    /// # Errors
    /// When `make` fails, or the rule has no such slot.
    pub fn slot_or(&mut self, index: usize, make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
        let slot = self
            .slots
            .get_mut(index)
            .ok_or_else(|| Error::index(format!("the rule keeps no tensor of number {index}")))?;
        match slot {
            Some(tensor) => Ok(tensor.clone()),
            None => Ok(slot.insert(make()?).clone()),
        }
    }
}

/// An error that says that a setting is out of its range.
pub(super) fn out_of_range(name: &str, value: f64) -> Error {
    Error::invalid_argument(format!("invalid {name}: {value}"))
}

/// Refuses a setting that is negative or no number.
pub(super) fn check_not_negative(settings: &[(&str, f64)]) -> Result<()> {
    match settings.iter().find(|(_, value)| value.is_nan() || *value < 0.0) {
        Some((name, value)) => Err(out_of_range(name, *value)),
        None => Ok(()),
    }
}

/// The gradient with its sign for going up, and with what decays the weight.
pub(super) fn prepared(
    gradient: &Tensor,
    parameter: &Tensor,
    maximize: bool,
    weight_decay: f64,
) -> Result<Tensor> {
    let gradient = if maximize { gradient.neg()? } else { gradient.clone() };
    if weight_decay == 0.0 {
        return Ok(gradient);
    }
    gradient.add_with(parameter, aten::tensor::AddOptions { alpha: weight_decay.into() })
}
