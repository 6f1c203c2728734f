//! [`selective`]: checkpoints that keep the results of some operators (`create_selective_checkpoint_contexts`).
//!
//! The operators of a run go through a kernel of the key `Python`, where PyTorch has its modes: below autograd, so
//! that a call is recorded whether its result is computed or was kept. Results that are written arguments or views are
//! always made again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use aten::dispatch::local::{ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard};
use aten::dispatch::{
    DispatchKey, DispatchKeySet, Dispatcher, Kernel, Library, OperatorHandle, Stack, Value,
};
use aten::random::Generator;
use aten::{Error, Result};

use super::context::{CheckpointContext, Contexts};
use crate::saved;

/// What is done with the result of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPolicy {
    /// It is kept until the gradients are computed (`MUST_SAVE`).
    Save,
    /// It is computed again (`PREFER_RECOMPUTE`).
    Recompute,
}

type Policy = dyn Fn(OperatorHandle) -> CheckpointPolicy + Send + Sync;

/// Contexts of a checkpoint that keeps the results of the operators that `policy` says.
///
/// ```
/// use aten::{Result, Tensor};
/// use tensorplay_autograd::TensorAutograd;
/// use tensorplay_autograd::checkpoint::{CheckpointOptions, CheckpointPolicy, checkpoint_with, selective};
///
/// let x = Tensor::from_elements(&[3.0])?.requires_grad_(true)?;
/// let keep_products = selective(|operator| match operator.name() {
///     "aten::mul.Tensor" => CheckpointPolicy::Save,
///     _ => CheckpointPolicy::Recompute,
/// })?;
/// let options = CheckpointOptions { contexts: Some(keep_products), ..Default::default() };
/// let y = checkpoint_with(|x: &[Tensor]| x[0].mul(&x[0])?.mul(&x[0]), &[&x], options)?;
/// y.backward()?;
/// assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [27.0]);
/// # Ok::<(), aten::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Registration`](aten::ErrorKind::Registration) when another crate serves the key `Python`.
pub fn selective(
    policy: impl Fn(OperatorHandle) -> CheckpointPolicy + Send + Sync + 'static,
) -> Result<Contexts> {
    register()?;
    let policy: Arc<Policy> = Arc::new(policy);
    Ok(Arc::new(move || {
        let cache = Arc::new(Cache { policy: Arc::clone(&policy), kept: Mutex::default() });
        (Arc::new(Keeps(Arc::clone(&cache))), Arc::new(Replays(cache)))
    }))
}

fn register() -> Result<()> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let mut library = Library::fallbacks(Dispatcher::global());
        let kernel = Kernel::boxed(call).named("autograd: selective checkpoints");
        let result = library.fallback(&[DispatchKey::Python], kernel);
        library.keep();
        result.map_err(|error| error.to_string())
    });
    done.clone().map_err(|text| Error::new(aten::ErrorKind::Registration, text))
}

/// The results that one checkpoint keeps, for each operator in the order of its calls.
struct Cache {
    policy: Arc<Policy>,
    kept: Mutex<HashMap<&'static str, Vec<Arc<Kept>>>>,
}

struct Kept {
    results: Stack,
    versions: Vec<u32>,
    /// Where the generator was after the call, if the call drew from it.
    random: Option<Vec<u8>>,
}

struct Keeps(Arc<Cache>);
struct Replays(Arc<Cache>);

/// What is done with the calls of a thread.
enum Mode {
    Keep(Arc<Cache>),
    /// With the number of calls of each operator so far.
    Replay(Arc<Cache>, Mutex<HashMap<&'static str, usize>>),
}

thread_local! {
    /// The innermost is the last.
    static MODES: RefCell<Vec<Arc<Mode>>> = const { RefCell::new(Vec::new()) };
}

impl CheckpointContext for Keeps {
    fn enter(&self, run: &mut dyn FnMut()) {
        with(Mode::Keep(Arc::clone(&self.0)), run);
    }
}

impl CheckpointContext for Replays {
    fn enter(&self, run: &mut dyn FnMut()) {
        with(Mode::Replay(Arc::clone(&self.0), Mutex::default()), run);
    }
}

/// Runs it in a mode.
fn with(mode: Mode, run: &mut dyn FnMut()) {
    struct Entered;
    impl Drop for Entered {
        fn drop(&mut self) {
            drop(MODES.with_borrow_mut(Vec::pop));
        }
    }
    MODES.with_borrow_mut(|modes| modes.push(Arc::new(mode)));
    let _entered = Entered;
    let _included = IncludeDispatchKeyGuard::new(DispatchKeySet::new(DispatchKey::Python));
    run();
}

/// The innermost mode, which is none of this thread's while this lives.
struct Outside(Arc<Mode>);

impl Outside {
    fn step() -> Option<Self> {
        MODES.with_borrow_mut(Vec::pop).map(Self)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        MODES.with_borrow_mut(|modes| modes.push(Arc::clone(&self.0)));
    }
}

/// The kernel of the key.
fn call(operator: OperatorHandle, keys: DispatchKeySet, stack: &mut Stack) -> Result<()> {
    let Some(outside) = Outside::step() else {
        let _excluded = ExcludeDispatchKeyGuard::new(DispatchKeySet::new(DispatchKey::Python));
        return operator.redispatch_boxed(keys & DispatchKeySet::full_after(DispatchKey::Python), stack);
    };
    let has_aliases = operator.schema().is_none_or(|schema| {
        schema.is_mutable() || schema.returns().iter().any(|result| result.alias.is_some())
    });
    if has_aliases {
        return call(operator, keys, stack);
    }
    match &*outside.0 {
        Mode::Keep(cache) if (cache.policy)(operator) == CheckpointPolicy::Save => {
            let before = Generator::default_cpu().state();
            call(operator, keys, stack)?;
            let after = Generator::default_cpu().state();
            cache.keep(operator.name(), stack, (before != after).then_some(after))
        }
        Mode::Replay(cache, counts) if (cache.policy)(operator) == CheckpointPolicy::Save => {
            let at = {
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                let count = counts.entry(operator.name()).or_insert(0);
                *count += 1;
                *count - 1
            };
            *stack = cache.replay(operator.name(), at)?;
            Ok(())
        }
        _ => call(operator, keys, stack),
    }
}

impl Cache {
    fn keep(&self, name: &'static str, results: &Stack, random: Option<Vec<u8>>) -> Result<()> {
        let results = aliases(results)?;
        let versions = versions(&results);
        let kept = Arc::new(Kept { results, versions, random });
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().push(kept);
        Ok(())
    }

    fn replay(&self, name: &'static str, at: usize) -> Result<Stack> {
        let kept = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get(name).and_then(|calls| calls.get(at)).cloned()
        };
        let Some(kept) = kept else {
            return Err(Error::invalid_argument(format!(
                "{name} encountered during backward, but not found in storage: the recomputation of a selective \
                 checkpoint calls it more often than the forward pass did"
            )));
        };
        if versions(&kept.results) != kept.versions {
            return Err(Error::invalid_argument(
                "Tensor cached during selective activation checkpoint has been mutated",
            ));
        }
        if let Some(random) = &kept.random {
            Generator::default_cpu().set_state(random)?;
        }
        aliases(&kept.results)
    }
}

/// The same values, with tensors that nothing has been said of.
fn aliases(values: &[Value]) -> Result<Stack> {
    let _excluded = ExcludeDispatchKeyGuard::new(DispatchKeySet::new(DispatchKey::Python));
    let alias = |value: &Value| match value {
        Value::Tensor(tensor) => saved::alias(tensor).map(Value::Tensor),
        Value::List(values) => aliases(values).map(Value::List),
        other => Ok(other.clone()),
    };
    values.iter().map(alias).collect()
}

fn versions(values: &[Value]) -> Vec<u32> {
    let mut versions = Vec::new();
    values.iter().for_each(|value| value.for_each_tensor(&mut |tensor| versions.push(tensor.version())));
    versions
}
