//! [`Optimizer`]: parameters in groups and the step that changes them; [`RuleOptimizer`]: one made of a [`Rule`].

use std::fmt;

use aten::{Error, Result, Tensor};
use tensorplay_autograd::{TensorAutograd, no_grad};

use super::options::Options;
use super::rule::{ParameterState, Rule};
use super::state::{self, OptimizerState};

/// Changes parameters by their gradients (`torch.optim.Optimizer`).
pub trait Optimizer: fmt::Debug + Send {
    /// Changes each parameter that has a gradient, in place. Nothing is recorded.
    ///
    /// # Errors
    /// When an operator refuses: parameters before the one that it refused are changed then.
    fn step(&mut self) -> Result<()>;

    /// How many groups there are.
    fn groups(&self) -> usize;

    /// The parameters of a group; none where there is no such group.
    fn parameters_of(&self, group: usize) -> &[Tensor];

    /// A setting of a group by its name, as `lr`; a flag is 1 or 0.
    fn setting(&self, group: usize, name: &str) -> Option<f64>;

    /// Changes a setting of a group.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when there is no such group or setting, or the
    /// value makes no sense; nothing is changed then.
    fn set_setting(&mut self, group: usize, name: &str, value: f64) -> Result<()>;

    /// What it keeps, to go on from later (`state_dict`).
    ///
    /// # Errors
    /// When a tensor cannot be made.
    fn state(&self) -> Result<OptimizerState>;

    /// Goes on from a kept [state](Self::state) (`load_state_dict`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) that lists what is missing, not expected or of
    /// other sizes; nothing is changed then.
    fn load_state(&mut self, state: &OptimizerState) -> Result<()>;

    /// The learning rate of a group.
    fn lr(&self, group: usize) -> Option<f64> {
        self.setting(group, "lr")
    }

    /// Takes away the gradients (`zero_grad`).
    ///
    /// # Errors
    /// As [`TensorAutograd::set_grad`].
    fn zero_grad(&mut self) -> Result<()> {
        (0..self.groups())
            .flat_map(|group| self.parameters_of(group))
            .try_for_each(|parameter| parameter.set_grad(None))
    }
}

/// Parameters with the same settings.
#[derive(Clone, Debug)]
pub struct Group<O> {
    /// The parameters.
    pub parameters: Vec<Tensor>,
    /// Their settings.
    pub options: O,
}

/// An optimiser that changes each parameter by a rule.
pub struct RuleOptimizer<R: Rule> {
    groups: Vec<Group<R::Options>>,
    /// Of each group, of each parameter.
    states: Vec<Vec<ParameterState>>,
}

impl<R: Rule> RuleOptimizer<R> {
    /// Of parameters in one group.
    ///
    /// # Errors
    /// As [`add_group`](Self::add_group).
    pub fn new(parameters: Vec<Tensor>, options: R::Options) -> Result<Self> {
        Self::with_groups(vec![Group { parameters, options }])
    }

    /// Of parameters in groups.
    ///
    /// # Errors
    /// As [`add_group`](Self::add_group).
    pub fn with_groups(groups: Vec<Group<R::Options>>) -> Result<Self> {
        crate::init()?;
        let mut optimizer = Self { groups: Vec::new(), states: Vec::new() };
        groups.into_iter().try_for_each(|group| optimizer.add_group(group))?;
        Ok(optimizer)
    }

    /// Takes one more group (`add_param_group`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for settings that make no sense, a parameter
    /// that is there already, and one that is no leaf.
    pub fn add_group(&mut self, group: Group<R::Options>) -> Result<()> {
        R::check(&group.options)?;
        if group.parameters.is_empty() {
            return Err(Error::invalid_argument("an optimiser got an empty list of parameters"));
        }
        for (index, parameter) in group.parameters.iter().enumerate() {
            if !parameter.is_leaf() {
                return Err(Error::invalid_argument("only leaves can be optimised").with_tensors([parameter]));
            }
            let mut others =
                self.groups.iter().flat_map(|group| &group.parameters).chain(&group.parameters[..index]);
            if others.any(|other| other.is_same(parameter)) {
                return Err(Error::invalid_argument("a parameter is there twice").with_tensors([parameter]));
            }
        }
        self.states.push(group.parameters.iter().map(|_| ParameterState::new::<R>()).collect());
        self.groups.push(group);
        Ok(())
    }

    /// The settings of a group.
    pub fn options(&self, group: usize) -> Option<&R::Options> {
        self.groups.get(group).map(|group| &group.options)
    }

    /// What is kept of a parameter of a group.
    pub fn parameter_state(&self, group: usize, parameter: usize) -> Option<&ParameterState> {
        self.states.get(group)?.get(parameter)
    }
}

impl<R: Rule> Optimizer for RuleOptimizer<R> {
    fn step(&mut self) -> Result<()> {
        no_grad(|| {
            for (group, states) in self.groups.iter().zip(&mut self.states) {
                for (parameter, state) in group.parameters.iter().zip(states) {
                    let Some(gradient) = parameter.grad() else { continue };
                    state.steps += 1;
                    R::update(&group.options, parameter, &gradient, state)?;
                }
            }
            Ok(())
        })
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn parameters_of(&self, group: usize) -> &[Tensor] {
        self.groups.get(group).map_or(&[], |group| &group.parameters)
    }

    fn setting(&self, group: usize, name: &str) -> Option<f64> {
        self.groups.get(group)?.options.setting(name)
    }

    fn set_setting(&mut self, group: usize, name: &str, value: f64) -> Result<()> {
        let count = self.groups.len();
        let group = self.groups.get_mut(group).ok_or_else(|| {
            Error::invalid_argument(format!("there is no group {group}: the optimiser has {count}"))
        })?;
        let mut changed = group.options.clone();
        if !changed.set(name, value) {
            return Err(Error::invalid_argument(format!("the optimiser has no setting {name:?}")));
        }
        R::check(&changed)?;
        group.options = changed;
        Ok(())
    }

    fn state(&self) -> Result<OptimizerState> {
        state::save::<R>(&self.groups, &self.states)
    }

    fn load_state(&mut self, state: &OptimizerState) -> Result<()> {
        let (groups, states) = state::load::<R>(&self.groups, state)?;
        (self.groups, self.states) = (groups, states);
        Ok(())
    }
}

impl<R: Rule> fmt::Debug for RuleOptimizer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options: Vec<_> =
            self.groups.iter().map(|group| (&group.options, group.parameters.len())).collect();
        f.debug_struct("RuleOptimizer").field("groups", &options).finish_non_exhaustive()
    }
}
