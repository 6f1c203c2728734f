//! Parts of a computation that are done again for their gradients.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_ref;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aten::ops::handles;
use aten::random::Generator;
use aten::{Result, Tensor};
use c10_core::WeakStorage;
use c10_core::reporting::{self, MemoryEvent, MemoryObserver};
use tensorplay_autograd::checkpoint::{
    CheckpointContext, CheckpointOptions, CheckpointPolicy, Contexts, DeterminismCheck, checkpoint,
    checkpoint_with, selective,
};
use tensorplay_autograd::{
    BackwardContext, BackwardOptions, ForwardContext, Function, GradOptions, GradOutputs, GradcheckOptions,
    SavedTensorHooks, TensorAutograd, grad_with, gradcheck, gradgradcheck, no_grad, with_saved_tensor_hooks,
};

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec::<f64>().unwrap()
}

fn ones(like: &Tensor) -> Option<Tensor> {
    Some(Tensor::from_slice(&vec![1.0; like.numel() as usize], &like.sizes()).unwrap())
}

fn backward(tensor: &Tensor, keep: bool) -> Result<()> {
    let gradients = &[ones(tensor)];
    let options = BackwardOptions { gradients, retain_graph: Some(keep), ..Default::default() };
    tensor.backward_with(options)
}

/// Counts its calls.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Counter {
    fn step(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// `x⁴` by three products, the last of which takes products.
fn fourth(x: &[Tensor]) -> Result<Tensor> {
    let square = x[0].mul(&x[0])?;
    let cube = square.mul(&x[0])?;
    cube.mul(&x[0])
}

#[test]
fn the_gradient_is_that_of_the_plain_run() {
    let (x, calls) = (leaf(&[1.0, 2.0, 3.0]), Counter::default());
    let counted = calls.clone();
    let f = move |x: &[Tensor]| {
        counted.step();
        fourth(x)
    };
    let y = checkpoint(f, &[&x]).unwrap();
    assert_eq!(calls.count(), 1);
    assert_eq!(values(&y), [1.0, 16.0, 81.0]);
    backward(&y, false).unwrap();
    assert_eq!(calls.count(), 2);
    assert_eq!(values(&x.grad().unwrap()), [4.0, 32.0, 108.0]);
    let again = backward(&y, false).unwrap_err().to_string();
    assert!(again.contains("Trying to backward through the graph a second time"), "{again}");
}

#[test]
fn nothing_is_kept_but_the_inputs_and_what_is_made_again_goes_with_its_use() {
    let x = leaf(&[1.0, 2.0]);
    let seen: Arc<Mutex<Vec<WeakStorage>>> = Arc::default();
    let count = |seen: &Mutex<Vec<WeakStorage>>| {
        let seen = seen.lock().unwrap();
        (seen.len(), seen.iter().filter(|storage| storage.upgrade().is_some()).count())
    };
    let log = Arc::clone(&seen);
    let f = move |x: &[Tensor]| -> Result<Tensor> {
        let square = x[0].mul(&x[0])?;
        let cube = square.mul(&x[0])?;
        log.lock().unwrap().extend([square.storage().downgrade(), cube.storage().downgrade()]);
        cube.mul(&square)
    };
    let y = checkpoint(f, &[&x]).unwrap();
    assert_eq!(count(&seen), (2, 0));
    // The leaf comes last, while the graph and the call are still there.
    let (log, counts) = (Arc::clone(&seen), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&counts);
    x.register_hook(move |_| {
        noted.lock().unwrap().push(count(&log));
        Ok(None)
    })
    .unwrap();
    backward(&y, true).unwrap();
    assert_eq!(*counts.lock().unwrap(), [(4, 0)]);
    assert_eq!(values(&x.grad().unwrap()), [5.0, 80.0]);
}

#[test]
fn a_graph_that_is_kept_is_run_as_often_as_asked() {
    let (x, calls) = (leaf(&[2.0]), Counter::default());
    let counted = calls.clone();
    let f = move |x: &[Tensor]| {
        counted.step();
        fourth(x)
    };
    let y = checkpoint(f, &[&x]).unwrap();
    for times in 1..4 {
        backward(&y, times < 3).unwrap();
        assert_eq!(values(&x.grad().unwrap()), [32.0 * times as f64]);
        assert_eq!(calls.count(), 1 + times);
    }
}

#[test]
fn the_second_run_ends_with_the_last_tensor_that_is_needed() {
    for early_stop in [true, false] {
        let (x, ends) = (leaf(&[2.0]), Counter::default());
        let ended = ends.clone();
        let f = move |x: &[Tensor]| {
            let y = fourth(x)?.mul_scalar(3.0)?;
            ended.step();
            Ok(y)
        };
        let options = CheckpointOptions { early_stop, ..Default::default() };
        let y = checkpoint_with(f, &[&x], options).unwrap();
        backward(&y, false).unwrap();
        assert_eq!(ends.count(), if early_stop { 1 } else { 2 });
        assert_eq!(values(&x.grad().unwrap()), [96.0]);
    }
}

#[test]
fn what_the_function_does_with_a_refusal_to_go_on_does_not_matter() {
    let x = leaf(&[2.0]);
    let f = |x: &[Tensor]| {
        let square = x[0].mul(&x[0])?;
        let cube = square.mul(&x[0]).or_else(|_| square.mul(&x[0])).unwrap_or_else(|_| square.clone());
        Ok(cube)
    };
    let y = checkpoint(f, &[&x]).unwrap();
    backward(&y, false).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [12.0]);
    // Nothing of it stays with the thread.
    let z = x.mul(&x).unwrap();
    backward(&z, false).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [16.0]);
}

#[test]
fn checkpoints_nest() {
    let (x, outer, inner) = (leaf(&[2.0]), Counter::default(), Counter::default());
    let (outer_calls, inner_calls) = (outer.clone(), inner.clone());
    let f = move |x: &[Tensor]| {
        outer_calls.step();
        let square = x[0].mul(&x[0])?;
        let calls = inner_calls.clone();
        let inner = move |y: &[Tensor]| {
            calls.step();
            y[0].mul(&y[0])?.mul(&y[0])
        };
        checkpoint(inner, &[&square])?.mul(&square)
    };
    let y = checkpoint(f, &[&x]).unwrap();
    assert_eq!(values(&y), [256.0]);
    backward(&y, true).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [1024.0]);
    assert_eq!(outer.count(), 2);
    backward(&y, false).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [2048.0]);
    assert_eq!(outer.count(), 3);
    assert_eq!(inner.count(), 5);
}

#[test]
fn second_derivatives_go_through_checkpoints() {
    let x = leaf(&[2.0]);
    let y = checkpoint(fourth, &[&x]).unwrap();
    let one = [ones(&x)];
    let options = GradOptions { create_graph: true, grad_outputs: &one, ..Default::default() };
    let first = grad_with(&[y], from_ref(&x), options).unwrap().remove(0).unwrap();
    assert_eq!(values(&first), [32.0]);
    let options = GradOptions { grad_outputs: &one, ..Default::default() };
    let second = grad_with(&[first], &[x], options).unwrap().remove(0).unwrap();
    assert_eq!(values(&second), [48.0]);
}

/// Whether this process runs the test alone: the default generator is the process's, and others draw from it. If not,
/// the test is run by a process of its own.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "TENSORPLAY_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut run = std::process::Command::new(std::env::current_exe().unwrap());
    let output = run.args([&format!("checkpoint::{test}"), "--exact"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Drops half of the elements at random.
fn dropped(x: &Tensor) -> Result<Tensor> {
    let mut mask = vec![0.0; x.numel() as usize];
    Generator::default_cpu().draw(|draws| {
        mask.iter_mut().for_each(|element| *element = if draws.bernoulli(0.5) { 2.0 } else { 0.0 });
    });
    x.mul(&Tensor::from_slice(&mask, &x.sizes())?)
}

#[test]
fn random_numbers_are_the_same_in_both_runs_and_after_them() {
    let step = |checkpoints: bool| {
        Generator::default_cpu().manual_seed(5);
        let x = leaf(&[1.0; 64]);
        let f = |x: &[Tensor]| dropped(&dropped(&x[0])?.mul(&x[0])?);
        let y = if checkpoints { checkpoint(f, &[&x]) } else { f(from_ref(&x)) }.unwrap();
        let between = dropped(&Tensor::from_elements(&[1.0; 64]).unwrap()).unwrap();
        backward(&y, false).unwrap();
        (values(&y), values(&between), values(&x.grad().unwrap()), Generator::default_cpu().state())
    };
    if is_alone("random_numbers_are_the_same_in_both_runs_and_after_them") {
        assert_eq!(step(true), step(false));
    }
}

#[test]
fn without_the_state_other_numbers_are_drawn() {
    if !is_alone("without_the_state_other_numbers_are_drawn") {
        return;
    }
    Generator::default_cpu().manual_seed(5);
    let x = leaf(&[1.0; 64]);
    let options = CheckpointOptions { preserve_rng_state: false, ..Default::default() };
    let y = checkpoint_with(|x: &[Tensor]| dropped(&x[0]), &[&x], options).unwrap();
    backward(&y, false).unwrap();
    assert_ne!(values(&y), values(&x.grad().unwrap()));
}

/// Something else in each run.
fn by_call(
    first: fn(&Tensor) -> Result<Tensor>,
    later: fn(&Tensor) -> Result<Tensor>,
) -> impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync {
    let calls = Counter::default();
    move |x: &[Tensor]| if calls.step() == 0 { first(&x[0]) } else { later(&x[0]) }
}

#[test]
fn runs_that_differ_are_found() {
    let x = leaf(&[1.0, 2.0]);
    let square = |x: &Tensor| x.mul(x);
    type Run = dyn Fn(&[Tensor]) -> Result<Tensor> + Send + Sync;
    let fails = |f: Box<Run>, options: CheckpointOptions| {
        let y = checkpoint_with(f, &[&x], options).unwrap();
        backward(&y, false).unwrap_err().to_string()
    };
    let fewer = fails(Box::new(by_call(square, |x| x.mul_scalar(2.0))), CheckpointOptions::default());
    insta::assert_snapshot!(fewer, @r"
    torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.
    Number of tensors saved during forward: 2
    Number of tensors saved during recomputation: 0.
    ");
    let more = CheckpointOptions { early_stop: false, ..Default::default() };
    let more = fails(Box::new(by_call(square, |x| x.mul(x)?.mul(x))), more);
    assert!(
        more.contains("trying to save more tensors during recomputation than during the original"),
        "{more}"
    );
    let other = |x: &Tensor| {
        let part = x.narrow(0, 0, 1)?;
        part.mul(&part)
    };
    let metadata = fails(Box::new(by_call(square, other)), CheckpointOptions::default());
    insta::assert_snapshot!(metadata, @"
    torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.
    tensor at position 0:
    saved metadata: {'shape': torch.Size([2]), 'dtype': torch.float64, 'device': device(type='cpu')}
    recomputed metadata: {'shape': torch.Size([1]), 'dtype': torch.float64, 'device': device(type='cpu')}
    tensor at position 1:
    saved metadata: {'shape': torch.Size([2]), 'dtype': torch.float64, 'device': device(type='cpu')}
    recomputed metadata: {'shape': torch.Size([1]), 'dtype': torch.float64, 'device': device(type='cpu')}
    ");
    let unchecked = CheckpointOptions { determinism_check: DeterminismCheck::None, ..Default::default() };
    let unchecked = checkpoint_with(by_call(square, other), &[&x], unchecked).unwrap();
    backward(&unchecked, false).unwrap();
}

#[test]
fn an_input_that_was_changed_is_found() {
    let x = leaf(&[1.0, 2.0]).mul_scalar(1.0).unwrap();
    let y = checkpoint(fourth, &[&x]).unwrap();
    x.mul_scalar_(2.0).unwrap();
    let error = backward(&y, false).unwrap_err().to_string();
    assert!(error.contains("is at version 1; expected version 0 instead"), "{error}");
}

#[test]
fn what_the_function_saved_and_then_changed_is_found() {
    let x = leaf(&[1.0, 2.0]);
    let f = |x: &[Tensor]| {
        let y = x[0].mul_scalar(2.0)?;
        let z = y.mul(&y)?;
        y.mul_scalar_(3.0)?;
        z.mul(&y)
    };
    assert!(backward(&f(from_ref(&x)).unwrap(), false).is_err());
    let y = checkpoint(f, &[&x]).unwrap();
    let error = backward(&y, false).unwrap_err().to_string();
    assert!(error.contains("has been modified by an inplace operation"), "{error}");
}

#[test]
fn failures_leave_nothing_behind() {
    let x = leaf(&[2.0]);
    for panics in [false, true] {
        let calls = Counter::default();
        let f = move |x: &[Tensor]| {
            let y = fourth(x);
            match (calls.step(), panics) {
                (1, true) => panic!("on purpose"),
                (1, false) => Err(aten::Error::invalid_argument("on purpose")),
                _ => y,
            }
        };
        let options = CheckpointOptions { early_stop: false, ..Default::default() };
        let y = checkpoint_with(f, &[&x], options).unwrap();
        let result = catch_unwind(AssertUnwindSafe(|| backward(&y, true)));
        match panics {
            true => assert!(result.is_err()),
            false => assert!(result.unwrap().unwrap_err().to_string().contains("on purpose")),
        }
        // The hooks and modes of the thread are what they were, and the graph is good for another try.
        let plain = x.mul(&x).unwrap();
        backward(&plain, false).unwrap();
        x.set_grad(None).unwrap();
        backward(&y, false).unwrap();
        assert_eq!(values(&x.grad().unwrap()), [32.0]);
        x.set_grad(None).unwrap();
    }
}

#[test]
fn the_gradient_of_one_input_leaves_the_graph_good_for_the_other() {
    let (x, w) = (leaf(&[2.0]), leaf(&[3.0]));
    let f = |inputs: &[Tensor]| inputs[0].mul(&inputs[0])?.mul(&inputs[1])?.mul(&inputs[1]);
    let y = checkpoint(f, &[&x, &w]).unwrap();
    let one = [ones(&y)];
    let options = GradOptions { grad_outputs: &one, retain_graph: Some(true), ..Default::default() };
    let of_w = grad_with(from_ref(&y), from_ref(&w), options).unwrap().remove(0).unwrap();
    assert_eq!(values(&of_w), [24.0]);
    backward(&y, false).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [36.0]);
}

#[test]
fn without_gradients_it_is_a_plain_call() {
    let (x, calls) = (leaf(&[2.0]), Counter::default());
    let counted = calls.clone();
    let f = move |x: &[Tensor]| {
        counted.step();
        fourth(x)
    };
    let y = no_grad(|| checkpoint(f, &[&x])).unwrap();
    assert!(!y.requires_grad());
    assert_eq!(calls.count(), 1);
}

#[test]
fn closures_may_hold_parameters() {
    let (x, w) = (Tensor::from_elements(&[2.0]).unwrap(), leaf(&[3.0]));
    let held = w.clone();
    let y = checkpoint(move |x: &[Tensor]| x[0].mul(&held)?.mul(&held), &[&x]).unwrap();
    backward(&y, false).unwrap();
    assert_eq!(values(&w.grad().unwrap()), [12.0]);
}

#[test]
fn many_threads_run_one_graph() {
    let x = leaf(&[2.0]);
    let y = checkpoint(fourth, &[&x]).unwrap();
    let one = [ones(&x)];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let options =
                        GradOptions { grad_outputs: &one, retain_graph: Some(true), ..Default::default() };
                    let first = grad_with(from_ref(&y), from_ref(&x), options).unwrap().remove(0).unwrap();
                    assert_eq!(values(&first), [32.0]);
                }
            });
        }
    });
}

/// Counts the runs of each kind.
struct Counting(Counter);

impl CheckpointContext for Counting {
    fn enter(&self, run: &mut dyn FnMut()) {
        self.0.step();
        run();
    }
}

#[test]
fn contexts_surround_both_runs() {
    let (first, later) = (Counter::default(), Counter::default());
    let (of_first, of_later) = (first.clone(), later.clone());
    let contexts: Contexts =
        Arc::new(move || (Arc::new(Counting(of_first.clone())), Arc::new(Counting(of_later.clone()))));
    let x = leaf(&[2.0]);
    let options = CheckpointOptions { contexts: Some(contexts), ..Default::default() };
    let y = checkpoint_with(fourth, &[&x], options).unwrap();
    assert_eq!((first.count(), later.count()), (1, 0));
    backward(&y, true).unwrap();
    backward(&y, false).unwrap();
    assert_eq!((first.count(), later.count()), (1, 2));
    assert_eq!(values(&x.grad().unwrap()), [64.0]);
}

#[test]
fn a_policy_says_which_operators_run_again() {
    let asked: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let log = Arc::clone(&asked);
    let contexts = selective(move |operator| {
        log.lock().unwrap().push(operator.name());
        match operator.name() {
            "aten::mul.Scalar" => CheckpointPolicy::Save,
            _ => CheckpointPolicy::Recompute,
        }
    })
    .unwrap();
    let x = leaf(&[2.0]);
    let f = |x: &[Tensor]| {
        let scaled = x[0].mul_scalar(3.0)?;
        let product = scaled.mul(&scaled)?;
        let scaled = product.mul_scalar(0.5)?;
        scaled.mul(&product)
    };
    let plain = f(from_ref(&x)).unwrap();
    backward(&plain, false).unwrap();
    let expected = values(&x.grad().unwrap());
    x.set_grad(None).unwrap();
    let options = CheckpointOptions { contexts: Some(contexts), ..Default::default() };
    let y = checkpoint_with(f, &[&x], options).unwrap();
    let forward = asked.lock().unwrap().len();
    assert_eq!(forward, 4);
    for keep in [true, false] {
        backward(&y, keep).unwrap();
        assert_eq!(values(&x.grad().unwrap()), expected);
        x.set_grad(None).unwrap();
    }
    // Outside nothing is asked.
    let before = asked.lock().unwrap().len();
    x.mul_scalar(2.0).unwrap();
    assert_eq!(asked.lock().unwrap().len(), before);
}

#[test]
fn dropout_is_the_same_in_both_runs_and_the_generator_goes_on() {
    let step = |checkpoints: bool| {
        Generator::default_cpu().manual_seed(11);
        let x = leaf(&[1.0; 32]);
        let f = |x: &[Tensor]| x[0].dropout(0.5, true)?.mul(&x[0])?.dropout(0.25, true);
        let y = if checkpoints { checkpoint(f, &[&x]) } else { f(from_ref(&x)) }.unwrap();
        backward(&y, false).unwrap();
        (values(&y), values(&x.grad().unwrap()), Generator::default_cpu().state())
    };
    if is_alone("dropout_is_the_same_in_both_runs_and_the_generator_goes_on") {
        assert_eq!(step(true), step(false));
    }
}

#[test]
fn an_operator_that_is_not_run_again_draws_all_the_same() {
    if !is_alone("an_operator_that_is_not_run_again_draws_all_the_same") {
        return;
    }
    let step = |checkpoints: bool| {
        Generator::default_cpu().manual_seed(11);
        let x = leaf(&[1.0; 32]);
        let f = |x: &[Tensor]| {
            let (y, _) = handles::NATIVE_DROPOUT.call(&x[0], 0.5, Some(true))?;
            dropped(&y.mul(&x[0])?)
        };
        let contexts = selective(|operator| match operator.name() {
            "aten::native_dropout" => CheckpointPolicy::Save,
            _ => CheckpointPolicy::Recompute,
        });
        let options = CheckpointOptions { contexts: Some(contexts.unwrap()), ..Default::default() };
        let y = if checkpoints { checkpoint_with(f, &[&x], options) } else { f(from_ref(&x)) }.unwrap();
        backward(&y, false).unwrap();
        (values(&y), values(&x.grad().unwrap()), Generator::default_cpu().state())
    };
    assert_eq!(step(true), step(false));
}

#[test]
fn results_that_were_kept_must_be_what_they_were() {
    let keeps_products = || {
        let contexts = selective(|operator| match operator.name() {
            "aten::mul.Tensor" | "aten::mul.Scalar" => CheckpointPolicy::Save,
            _ => CheckpointPolicy::Recompute,
        });
        CheckpointOptions { contexts: Some(contexts.unwrap()), ..Default::default() }
    };
    let x = leaf(&[2.0]);
    let changing = |x: &[Tensor]| {
        let y = x[0].mul(&x[0])?;
        y.add_(&y.detach()?)?;
        y.mul(&x[0])
    };
    let y = checkpoint_with(changing, &[&x], keeps_products()).unwrap();
    let error = backward(&y, false).unwrap_err().to_string();
    assert!(
        error.contains("Tensor cached during selective activation checkpoint has been mutated"),
        "{error}"
    );

    let calls = Counter::default();
    let growing = move |x: &[Tensor]| {
        let first = calls.step() == 0;
        let y = x[0].mul_scalar(2.0)?;
        let y = if first { y } else { y.mul_scalar(3.0)? };
        y.exp()
    };
    let y = checkpoint_with(growing, &[&x], keeps_products()).unwrap();
    let error = backward(&y, false).unwrap_err().to_string();
    assert!(
        error.contains("aten::mul.Scalar encountered during backward, but not found in storage"),
        "{error}"
    );
}

/// Gives each tensor back that it was given, and counts.
struct Passing(Counter);

impl SavedTensorHooks for Passing {
    fn pack(&self, tensor: &Tensor) -> Result<Box<dyn std::any::Any + Send + Sync>> {
        self.0.step();
        Ok(Box::new(tensor.clone()))
    }

    fn unpack(&self, packed: &(dyn std::any::Any + Send + Sync)) -> Result<Tensor> {
        Ok(packed.downcast_ref::<Tensor>().unwrap().clone())
    }
}

#[test]
fn hooks_around_a_checkpoint_see_its_inputs_alone() {
    let (x, packs) = (leaf(&[2.0]), Counter::default());
    let hooks = Arc::new(Passing(packs.clone()));
    let y = with_saved_tensor_hooks(hooks, || checkpoint(fourth, &[&x])).unwrap();
    assert_eq!(packs.count(), 1);
    backward(&y, false).unwrap();
    assert_eq!((packs.count(), values(&x.grad().unwrap())), (1, vec![32.0]));
}

/// The square, by a function that asks for what it saved twice.
struct Square;

impl Function for Square {
    fn forward(&mut self, ctx: &mut ForwardContext<'_>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let y = inputs[0].mul(inputs[0])?;
        ctx.save_for_backward([inputs[0], &y]);
        Ok(vec![y])
    }

    fn backward(&self, ctx: &BackwardContext<'_>, grads: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
        let (x, again) = (ctx.saved_tensor(0)?, ctx.saved_tensors()?);
        assert_eq!(values(&x.mul(&x)?), values(again[1].as_ref().unwrap()));
        Ok(vec![Some(grads.tensor(0)?.mul(&x)?.mul_scalar(2.0)?)])
    }
}

#[test]
fn functions_save_through_checkpoints() {
    let (x, ends) = (leaf(&[2.0]), Counter::default());
    let ended = ends.clone();
    let f = move |x: &[Tensor]| {
        let y = Square.apply_one(&[&x[0].mul_scalar(3.0)?])?;
        ended.step();
        Ok(y)
    };
    let y = checkpoint(f, &[&x]).unwrap();
    backward(&y, false).unwrap();
    assert_eq!((ends.count(), values(&x.grad().unwrap())), (1, vec![36.0]));
}

#[test]
fn derivatives_are_what_differences_say() {
    let x = leaf(&[0.5, -1.5, 2.0]);
    let f = |inputs: &[Tensor]| {
        let y =
            checkpoint(|x: &[Tensor]| checkpoint(fourth, &[&x[0].mul(&x[0])?])?.mul(&x[0]), &[&inputs[0]])?;
        Ok(vec![Square.apply_one(&[&y])?])
    };
    gradcheck(f, from_ref(&x), GradcheckOptions::default()).unwrap();
    gradgradcheck(f, from_ref(&x), GradcheckOptions::default()).unwrap();
}

#[test]
fn a_long_chain_of_checkpoints_is_run_and_dropped() {
    for runs in [true, false] {
        let x = leaf(&[1.0]);
        let mut y = x.mul_scalar(1.0).unwrap();
        for _ in 0..5_000 {
            y = checkpoint(|x: &[Tensor]| x[0].mul(&x[0]), &[&y]).unwrap();
        }
        if runs {
            let gradients = &[Some(Tensor::from_elements(&[0.0]).unwrap())];
            y.backward_with(BackwardOptions { gradients, ..Default::default() }).unwrap();
            assert_eq!(values(&x.grad().unwrap()), [0.0]);
        }
    }
}

/// The bytes of the host that are in use, and the most that were.
#[derive(Default)]
struct Meter {
    live: AtomicI64,
    peak: AtomicI64,
}

impl MemoryObserver for Meter {
    fn on_memory(&self, event: &MemoryEvent) {
        let live = self.live.fetch_add(event.bytes, Ordering::Relaxed) + event.bytes;
        self.peak.fetch_max(live, Ordering::Relaxed);
    }
}

/// The most memory that a chain of products takes, in tensors of its width, and what is left of it.
fn peak(segments: usize, run: fn(&Tensor) -> Result<Tensor>) -> (i64, i64) {
    const WIDTH: i64 = 1 << 14;
    let meter = Arc::new(Meter::default());
    let attached = reporting::attach(Arc::clone(&meter) as _);
    {
        let x = leaf(&vec![1.0; WIDTH as usize]);
        let mut y = x.mul_scalar(1.0).unwrap();
        for _ in 0..segments {
            y = run(&y).unwrap();
        }
        backward(&y, false).unwrap();
        assert_eq!(values(&x.grad().unwrap())[0], f64::from(16_u32.pow(segments as u32)));
    }
    drop(attached);
    let tensors = |bytes: &AtomicI64| bytes.load(Ordering::Relaxed) / (8 * WIDTH);
    (tensors(&meter.peak), tensors(&meter.live))
}

/// `x¹⁶` by four products.
fn sixteenth(x: &Tensor) -> Result<Tensor> {
    let mut y = x.clone();
    for _ in 0..4 {
        y = y.mul(&y)?;
    }
    Ok(y)
}

#[test]
fn a_chain_takes_the_memory_of_its_inputs_and_of_one_segment() {
    if !is_alone("a_chain_takes_the_memory_of_its_inputs_and_of_one_segment") {
        return;
    }
    let (plain, left_by_plain) = peak(6, sixteenth);
    let (checkpointed, left) = peak(6, |x| checkpoint(|x: &[Tensor]| sixteenth(&x[0]), &[x]));
    // Each product saves its factor; one segment runs again at a time.
    assert!(plain >= 24, "{plain}");
    assert!(checkpointed <= 6 + 4 + 4, "{checkpointed} of {plain}");
    assert_eq!((left_by_plain, left), (0, 0));
}
