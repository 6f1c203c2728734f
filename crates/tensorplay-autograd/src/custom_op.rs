//! [`CustomOpAutograd`]: derivatives of operators of outside crates (`torch.library.register_autograd`).

use std::fmt;
use std::sync::Arc;

use aten::dispatch::local::AutoDispatchBelowAutograd;
use aten::dispatch::{CustomOp, DispatchKey, DispatchKeySet, Kernel, OperatorHandle, Stack, Value};
use aten::{Error, ErrorKind, Result, Tensor};

use crate::function::{BackwardContext, Call, GradOutputs, Marks, Step};
use crate::kernel::BELOW_AUTOGRAD;
use crate::meta::requires_grad;
use crate::mode::{GradModeGuard, is_grad_enabled};
use crate::node::{Edge, Edges, next_sequence};
use crate::view_track::gradient_edge;

mod sealed {
    pub trait Sealed {}
    impl Sealed for aten::dispatch::CustomOp<'_> {}
}

/// Derivatives of operators that an outside crate registered.
pub trait CustomOpAutograd: sealed::Sealed {
    /// Says how the operator is differentiated (`register_autograd`).
    ///
    /// After a call that is recorded, `setup` sees arguments and results: it saves the tensors that are needed, and
    /// returns what else is. `backward` gives one gradient for each argument, those that are no tensors too, and of a
    /// list one for each member. It sees one gradient for each tensor among the results. Made of differentiable
    /// operators it can be differentiated again.
    ///
    /// ```
    /// use aten::dispatch::{CustomOp, Dispatcher, Value};
    /// use aten::{Result, Tensor};
    /// use c10_core::DeviceType;
    /// use tensorplay_autograd::{CustomOpAutograd, TensorAutograd};
    ///
    /// let mut square = CustomOp::builder("mine::square(Tensor x) -> Tensor")
    ///     .kernel(DeviceType::Cpu, |x: &Tensor| -> Result<Tensor> {
    ///         let squares: Vec<f64> = x.to_vec::<f64>()?.iter().map(|x| x * x).collect();
    ///         Tensor::from_slice(&squares, &x.sizes())
    ///     })
    ///     .register(Dispatcher::global())?;
    /// square.register_autograd(
    ///     |ctx, arguments, _| {
    ///         if let Value::Tensor(x) = &arguments[0] {
    ///             ctx.save_for_backward([x]);
    ///         }
    ///         Ok(())
    ///     },
    ///     |ctx, (), grads| Ok(vec![Some(grads.tensor(0)?.mul(&ctx.saved_tensor(0)?)?.mul_scalar(2.0)?)]),
    /// )?;
    ///
    /// let x = Tensor::from_elements(&[3.0])?.requires_grad_(true)?;
    /// let results = square.call(vec![x.clone().into()])?;
    /// let Value::Tensor(y) = &results[0] else { unreachable!("the schema says so") };
    /// y.backward()?;
    /// assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [6.0]);
    /// # Ok::<(), aten::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Registration`] when the operator writes an argument, or has a derivative already.
    fn register_autograd<D: Send + Sync + 'static>(
        &mut self,
        setup: impl Fn(&mut SetupContext<'_>, &[Value], &[Value]) -> Result<D> + Send + Sync + 'static,
        backward: impl Fn(&BackwardContext<'_>, &D, &GradOutputs) -> Result<Vec<Option<Tensor>>>
        + Send
        + Sync
        + 'static,
    ) -> Result<()>;
}

impl CustomOpAutograd for CustomOp<'_> {
    fn register_autograd<D: Send + Sync + 'static>(
        &mut self,
        setup: impl Fn(&mut SetupContext<'_>, &[Value], &[Value]) -> Result<D> + Send + Sync + 'static,
        backward: impl Fn(&BackwardContext<'_>, &D, &GradOutputs) -> Result<Vec<Option<Tensor>>>
        + Send
        + Sync
        + 'static,
    ) -> Result<()> {
        crate::init()?;
        let operator = self.operator();
        if let Some(schema) = operator.schema().filter(|schema| schema.is_mutable()) {
            return Err(Error::new(
                ErrorKind::Registration,
                format!(
                    "Cannot register autograd formula for non-functional operator {} with schema {schema}. Please \
                     create a functional operator and register an autograd formula for that.",
                    operator.name()
                ),
            ));
        }
        let node_name = node_name(operator.name());
        let backward = Arc::new(backward);
        let kernel = Kernel::boxed(move |operator, keys, stack| {
            let below = keys & BELOW_AUTOGRAD;
            let Some(edges) = edges(stack)? else { return operator.redispatch_boxed(below, stack) };
            let recording = Recording { edges, sequence: next_sequence(), name: &node_name };
            recording.record(operator, below, stack, |context, arguments, results| {
                Ok(Formula { data: setup(context, arguments, results)?, backward: Arc::clone(&backward) })
            })
        });
        self.library().impl_kernel(
            operator.name(),
            &[DispatchKey::Autograd],
            kernel.named("register_autograd"),
        )
    }
}

/// What is said of a call of a custom operator after it ran (`ctx` of `setup_context`).
pub struct SetupContext<'a> {
    edges: &'a [Option<Edge>],
    marks: Marks,
}

impl SetupContext<'_> {
    /// Keeps tensors for the backward step; `None` holds a place. A second call replaces the first.
    pub fn save_for_backward<'t>(
        &mut self,
        tensors: impl IntoIterator<Item = impl Into<Option<&'t Tensor>>>,
    ) {
        self.marks.save(tensors);
    }

    /// Says that a result has no gradient.
    pub fn mark_non_differentiable(&mut self, result: &Tensor) {
        self.marks.non_differentiable.push(result.clone());
    }

    /// Whether the backward step has zeros in the place of gradients that nothing gave: yes, unless it is said here.
    pub fn set_materialize_grads(&mut self, materializes: bool) {
        self.marks.materializes = materializes;
    }

    /// Whether the gradient of an argument is wanted; the members of a list count one by one.
    pub fn needs_input_grad(&self, at: usize) -> bool {
        self.edges.get(at).is_some_and(Option::is_some)
    }
}

impl fmt::Debug for SetupContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetupContext").field("edges", &self.edges).finish_non_exhaustive()
    }
}

/// `GeneratedBackwardFor_mylib_sin_defaultBackward`.
fn node_name(operator: &str) -> Arc<str> {
    let (namespace, name) = operator.split_once("::").unwrap_or(("", operator));
    let (name, overload) = name.split_once('.').unwrap_or((name, "default"));
    format!("GeneratedBackwardFor_{namespace}_{name}_{overload}Backward").into()
}

/// Where the gradient of each argument goes; `None` for a call that is not recorded.
fn edges(arguments: &[Value]) -> Result<Option<Edges>> {
    if !is_grad_enabled() {
        return Ok(None);
    }
    let mut wanted = false;
    arguments.iter().for_each(|value| value.for_each_tensor(&mut |tensor| wanted |= requires_grad(tensor)));
    if !wanted {
        return Ok(None);
    }
    let edge = |value: &Value| match value {
        Value::Tensor(tensor) if requires_grad(tensor) => gradient_edge(tensor),
        _ => Ok(None),
    };
    let mut edges = Edges::None;
    for value in arguments {
        match value {
            Value::List(members) if members.iter().any(|member| matches!(member, Value::Tensor(_))) => {
                for member in members {
                    edges.push(edge(member)?);
                }
            }
            other => edges.push(edge(other)?),
        }
    }
    Ok(Some(edges))
}

/// A call that is recorded.
struct Recording<'a> {
    edges: Edges,
    sequence: u64,
    name: &'a Arc<str>,
}

impl Recording<'_> {
    /// Runs the call, and has its results made by a node of the step that `setup` gives.
    fn record<S: Step>(
        self,
        operator: OperatorHandle,
        below: DispatchKeySet,
        stack: &mut Stack,
        setup: impl FnOnce(&mut SetupContext<'_>, &[Value], &[Value]) -> Result<S>,
    ) -> Result<()> {
        let arguments = stack.clone();
        {
            let _below = AutoDispatchBelowAutograd::new();
            operator.redispatch_boxed(below, stack)?;
        }
        let mut context = SetupContext { edges: &self.edges, marks: Marks::default() };
        let step = {
            let _no_grad = GradModeGuard::new(false);
            setup(&mut context, &arguments, stack)?
        };
        let marks = context.marks;
        drop(arguments);
        let (mut tensors, mut places) = (Vec::new(), Vec::new());
        stack.iter_mut().for_each(|value| take_tensors(value, &mut tensors, &mut places));
        let name = || Arc::clone(self.name);
        let call = Call { inputs: &[], edges: Some(self.edges), sequence: self.sequence, name: &name };
        let mut made = call.finish(step, marks, tensors)?.into_iter();
        let mut places = places.into_iter();
        stack.iter_mut().for_each(|value| put_tensors(value, &mut made, &mut places));
        Ok(())
    }
}

/// Moves the tensors out, so that each has one handle. `None`s stay in their places.
fn take_tensors(value: &mut Value, into: &mut Vec<Tensor>, places: &mut Vec<bool>) {
    match value {
        Value::List(values) => values.iter_mut().for_each(|value| take_tensors(value, into, places)),
        value => {
            let is_tensor = matches!(value, Value::Tensor(_));
            places.push(is_tensor);
            if is_tensor && let Value::Tensor(tensor) = std::mem::take(value) {
                into.push(tensor);
            }
        }
    }
}

/// Puts tensors where they were taken.
fn put_tensors(
    value: &mut Value,
    from: &mut impl Iterator<Item = Tensor>,
    places: &mut impl Iterator<Item = bool>,
) {
    match value {
        Value::List(values) => values.iter_mut().for_each(|value| put_tensors(value, from, places)),
        value => {
            if places.next() == Some(true)
                && let Some(tensor) = from.next()
            {
                *value = Value::Tensor(tensor);
            }
        }
    }
}

/// The step of an operator's node.
struct Formula<D, B> {
    data: D,
    backward: Arc<B>,
}

impl<D, B> Step for Formula<D, B>
where
    D: Send + Sync + 'static,
    B: Fn(&BackwardContext<'_>, &D, &GradOutputs) -> Result<Vec<Option<Tensor>>> + Send + Sync + 'static,
{
    fn backward(&self, ctx: &BackwardContext<'_>, grad_outputs: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
        (self.backward)(ctx, &self.data, grad_outputs)
    }
}
