//! [`FaultPlan`]: which calls of a simulated driver fail, and with what.

use super::call::CallName;
use crate::driver::Status;
use crate::rng::Rng;

/// When a rule strikes, among the calls that it names.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FaultWhen {
    /// The `n`th call, from 1, counted from when the plan was set.
    Nth(u64),
    /// Every `n`th call.
    Every(u64),
    /// Each call with this probability; the seed decides which.
    Probability {
        /// From 0 to 1.
        p: f64,
        /// Decides the calls.
        seed: u64,
    },
    /// Calls that would put more than so many bytes of the device into use: `malloc`, `create` and `malloc_async`.
    AboveBytes(u64),
}

/// One rule of a [`FaultPlan`].
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    call: Option<&'static str>,
    when: FaultWhen,
    status: Status,
    times: u64,
}

impl FaultRule {
    /// Fails calls of `call`, a method's name in [`Driver`](crate::driver::Driver), with `status`.
    ///
    /// # Panics
    /// When the trait has no such call.
    #[track_caller]
    pub fn new(call: &str, when: FaultWhen, status: Status) -> Self {
        Self { call: Some(CallName::named(call).as_str()), when, status, times: u64::MAX }
    }

    /// Fails calls of every name.
    pub fn any(when: FaultWhen, status: Status) -> Self {
        Self { call: None, when, status, times: u64::MAX }
    }

    /// Fails the `n`th call of `call`, from 1.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn nth(call: &str, n: u64, status: Status) -> Self {
        Self::new(call, FaultWhen::Nth(n), status)
    }

    /// Strikes so often and never again.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

/// Rules by which calls fail. The first rule that strikes decides; a failing call changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    rules: Vec<FaultRule>,
}

impl FaultPlan {
    /// Nothing fails.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule behind those that are there.
    #[must_use]
    pub fn rule(mut self, rule: FaultRule) -> Self {
        self.rules.push(rule);
        self
    }
}

impl From<FaultRule> for FaultPlan {
    fn from(rule: FaultRule) -> Self {
        Self { rules: vec![rule] }
    }
}

/// A plan at work.
#[derive(Debug)]
pub(super) struct Faults {
    rules: Vec<Active>,
}

#[derive(Debug)]
struct Active {
    rule: FaultRule,
    seen: u64,
    struck: u64,
    rng: Rng,
}

impl Faults {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self { rules: plan.rules.into_iter().map(Active::new).collect() }
    }

    /// Why this call fails, if it does. `would_use` are the device's bytes in use if it does not, for calls that
    /// take memory.
    pub(super) fn strike(&mut self, call: CallName, would_use: Option<u64>) -> Option<Status> {
        let mut status = None;
        // Every rule counts the call, whichever decides.
        for active in &mut self.rules {
            if active.strikes(call, would_use, status.is_none()) {
                status = Some(active.rule.status);
            }
        }
        status
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Active {
    fn new(rule: FaultRule) -> Self {
        let seed = if let FaultWhen::Probability { seed, .. } = rule.when { seed } else { 0 };
        Self { rule, seen: 0, struck: 0, rng: Rng::new(seed) }
    }

    fn strikes(&mut self, call: CallName, would_use: Option<u64>, may: bool) -> bool {
        if self.rule.call.is_some_and(|name| name != call.as_str()) {
            return false;
        }
        self.seen += 1;
        let due = match self.rule.when {
            FaultWhen::Nth(n) => self.seen == n,
            FaultWhen::Every(n) => n != 0 && self.seen.is_multiple_of(n),
            FaultWhen::Probability { p, .. } => self.rng.chance(p),
            FaultWhen::AboveBytes(bytes) => would_use.is_some_and(|used| used > bytes),
        };
        let strikes = due && may && self.struck < self.rule.times;
        self.struck += u64::from(strikes);
        strikes
    }
}
