//! Hooks of several tensors together.

use std::slice::from_ref;
use std::sync::{Arc, Mutex};

use aten::{Result, Tensor};
use tensorplay_autograd::{
    BackwardOptions, GradOptions, TensorAutograd, grad_with, register_multi_grad_hook,
    register_multi_grad_hook_any,
};

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

fn backward(tensor: &Tensor) -> Result<()> {
    tensor.backward_with(BackwardOptions { retain_graph: Some(true), ..Default::default() })
}

fn number(tensor: &Tensor) -> f64 {
    tensor.to_vec::<f64>().unwrap()[0]
}

type Log = Arc<Mutex<Vec<Vec<Option<f64>>>>>;

fn noted(log: &Log) -> impl Fn(&[Option<Tensor>]) -> Result<()> + use<> {
    let log = Arc::clone(log);
    move |gradients| {
        let value = |gradient: &Option<Tensor>| gradient.as_ref().map(number);
        log.lock().unwrap().push(gradients.iter().map(value).collect());
        Ok(())
    }
}

#[test]
fn it_is_called_with_the_gradients_of_all_that_a_call_computes() {
    let (a, b, c) = (leaf(&[2.0]), leaf(&[3.0]), leaf(&[5.0]));
    let (product, sum) = (a.mul(&b).unwrap(), b.add(&c).unwrap());
    let log = Log::default();
    let handle = register_multi_grad_hook(&[&a, &c, &product, &b], noted(&log)).unwrap();
    backward(&product).unwrap();
    backward(&sum).unwrap();
    backward(&product.add(&sum).unwrap()).unwrap();
    let expected = [
        vec![Some(3.0), None, Some(1.0), Some(2.0)],
        vec![None, Some(1.0), None, Some(1.0)],
        vec![Some(3.0), Some(1.0), Some(1.0), Some(3.0)],
    ];
    assert_eq!(*log.lock().unwrap(), expected);
    handle.remove();
    backward(&sum).unwrap();
    assert_eq!(log.lock().unwrap().len(), 3);
}

#[test]
fn it_counts_what_grad_captures() {
    let (a, b) = (leaf(&[2.0]), leaf(&[3.0]));
    let y = a.mul(&b).unwrap();
    let log = Log::default();
    let _handle = register_multi_grad_hook(&[&a, &b], noted(&log)).unwrap();
    let options = GradOptions { retain_graph: Some(true), ..Default::default() };
    grad_with(from_ref(&y), from_ref(&b), options).unwrap();
    assert_eq!(*log.lock().unwrap(), [vec![None, Some(2.0)]]);
}

#[test]
fn it_is_called_before_anything_that_needs_less() {
    let (a, b) = (leaf(&[2.0]), leaf(&[3.0]));
    let order: Arc<Mutex<Vec<&str>>> = Arc::default();
    let note = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(what)
    };
    let (all, after, late) = (note("all"), note("accumulated"), note("end"));
    let middle = a.mul_scalar(2.0).unwrap();
    let y = middle.mul(&b).unwrap();
    let all_of = move |_: &[Option<Tensor>]| {
        all();
        Ok(())
    };
    register_multi_grad_hook(&[&y, &middle], all_of).unwrap();
    let after_of = move |_: &Tensor| {
        after();
        Ok(())
    };
    a.register_post_accumulate_grad_hook(after_of).unwrap();
    backward(&y).unwrap();
    late();
    assert_eq!(*order.lock().unwrap(), ["all", "accumulated", "end"]);
}

#[test]
fn of_any_the_first_counts() {
    let (a, b) = (leaf(&[2.0]), leaf(&[3.0]));
    let y = a.mul(&b).unwrap();
    let seen: Arc<Mutex<Vec<f64>>> = Arc::default();
    let log = Arc::clone(&seen);
    let hook = move |gradient: &Tensor| {
        log.lock().unwrap().push(number(gradient));
        Ok(())
    };
    let handle = register_multi_grad_hook_any(&[&a, &b, &y], hook).unwrap();
    backward(&y).unwrap();
    backward(&y).unwrap();
    assert_eq!(*seen.lock().unwrap(), [1.0, 1.0]);
    handle.remove();
    backward(&y).unwrap();
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[test]
fn a_call_that_fails_leaves_nothing_for_the_next() {
    let (a, b) = (leaf(&[2.0]), leaf(&[3.0]));
    let y = a.mul(&b).unwrap();
    let log = Log::default();
    register_multi_grad_hook(&[&a, &y, &b], noted(&log)).unwrap();
    let failing =
        y.grad_fn().unwrap().unwrap().register_prehook(|_| Err(aten::Error::invalid_argument("on purpose")));
    assert!(backward(&y).is_err());
    failing.remove();
    backward(&y).unwrap();
    assert_eq!(*log.lock().unwrap(), [vec![Some(3.0), Some(1.0), Some(2.0)]]);
}

#[test]
fn what_requires_no_gradient_has_no_hook() {
    let (a, plain) = (leaf(&[2.0]), Tensor::from_elements(&[1.0]).unwrap());
    let log = Log::default();
    let error = register_multi_grad_hook(&[&a, &plain], noted(&log)).unwrap_err().to_string();
    assert!(error.contains("cannot register a hook on a tensor that doesn't require gradient"), "{error}");
    backward(&a.mul_scalar(1.0).unwrap()).unwrap();
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn hooks_hold_no_tensor() {
    let (a, b) = (leaf(&[2.0]), leaf(&[3.0]));
    let y = a.mul(&b).unwrap();
    let weak = [a.downgrade(), b.downgrade(), y.downgrade()];
    register_multi_grad_hook(&[&a, &b, &y], |_| Ok(())).unwrap();
    backward(&y).unwrap();
    drop((a, b, y));
    assert!(weak.iter().all(aten::WeakTensor::expired));
}
