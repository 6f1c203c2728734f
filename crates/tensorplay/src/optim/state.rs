//! [`OptimizerState`]: what an optimiser keeps, by name, and its file.
//!
//! Tensors are named `state.PARAMETER.SLOT`, with PyTorch's slots (`exp_avg`, `momentum_buffer`, `step`) and its
//! numbers: parameters count through all groups. Settings are named `param_groups.GROUP.SETTING`.

use std::collections::BTreeMap;
use std::path::Path;

use aten::{Error, ErrorKind, Result, Tensor};
use c10_core::ScalarType;
use tensorplay_autograd::no_grad;

use super::optimizer::Group;
use super::options::Options;
use super::rule::{ParameterState, Rule};
use crate::nn::state_dict;

/// The slot that counts steps.
const STEP: &str = "step";

/// What an optimiser keeps: tensors and settings by name.
#[derive(Clone, Debug, Default)]
pub struct OptimizerState {
    /// By parameter and slot.
    pub tensors: BTreeMap<String, Tensor>,
    /// By group and name.
    pub settings: BTreeMap<String, f64>,
}

impl OptimizerState {
    /// Writes it as a safetensors file; the settings are in its metadata.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be made, and as [`aten::io::safetensors::write`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let tensors: Vec<_> =
            self.tensors.iter().map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
        // The shortest text that reads back as the same number.
        let settings =
            self.settings.iter().map(|(name, value)| (name.clone(), format!("{value:?}"))).collect();
        state_dict::save_with(path, &tensors, &settings)
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be read, [`ErrorKind::Parse`] when it is no such file.
    pub fn load(path: &Path) -> Result<Self> {
        let file = state_dict::read_file(path)?;
        let tensors = file.iter().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect();
        let number = |(name, text): (&String, &String)| match text.parse() {
            Ok(value) => Ok((name.clone(), value)),
            Err(_) => {
                Err(Error::new(ErrorKind::Parse, format!("setting {name:?} is {text:?}, and no number")))
            }
        };
        Ok(Self { tensors, settings: file.metadata().iter().map(number).collect::<Result<_>>()? })
    }
}

/// Copies what is kept, so that later steps do not change it.
pub(super) fn save<R: Rule>(
    groups: &[Group<R::Options>],
    states: &[Vec<ParameterState>],
) -> Result<OptimizerState> {
    let mut saved = OptimizerState::default();
    for (index, group) in groups.iter().enumerate() {
        for (name, value) in group.options.settings() {
            saved.settings.insert(format!("param_groups.{index}.{name}"), value);
        }
    }
    no_grad(|| {
        for (index, state) in states.iter().flatten().enumerate().filter(|(_, state)| state.steps > 0) {
            let steps = Tensor::full(&[], state.steps as f64, ScalarType::Float32)?;
            saved.tensors.insert(format!("state.{index}.{STEP}"), steps);
            for (name, slot) in R::SLOTS.iter().zip(&state.slots) {
                if let Some(tensor) = slot {
                    saved.tensors.insert(format!("state.{index}.{name}"), copy(tensor)?);
                }
            }
        }
        Ok(saved)
    })
}

fn copy(tensor: &Tensor) -> Result<Tensor> {
    let copied = tensor.empty_like(aten::TensorOptions::default())?;
    copied.copy_(tensor)?;
    Ok(copied)
}

type Loaded<R> = (Vec<Group<<R as Rule>::Options>>, Vec<Vec<ParameterState>>);

/// Groups and states as saved, for the same parameters.
pub(super) fn load<R: Rule>(groups: &[Group<R::Options>], saved: &OptimizerState) -> Result<Loaded<R>> {
    let mut groups = groups.to_vec();
    let mut faults = Vec::new();
    for (name, value) in &saved.settings {
        let known = place(name, "param_groups.")
            .and_then(|(index, setting)| Some(groups.get_mut(index)?.options.set(setting, *value)));
        if known != Some(true) {
            faults.push(format!("setting {name:?} is not expected"));
        }
    }
    for (index, group) in groups.iter().enumerate() {
        for (name, _) in group.options.settings() {
            let name = format!("param_groups.{index}.{name}");
            if !saved.settings.contains_key(&name) {
                faults.push(format!("setting {name:?} is missing"));
            }
        }
    }
    let parameters: Vec<&Tensor> = groups.iter().flat_map(|group| &group.parameters).collect();
    let mut states: Vec<ParameterState> = parameters.iter().map(|_| ParameterState::new::<R>()).collect();
    for (name, tensor) in &saved.tensors {
        if let Err(fault) = restore::<R>(name, tensor, &parameters, &mut states)? {
            faults.push(fault);
        }
    }
    for (index, state) in states.iter().enumerate() {
        if state.steps == 0 && state.slots.iter().any(Option::is_some) {
            faults.push(format!("\"state.{index}.{STEP}\" is missing"));
        }
    }
    if !faults.is_empty() {
        return Err(Error::invalid_argument(format!(
            "the state does not fit the optimiser: {}",
            faults.join("; ")
        )));
    }
    groups.iter().try_for_each(|group| R::check(&group.options))?;
    let mut states = states.into_iter();
    let states = groups.iter().map(|group| states.by_ref().take(group.parameters.len()).collect()).collect();
    Ok((groups, states))
}

/// Puts one tensor where its name says, or says what is wrong with it.
fn restore<R: Rule>(
    name: &str,
    tensor: &Tensor,
    parameters: &[&Tensor],
    states: &mut [ParameterState],
) -> Result<Result<(), String>> {
    let unexpected = || Ok(Err(format!("{name:?} is not expected")));
    let Some((index, slot)) = place(name, "state.") else { return unexpected() };
    let (Some(parameter), Some(state)) = (parameters.get(index), states.get_mut(index)) else {
        return unexpected();
    };
    if slot == STEP {
        if tensor.numel() != 1 {
            return Ok(Err(format!("{name:?} is no single number")));
        }
        let steps = tensor.item()?.to::<f64>()?;
        if !(steps >= 0.0 && steps.fract() == 0.0 && steps < u64::MAX as f64) {
            return Ok(Err(format!("{name:?} is {steps}, and counts no steps")));
        }
        state.steps = steps as u64;
        return Ok(Ok(()));
    }
    let Some(at) = R::SLOTS.iter().position(|other| *other == slot) else { return unexpected() };
    if tensor.sizes() != parameter.sizes() {
        return Ok(Err(format!(
            "{name:?} is {:?} in the state and {:?} in the parameter",
            tensor.sizes(),
            parameter.sizes()
        )));
    }
    let kept = parameter.detach()?.zeros_like(aten::TensorOptions::default())?;
    no_grad(|| kept.copy_(tensor).map(drop))?;
    state.slots[at] = Some(kept);
    Ok(Ok(()))
}

/// The number and the rest of `PREFIXnumber.rest`.
fn place<'a>(name: &'a str, prefix: &str) -> Option<(usize, &'a str)> {
    let (number, rest) = name.strip_prefix(prefix)?.split_once('.')?;
    Some((number.parse().ok()?, rest))
}
