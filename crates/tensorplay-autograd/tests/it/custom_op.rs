//! Derivatives of operators from outside.

use std::slice::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aten::dispatch::{CustomOp, Dispatcher, Value};
use aten::{ErrorKind, Result, Tensor, WeakTensor};
use c10_core::DeviceType;
use tensorplay_autograd::checkpoint::{CheckpointOptions, CheckpointPolicy, checkpoint_with, selective};
use tensorplay_autograd::{
    BackwardOptions, CustomOpAutograd, GradOptions, TensorAutograd, grad_with, no_grad,
};

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_vec::<f64>().unwrap()
}

fn backward(tensor: &Tensor) -> Result<()> {
    let gradients =
        &[Some(Tensor::from_slice(&vec![1.0; tensor.numel() as usize], &tensor.sizes()).unwrap())];
    tensor.backward_with(BackwardOptions { gradients, ..Default::default() })
}

fn tensor(value: &Value) -> &Tensor {
    match value {
        Value::Tensor(tensor) => tensor,
        other => panic!("a tensor, not {other:?}"),
    }
}

/// `by · x²`, whose kernel counts its calls.
fn scaled_square(name: &str, calls: &Arc<AtomicUsize>) -> CustomOp<'static> {
    let calls = Arc::clone(calls);
    let kernel = move |x: &Tensor, by: f64| -> Result<Tensor> {
        calls.fetch_add(1, Ordering::Relaxed);
        let squares: Vec<f64> = x.to_vec::<f64>()?.iter().map(|x| by * x * x).collect();
        Tensor::from_slice(&squares, &x.sizes())
    };
    let schema = format!("autograd_tests::{name}(Tensor x, float by) -> Tensor");
    let mut operator =
        CustomOp::builder(&schema).kernel(DeviceType::Cpu, kernel).register(Dispatcher::global()).unwrap();
    operator
        .register_autograd(
            |ctx, arguments, _| {
                assert!(ctx.needs_input_grad(0) && !ctx.needs_input_grad(1));
                ctx.save_for_backward([tensor(&arguments[0])]);
                match &arguments[1] {
                    Value::Scalar(by) => Ok(by.to::<f64>()?),
                    _ => Err(aten::Error::invalid_argument("a number")),
                }
            },
            |ctx, by: &f64, grads| {
                assert!(ctx.needs_input_grad(0) && !ctx.needs_input_grad(1));
                Ok(vec![Some(grads.tensor(0)?.mul(&ctx.saved_tensor(0)?)?.mul_scalar(2.0 * by)?), None])
            },
        )
        .unwrap();
    operator
}

#[test]
fn it_is_differentiated_twice_and_not_under_no_grad() {
    let operator = scaled_square("square", &Arc::default());
    let call = |x: &Tensor| tensor(&operator.call(vec![x.clone().into(), 3.0.into()]).unwrap()[0]).clone();
    let x = leaf(&[1.0, 2.0]);
    let y = call(&x);
    assert_eq!(values(&y), [3.0, 12.0]);
    let name = y.grad_fn().unwrap().unwrap().name().to_owned();
    assert_eq!(name, "GeneratedBackwardFor_autograd_tests_square_defaultBackward");
    let one = [Some(Tensor::from_elements(&[1.0, 1.0]).unwrap())];
    let options = GradOptions { create_graph: true, grad_outputs: &one, ..Default::default() };
    let first = grad_with(&[y], from_ref(&x), options).unwrap().remove(0).unwrap();
    assert_eq!(values(&first), [6.0, 12.0]);
    let options = GradOptions { grad_outputs: &one, ..Default::default() };
    let second = grad_with(&[first], from_ref(&x), options).unwrap().remove(0).unwrap();
    assert_eq!(values(&second), [6.0, 6.0]);
    assert!(!no_grad(|| call(&x)).requires_grad());
}

#[test]
fn lists_and_absent_arguments_have_their_places() {
    let schema = "autograd_tests::weighted(Tensor[] parts, Tensor? bias, int times) -> (Tensor, Tensor[])";
    let kernel = |parts: &[Tensor], bias: Option<&Tensor>, times: i64| -> Result<(Tensor, Vec<Tensor>)> {
        let mut sum = bias.map_or_else(|| Ok(vec![0.0]), |bias| bias.to_vec::<f64>())?;
        for part in parts {
            sum[0] += times as f64 * part.to_vec::<f64>()?[0];
        }
        let copies =
            parts.iter().map(|part| Tensor::from_elements(&part.to_vec::<f64>()?)).collect::<Result<_>>()?;
        Ok((Tensor::from_elements(&sum)?, copies))
    };
    let mut operator =
        CustomOp::builder(schema).kernel(DeviceType::Cpu, kernel).register(Dispatcher::global()).unwrap();
    operator
        .register_autograd(
            |ctx, arguments, results| {
                assert_eq!((arguments.len(), results.len()), (3, 2));
                ctx.set_materialize_grads(false);
                let Value::List(parts) = &arguments[0] else { panic!("a list") };
                Ok(parts.len())
            },
            |ctx, parts: &usize, grads| {
                assert_eq!(grads.len(), 1 + parts);
                let mut given = Vec::new();
                for at in 0..*parts {
                    assert_eq!(ctx.needs_input_grad(at), at != 1);
                    given.push(match grads.optional(0) {
                        Some(of_sum) => Some(of_sum.mul_scalar(2.0)?),
                        None => grads.optional(1 + at).cloned(),
                    });
                }
                given.push(grads.optional(0).cloned());
                given.push(None);
                Ok(given)
            },
        )
        .unwrap();
    for with_bias in [false, true] {
        let (a, b, c) = (leaf(&[1.0]), Tensor::from_elements(&[10.0]).unwrap(), leaf(&[100.0]));
        let bias = with_bias.then(|| leaf(&[0.5]));
        let parts = Value::from(vec![a.clone(), b.clone(), c.clone()]);
        let results = operator.call(vec![parts, bias.clone().into(), 2.into()]).unwrap();
        assert_eq!(values(tensor(&results[0])), [if with_bias { 222.5 } else { 222.0 }]);
        let Value::List(copies) = &results[1] else { panic!("a list") };
        assert_eq!(tensor(&copies[2]).output_nr(), 3);
        backward(tensor(&copies[2])).unwrap();
        assert_eq!((a.grad().is_none(), values(&c.grad().unwrap())), (true, vec![1.0]));
        let results =
            operator.call(vec![Value::from(vec![a.clone(), b, c]), bias.clone().into(), 2.into()]).unwrap();
        backward(tensor(&results[0])).unwrap();
        assert_eq!(values(&a.grad().unwrap()), [2.0]);
        if let Some(bias) = bias {
            assert_eq!(values(&bias.grad().unwrap()), [1.0]);
        }
    }
}

#[test]
fn results_without_gradient_and_results_that_are_kept() {
    let schema = "autograd_tests::split_sign(Tensor x) -> (Tensor, Tensor, Tensor)";
    let kernel = |x: &Tensor| -> Result<(Tensor, Tensor, Tensor)> {
        let x = x.to_vec::<f64>()?;
        let sign: Vec<i64> = x.iter().map(|x| x.signum() as i64).collect();
        let (size, sign_of): (Vec<f64>, Vec<f64>) = x.iter().map(|x| (x.abs(), x.signum())).unzip();
        Ok((Tensor::from_elements(&size)?, Tensor::from_elements(&sign_of)?, Tensor::from_elements(&sign)?))
    };
    let mut operator =
        CustomOp::builder(schema).kernel(DeviceType::Cpu, kernel).register(Dispatcher::global()).unwrap();
    let seen: Arc<Mutex<Vec<WeakTensor>>> = Arc::default();
    let log = Arc::clone(&seen);
    operator
        .register_autograd(
            move |ctx, _, results| {
                ctx.mark_non_differentiable(tensor(&results[1]));
                ctx.save_for_backward([tensor(&results[1]), tensor(&results[0])]);
                log.lock().unwrap().push(tensor(&results[0]).downgrade());
                // Kept where a cycle could be.
                Ok(tensor(&results[0]).clone())
            },
            |ctx, size: &Tensor, grads| {
                assert!(!size.requires_grad());
                Ok(vec![Some(grads.tensor(0)?.mul(&ctx.saved_tensor(0)?)?)])
            },
        )
        .unwrap();
    let x = leaf(&[-2.0, 3.0]);
    let results = operator.call(vec![x.clone().into()]).unwrap();
    assert_eq!(
        results.iter().map(|value| tensor(value).requires_grad()).collect::<Vec<_>>(),
        [true, false, false]
    );
    backward(tensor(&results[0])).unwrap();
    assert_eq!(values(&x.grad().unwrap()), [-1.0, 1.0]);
    drop(results);
    assert!(seen.lock().unwrap().iter().all(WeakTensor::expired));
}

#[test]
fn what_has_no_formula_fails_by_its_name() {
    let operator = CustomOp::builder("autograd_tests::opaque(Tensor x) -> Tensor")
        .kernel(DeviceType::Cpu, |x: &Tensor| -> Result<Tensor> {
            Tensor::from_elements(&x.to_vec::<f64>()?)
        })
        .register(Dispatcher::global())
        .unwrap();
    let results = operator.call(vec![leaf(&[1.0]).into()]).unwrap();
    let error = backward(tensor(&results[0])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotImplemented);
    assert!(error.to_string().contains("autograd_tests::opaque"), "{error}");
}

#[test]
fn registrations_that_make_no_sense_are_refused() {
    let mut writing = CustomOp::builder("autograd_tests::clip_(Tensor(a!) x) -> ()")
        .kernel(DeviceType::Cpu, |_: &Tensor| -> Result<()> { Ok(()) })
        .register(Dispatcher::global())
        .unwrap();
    let error = writing.register_autograd(|_, _, _| Ok(()), |_, (), _| Ok(vec![None])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Registration);
    assert!(error.to_string().contains("non-functional operator"), "{error}");
    let mut twice = scaled_square("twice", &Arc::default());
    let error = twice.register_autograd(|_, _, _| Ok(()), |_, (), _| Ok(vec![None])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Registration);
}

#[test]
fn errors_come_through_and_gradients_are_counted() {
    let mut operator = CustomOp::builder("autograd_tests::faulty(Tensor x) -> Tensor")
        .kernel(DeviceType::Cpu, |x: &Tensor| -> Result<Tensor> {
            Tensor::from_elements(&x.to_vec::<f64>()?)
        })
        .register(Dispatcher::global())
        .unwrap();
    operator.register_autograd(|_, _, _| Ok(()), |_, (), _| Ok(vec![])).unwrap();
    let results = operator.call(vec![leaf(&[1.0]).into()]).unwrap();
    let error = backward(tensor(&results[0])).unwrap_err().to_string();
    assert!(error.contains("returned an incorrect number of gradients (expected 1, got 0)"), "{error}");
}

#[test]
fn a_checkpoint_that_keeps_its_result_does_not_call_it_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let operator = scaled_square("kept", &calls).keep();
    for (policy, expected) in [(CheckpointPolicy::Save, 1), (CheckpointPolicy::Recompute, 2)] {
        calls.store(0, Ordering::Relaxed);
        let contexts = selective(move |operator| match operator.name() {
            "autograd_tests::kept" => policy,
            _ => CheckpointPolicy::Recompute,
        })
        .unwrap();
        let x = leaf(&[3.0]);
        let f = move |x: &[Tensor]| {
            let y = tensor(&operator.call_with(vec![x[0].clone().into(), 1.0.into()], vec![])?[0]).clone();
            y.mul(&y)
        };
        let options = CheckpointOptions { contexts: Some(contexts), ..Default::default() };
        let y = checkpoint_with(f, &[&x], options).unwrap();
        backward(&y).unwrap();
        assert_eq!(values(&x.grad().unwrap()), [108.0]);
        assert_eq!(calls.load(Ordering::Relaxed), expected);
    }
}
