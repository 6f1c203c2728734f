//! Functions with derivatives of the user's own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_ref;
use std::sync::{Arc, Mutex};

use aten::{Result, Tensor, WeakTensor};
use tensorplay_autograd::{
    BackwardContext, BackwardOptions, ForwardContext, Function, GradOptions, GradOutputs, TensorAutograd,
    enable_grad, grad_with, no_grad,
};

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec::<f64>().unwrap()
}

fn backward_with(tensor: &Tensor, gradient: &[f64]) -> Result<()> {
    let gradients = &[Some(Tensor::from_elements(gradient).unwrap())];
    tensor.backward_with(BackwardOptions { gradients, ..Default::default() })
}

/// The derivative of sums is one: a gradient of ones.
fn backward(tensor: &Tensor) -> Result<()> {
    backward_with(tensor, &vec![1.0; tensor.numel() as usize])
}

type Forward = dyn Fn(&mut ForwardContext<'_>, &[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync;
type Backward = dyn Fn(&BackwardContext<'_>, &GradOutputs) -> Result<Vec<Option<Tensor>>> + Send + Sync;

/// A function made of closures.
struct Made {
    forward: Box<Forward>,
    backward: Box<Backward>,
}

impl Made {
    fn new(
        forward: impl Fn(&mut ForwardContext<'_>, &[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
        backward: impl Fn(&BackwardContext<'_>, &GradOutputs) -> Result<Vec<Option<Tensor>>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { forward: Box::new(forward), backward: Box::new(backward) }
    }
}

impl Function for Made {
    fn forward(&mut self, ctx: &mut ForwardContext<'_>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        (self.forward)(ctx, inputs)
    }

    fn backward(&self, ctx: &BackwardContext<'_>, grads: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
        (self.backward)(ctx, grads)
    }
}

/// `by · x²`.
struct ScaledSquare {
    by: f64,
}

impl Function for ScaledSquare {
    fn forward(&mut self, ctx: &mut ForwardContext<'_>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward([inputs[0]]);
        Ok(vec![inputs[0].mul(inputs[0])?.mul_scalar(self.by)?])
    }

    fn backward(&self, ctx: &BackwardContext<'_>, grads: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
        let x = ctx.saved_tensor(0)?;
        Ok(vec![Some(grads.tensor(0)?.mul(&x)?.mul_scalar(2.0 * self.by)?)])
    }
}

#[test]
fn a_function_gives_its_gradient_under_its_name() {
    let x = leaf(&[1.0, 2.0]);
    let y = ScaledSquare { by: 10.0 }.apply_one(&[&x]).unwrap();
    assert_eq!(values(&y), [10.0, 40.0]);
    assert_eq!(y.grad_fn().unwrap().unwrap().name(), "ScaledSquareBackward");
    assert!(!y.is_inference() && y.view_base().is_none());
    backward_with(&y, &[1.0, 3.0]).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [20.0, 120.0]);
    let again = backward(&y).unwrap_err().to_string();
    assert!(again.contains("Trying to backward through the graph a second time"), "{again}");
}

#[test]
fn a_backward_step_of_operators_is_differentiated_again() {
    let x = leaf(&[3.0]);
    let y = ScaledSquare { by: 1.0 }.apply_one(&[&x]).unwrap().mul(&x).unwrap();
    let ones = [Some(Tensor::from_elements(&[1.0]).unwrap())];
    let options = GradOptions { create_graph: true, grad_outputs: &ones, ..Default::default() };
    let first = grad_with(&[y], from_ref(&x), options).unwrap().remove(0).unwrap();
    assert_eq!(values(&first), [27.0]);
    let second =
        grad_with(&[first], &[x], GradOptions { grad_outputs: &ones, ..Default::default() }).unwrap();
    assert_eq!(values(second[0].as_ref().unwrap()), [18.0]);
}

#[test]
fn nothing_is_recorded_when_nothing_is_wanted() {
    let plain = Tensor::from_elements(&[1.0]).unwrap();
    let y = ScaledSquare { by: 1.0 }.apply_one(&[&plain]).unwrap();
    assert!(!y.requires_grad() && y.grad_fn().unwrap().is_none());
    let x = leaf(&[1.0]);
    let y = no_grad(|| ScaledSquare { by: 1.0 }.apply_one(&[&x])).unwrap();
    assert!(!y.requires_grad() && y.grad_fn().unwrap().is_none());
}

#[test]
fn what_was_saved_must_not_have_been_changed() {
    let x = leaf(&[1.0, 2.0]).mul_scalar(1.0).unwrap();
    let y = ScaledSquare { by: 1.0 }.apply_one(&[&x]).unwrap();
    x.mul_scalar_(2.0).unwrap();
    let error = backward(&y).unwrap_err().to_string();
    assert!(error.contains("has been modified by an inplace operation: [torch.DoubleTensor [2]]"), "{error}");
    assert!(error.contains("is at version 1; expected version 0 instead"), "{error}");
}

/// `2x`, which keeps its result, and gives as gradient the result times the gradient.
fn keeping_its_result() -> Made {
    Made::new(
        |ctx, inputs| {
            let y = inputs[0].mul_scalar(2.0)?;
            ctx.save_for_backward([None, Some(&y)]);
            Ok(vec![y])
        },
        |ctx, grads| {
            assert!(ctx.saved_optional(0)?.is_none());
            Ok(vec![Some(grads.tensor(0)?.mul(&ctx.saved_tensor(1)?)?)])
        },
    )
}

#[test]
fn a_saved_result_has_its_history_and_no_cycle() {
    let x = leaf(&[3.0]);
    let y = keeping_its_result().apply_one(&[&x]).unwrap();
    let ones = [Some(Tensor::from_elements(&[1.0]).unwrap())];
    let options = GradOptions { create_graph: true, grad_outputs: &ones, ..Default::default() };
    let first = grad_with(from_ref(&y), from_ref(&x), options).unwrap().remove(0).unwrap();
    assert_eq!(values(&first), [6.0]);
    // d(y)/dx, by the function's own rule.
    let second =
        grad_with(&[first], &[x], GradOptions { grad_outputs: &ones, ..Default::default() }).unwrap();
    assert_eq!(values(second[0].as_ref().unwrap()), [6.0]);
    let (storage, weak) = (y.storage().downgrade(), y.downgrade());
    drop(y);
    assert!(weak.expired());
    assert!(storage.upgrade().is_none());
}

#[test]
fn a_changed_result_is_found() {
    let x = leaf(&[3.0]);
    let y = keeping_its_result().apply_one(&[&x]).unwrap();
    let z = y.mul_scalar(1.0).unwrap();
    y.mul_scalar_(5.0).unwrap();
    let error = backward(&z).unwrap_err().to_string();
    assert!(error.contains("which is output 0 of Made, is at version 1; expected version 0"), "{error}");
}

/// Keeps its result in a field, where a cycle could be.
struct Hoarder {
    kept: Option<Tensor>,
    seen: Arc<Mutex<Option<WeakTensor>>>,
}

impl Function for Hoarder {
    fn forward(&mut self, _: &mut ForwardContext<'_>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let y = inputs[0].mul_scalar(2.0)?;
        *self.seen.lock().unwrap() = Some(y.downgrade());
        self.kept = Some(y.clone());
        Ok(vec![y])
    }

    fn backward(&self, _: &BackwardContext<'_>, grads: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
        assert!(self.kept.as_ref().is_some_and(|kept| !kept.requires_grad()));
        Ok(vec![Some(grads.tensor(0)?.mul_scalar(2.0)?)])
    }
}

#[test]
fn a_result_in_a_field_is_no_leak() {
    let seen = Arc::new(Mutex::new(None));
    let x = leaf(&[1.0]);
    let y = Hoarder { kept: None, seen: Arc::clone(&seen) }.apply_one(&[&x]).unwrap();
    let storage = y.storage().downgrade();
    backward(&y).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [2.0]);
    drop(y);
    assert!(seen.lock().unwrap().as_ref().unwrap().expired());
    assert!(storage.upgrade().is_none());
}

fn identity(factor: f64) -> Made {
    Made::new(
        |_, inputs| Ok(vec![inputs[0].clone()]),
        move |_, grads| Ok(vec![Some(grads.tensor(0)?.mul_scalar(factor)?)]),
    )
}

#[test]
fn an_input_that_is_returned_counts_as_a_view_of_itself() {
    let x = leaf(&[1.0]);
    let y = x.mul_scalar(1.0).unwrap();
    let z = identity(10.0).apply_one(&[&y]).unwrap();
    assert!(!z.is_same(&y) && z.is_alias_of(&y));
    assert!(z.view_base().is_some_and(|base| base.is_same(&y)));
    assert_eq!(z.grad_fn().unwrap().unwrap().name(), "MadeBackward");
    assert_eq!(y.grad_fn().unwrap().unwrap().name(), "MulBackward1");
    let refused = z.mul_scalar_(2.0).unwrap_err().to_string();
    let expected = "Output 0 of Made is a view and is being modified inplace. This view was created inside a custom \
                    Function (or because an input was returned as-is)";
    assert!(refused.contains(expected), "{refused}");
    assert_eq!(values(&y), [1.0]);
    backward(&z).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [10.0]);
}

#[test]
fn an_input_that_is_returned_unrecorded_is_detached() {
    let x = leaf(&[1.0]);
    let z = no_grad(|| identity(1.0).apply_one(&[&x])).unwrap();
    assert!(!z.is_same(&x) && z.is_alias_of(&x));
    assert!(!z.requires_grad() && z.view_base().is_none());
    let plain = Tensor::from_elements(&[1.0]).unwrap();
    let z = identity(1.0).apply_one(&[&plain]).unwrap();
    assert!(!z.is_same(&plain) && z.view_base().is_some_and(|base| base.is_same(&plain)));
}

#[test]
fn views_that_a_function_returns_may_not_be_changed() {
    let y = leaf(&[1.0, 2.0]).mul_scalar(1.0).unwrap();
    let view = Made::new(
        |_, inputs| Ok(vec![inputs[0].narrow(0, 0, 1)?]),
        |_, grads| Ok(vec![Some(grads.tensor(0)?.clone())]),
    );
    let z = view.apply_one(&[&y]).unwrap();
    assert!(z.view_base().is_some_and(|base| base.is_same(&y)));
    let refused = z.mul_scalar_(2.0).unwrap_err().to_string();
    assert!(refused.contains("This view was created inside a custom Function"), "{refused}");
    let two = Made::new(
        |_, inputs| Ok(vec![inputs[0].narrow(0, 0, 1)?, inputs[0].mul_scalar(2.0)?]),
        |_, grads| Ok(vec![Some(grads.tensor(1)?.clone())]),
    );
    let results = two.apply(&[&y]).unwrap();
    let refused = results[0].mul_scalar_(2.0).unwrap_err().to_string();
    assert!(
        refused.contains("This view is the output of a function that returns multiple views"),
        "{refused}"
    );
    results[1].mul_scalar_(2.0).unwrap();
}

/// Doubles input `at` in place; its gradient counts tenfold for each input.
fn doubling(at: usize) -> Made {
    Made::new(
        move |ctx, inputs| {
            ctx.mark_dirty(inputs[at])?;
            inputs[at].mul_scalar_(2.0)?;
            Ok(vec![inputs[at].clone()])
        },
        |ctx, grads| {
            let give = |at: usize| -> Result<Option<Tensor>> {
                if !ctx.needs_input_grad(at) {
                    return Ok(None);
                }
                Ok(Some(grads.tensor(0)?.mul_scalar(10.0 * (at as f64 + 1.0))?))
            };
            Ok(vec![give(0)?, give(1)?])
        },
    )
}

#[test]
fn a_dirty_input_is_returned_itself_with_a_new_history() {
    let (x, w) = (leaf(&[1.0]), leaf(&[1.0]));
    let y = x.mul_scalar(3.0).unwrap();
    let z = doubling(0).apply_one(&[&y, &w]).unwrap();
    assert!(z.is_same(&y));
    assert_eq!((values(&z), z.version()), (vec![6.0], 1));
    assert_eq!(y.grad_fn().unwrap().unwrap().name(), "MadeBackward");
    backward(&y).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [30.0]);
    assert_eq!(values(&w.grad().unwrap()), [20.0]);
}

#[test]
fn a_dirty_view_changes_the_history_of_its_base() {
    for place in [0, 1] {
        let (x, w) = (leaf(&[1.0, 1.0]), leaf(&[1.0]));
        let base = x.mul_scalar(3.0).unwrap();
        let view = base.narrow(0, 1, 1).unwrap();
        let inputs = if place == 0 { [&view, &w] } else { [&w, &view] };
        let z = doubling(place).apply_one(&inputs).unwrap();
        assert!(z.is_same(&view));
        assert_eq!(values(&base), [3.0, 6.0]);
        assert_eq!(base.grad_fn().unwrap().unwrap().name(), "CopySlices");
        backward(&base).unwrap();
        let of_view = 3.0 * 10.0 * (place as f64 + 1.0);
        assert_eq!(values(&x.grad().unwrap()), [3.0, of_view]);
        assert_eq!(values(&w.grad().unwrap()), [10.0 * (2.0 - place as f64)]);
    }
}

#[test]
fn what_may_not_be_dirty() {
    let (x, w) = (leaf(&[1.0]), leaf(&[1.0]));
    let error = doubling(0).apply(&[&x, &w]).unwrap_err().to_string();
    assert!(
        error.contains("a leaf Variable that requires grad has been used in an in-place operation."),
        "{error}"
    );
    assert_eq!(values(&x), [1.0]);

    let lost = Made::new(
        |ctx, inputs| {
            ctx.mark_dirty(inputs[0])?;
            Ok(vec![inputs[0].mul_scalar(1.0)?])
        },
        |_, _| unreachable!(),
    );
    let error = lost.apply(&[&x.mul_scalar(1.0).unwrap()]).unwrap_err().to_string();
    assert!(
        error.contains("Some elements marked as dirty during the forward method were not returned"),
        "{error}"
    );

    let two = Made::new(
        |ctx, inputs| {
            ctx.mark_dirty(inputs[0])?;
            Ok(vec![inputs[0].clone(), inputs[0].mul_scalar(1.0)?])
        },
        |_, _| unreachable!(),
    );
    let view = x.mul_scalar(1.0).unwrap().narrow(0, 0, 1).unwrap();
    let error = two.apply(&[&view]).unwrap_err().to_string();
    assert!(error.contains("your Function cannot return more than one Tensor"), "{error}");

    let other = Made::new(
        |ctx, inputs| {
            ctx.mark_dirty(&inputs[0].mul_scalar(1.0)?)?;
            Ok(vec![inputs[0].mul_scalar(1.0)?])
        },
        |_, _| unreachable!(),
    );
    let error = other.apply(&[&x]).unwrap_err().to_string();
    assert!(error.contains("ctx.mark_dirty() received a tensor that was not an input"), "{error}");
}

#[test]
fn gradients_that_nothing_gave_are_zeros_unless_they_are_not_wanted() {
    for materializes in [true, false] {
        let x = leaf(&[1.0, 2.0]);
        let three = Made::new(
            move |ctx, inputs| {
                ctx.set_materialize_grads(materializes);
                let results: Vec<_> =
                    (1..4).map(|by| inputs[0].mul_scalar(f64::from(by))).collect::<Result<_>>()?;
                ctx.mark_non_differentiable(&results[2]);
                Ok(results)
            },
            move |_, grads| {
                assert_eq!(grads.len(), 3);
                for at in [1, 2] {
                    match materializes {
                        true => assert_eq!(values(grads.tensor(at)?), [0.0, 0.0]),
                        false => assert!(grads.tensor(at).is_err()),
                    }
                }
                Ok(vec![Some(grads.tensor(0)?.clone()), None, None])
            },
        );
        let results = three.apply(&[&x]).unwrap();
        assert!(results[0].requires_grad() && results[1].requires_grad() && !results[2].requires_grad());
        backward(&results[0]).unwrap();
        assert_eq!(values(&x.grad().unwrap()), [1.0, 1.0]);
    }
}

#[test]
fn a_result_that_is_returned_twice_is_one_tensor() {
    let x = leaf(&[1.0]);
    let twice = Made::new(
        |_, inputs| {
            let y = inputs[0].mul_scalar(2.0)?;
            Ok(vec![y.clone(), y])
        },
        |_, grads| {
            assert_eq!((values(grads.tensor(0)?), values(grads.tensor(1)?)), (vec![0.0], vec![3.0]));
            Ok(vec![Some(grads.tensor(0)?.add(grads.tensor(1)?)?)])
        },
    );
    let results = twice.apply(&[&x]).unwrap();
    assert!(results[0].is_same(&results[1]));
    assert_eq!(results[0].output_nr(), 1);
    backward(&results[0].mul_scalar(3.0).unwrap()).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [3.0]);
}

/// The square, by a backward step that must not be differentiated.
struct Once;

impl Function for Once {
    const IS_ONCE_DIFFERENTIABLE: bool = true;

    fn forward(&mut self, ctx: &mut ForwardContext<'_>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward([inputs[0]]);
        Ok(vec![inputs[0].mul(inputs[0])?])
    }

    fn backward(&self, ctx: &BackwardContext<'_>, grads: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
        assert!(!tensorplay_autograd::is_grad_enabled());
        Ok(vec![Some(grads.tensor(0)?.mul(&ctx.saved_tensor(0)?)?.mul_scalar(2.0)?)])
    }
}

#[test]
fn what_is_differentiable_once_says_so_the_second_time() {
    let x = leaf(&[3.0]);
    let y = Once.apply_one(&[&x]).unwrap();
    let ones = [Some(Tensor::from_elements(&[1.0]).unwrap())];
    let options = GradOptions { create_graph: true, grad_outputs: &ones, ..Default::default() };
    let first = grad_with(&[y], from_ref(&x), options).unwrap().remove(0).unwrap();
    assert_eq!(values(&first), [6.0]);
    let error = backward(&first).unwrap_err().to_string();
    assert!(error.contains("trying to differentiate twice a function that was marked with"), "{error}");
    let y = Once.apply_one(&[&x]).unwrap();
    backward(&y).unwrap();
    assert!(!x.grad().unwrap().requires_grad());
}

#[test]
fn gradients_are_counted_and_measured() {
    let given = |count: usize, size: usize| {
        Made::new(
            |_, inputs| Ok(vec![inputs[0].mul_scalar(2.0)?]),
            move |_, _| Ok(vec![Some(Tensor::from_slice(&vec![1.0; size], &[size as i64])?); count]),
        )
    };
    let x = leaf(&[1.0, 2.0]);
    let run = |made: Made| backward(&made.apply_one(&[&x]).unwrap()).unwrap_err().to_string();
    for count in [0, 2] {
        let error = run(given(count, 2));
        let expected = format!("returned an incorrect number of gradients (expected 1, got {count})");
        assert!(error.contains(&expected), "{error}");
    }
    let error = run(given(1, 7));
    assert!(
        error.contains("Function MadeBackward returned an invalid gradient at index 0 - got [7]"),
        "{error}"
    );
    let with_none = Made::new(
        |_, inputs| Ok(vec![inputs[0].mul_scalar(2.0)?]),
        |_, grads| Ok(vec![grads.optional(0).cloned(), None, None]),
    );
    backward(&with_none.apply_one(&[&x]).unwrap()).unwrap();
    assert!(given(1, 2).apply(&[&x, &x]).unwrap()[0].requires_grad());
}

#[test]
fn errors_and_panics_leave_nothing() {
    let x = leaf(&[1.0, 2.0]).mul_scalar(1.0).unwrap();
    let seen: Arc<Mutex<Vec<WeakTensor>>> = Arc::default();
    let failing = |in_forward: bool, panics: bool| {
        let seen = Arc::clone(&seen);
        let fail = move || match panics {
            true => panic!("on purpose"),
            false => Err(aten::Error::invalid_argument("on purpose")),
        };
        Made::new(
            move |ctx, inputs| {
                let kept = inputs[0].mul_scalar(2.0)?;
                seen.lock().unwrap().push(kept.downgrade());
                ctx.save_for_backward([&kept, inputs[0]]);
                if in_forward { fail() } else { Ok(vec![inputs[0].mul_scalar(3.0)?]) }
            },
            move |ctx, _| {
                ctx.saved_tensors()?;
                if panics { panic!("on purpose") } else { Err(aten::Error::invalid_argument("on purpose")) }
            },
        )
    };
    for panics in [false, true] {
        let run = || -> Result<()> {
            failing(true, panics).apply(&[&x])?;
            Ok(())
        };
        assert!(!matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(()))));
        assert!(tensorplay_autograd::is_grad_enabled());
        let run = || backward(&failing(false, panics).apply_one(&[&x])?);
        assert!(!matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(()))));
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(WeakTensor::expired));
}

#[test]
fn a_long_chain_of_functions_is_dropped_without_recursion() {
    let x = leaf(&[1.0]);
    for runs in [true, false] {
        let mut y = x.mul_scalar(1.0).unwrap();
        for _ in 0..20_000 {
            y = identity(1.0).apply_one(&[&y]).unwrap();
            y = Hoarder { kept: None, seen: Arc::default() }
                .apply_one(&[&y])
                .unwrap()
                .mul_scalar(0.5)
                .unwrap();
        }
        if runs {
            backward(&y).unwrap();
            assert_eq!(values(&x.grad().unwrap()), [1.0]);
        }
        drop(y);
    }
}

#[test]
fn one_result_is_asked_for_by_name() {
    let none = Made::new(|_, _| Ok(Vec::new()), |_, _| unreachable!());
    assert!(none.apply_one(&[]).unwrap_err().to_string().contains("gives 0 results"));
    let x = leaf(&[1.0]);
    let two = Made::new(|_, inputs| Ok(vec![inputs[0].clone(); 2]), |_, _| unreachable!());
    assert!(two.apply_one(&[&x]).unwrap_err().to_string().contains("gives 2 results"));
}

/// The cube, whose backward step computes it again and differentiates that.
struct Again;

impl Function for Again {
    fn forward(&mut self, ctx: &mut ForwardContext<'_>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward([inputs[0]]);
        Ok(vec![inputs[0].mul(inputs[0])?.mul(inputs[0])?])
    }

    fn backward(&self, ctx: &BackwardContext<'_>, grads: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
        let x = ctx.saved_tensor(0)?.detach()?.requires_grad_(true)?;
        let y = enable_grad(|| x.mul(&x)?.mul(&x))?;
        let one = [grads.optional(0).cloned()];
        let options = GradOptions { create_graph: true, grad_outputs: &one, ..Default::default() };
        grad_with(&[y], &[x], options)
    }
}

#[test]
fn a_backward_step_that_differentiates_leaves_nothing() {
    let live = |rounds: usize| {
        let x = leaf(&[2.0; 4096]);
        for _ in 0..rounds {
            let y = Again.apply_one(&[&x]).unwrap();
            backward(&y).unwrap();
            assert_eq!(values(&x.grad().unwrap())[0], 12.0);
            x.set_grad(None).unwrap();
        }
        let storages: Vec<_> = (0..2).map(|_| x.storage().use_count()).collect();
        (storages, x.use_count())
    };
    assert_eq!(live(1), live(100));
}

#[test]
fn functions_of_many_threads_do_not_meet() {
    let x = leaf(&[3.0]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let y = ScaledSquare { by: 2.0 }.apply_one(&[&x]).unwrap();
                    let one = [Some(Tensor::from_elements(&[1.0]).unwrap())];
                    let options = GradOptions { grad_outputs: &one, ..Default::default() };
                    let of_x = grad_with(from_ref(&y), from_ref(&x), options).unwrap().remove(0).unwrap();
                    assert_eq!(values(&of_x), [12.0]);
                }
            });
        }
    });
}

/// Row 89: a backward that itself asks for gradients, of a graph that it records, leaves nothing behind.
#[test]
fn a_backward_that_records_and_differentiates_keeps_memory_flat() {
    crate::live::none_left(|| {
        let x = leaf(&[1.0, 2.0, 3.0]);
        let before = crate::live::Tracked::here().count();
        for _ in 0..100 {
            let cube = Made::new(
                |ctx, inputs| {
                    ctx.save_for_backward([inputs[0]]);
                    Ok(vec![inputs[0].mul(inputs[0])?.mul(inputs[0])?])
                },
                |ctx, grads| {
                    let x = ctx.saved_tensor(0)?;
                    let gradient = enable_grad(|| -> Result<Tensor> {
                        let x = x.detach()?.requires_grad_(true)?;
                        let y = x.mul(&x)?.mul(&x)?.sum()?;
                        let options = GradOptions { create_graph: true, ..Default::default() };
                        let gradients = grad_with(from_ref(&y), from_ref(&x), options)?;
                        gradients.into_iter().flatten().next().unwrap().detach()
                    })?;
                    Ok(vec![Some(grads.tensor(0)?.mul(&gradient)?)])
                },
            );
            backward(&cube.apply_one(&[&x]).unwrap()).unwrap();
            assert_eq!(values(&x.grad().unwrap()), [3.0, 12.0, 27.0]);
            x.set_grad(None).unwrap();
            assert_eq!(crate::live::Tracked::here().count(), before);
        }
    });
}
