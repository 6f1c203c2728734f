//! Gradients that nobody else has may be changed in their place: whoever has one sees that of its moment.

use std::sync::{Arc, Mutex};

use aten::{Result, Tensor};
use tensorplay_autograd::{BackwardOptions, GradOptions, TensorAutograd, backward_with, grad, grad_with};

use crate::live::none_left;
use crate::{grad_of, leaf, run, run_kept, values};

/// Operators whose nodes give their gradient away.
fn chain(x: &Tensor) -> Result<Tensor> {
    x.mul_scalar(0.3)?
        .neg()?
        .div_scalar(0.7)?
        .add_scalar(2)?
        .sub_scalar(1.5)?
        .rsub_scalar(4.0)?
        .mul_scalar(-1.1)
}

#[test]
fn the_caller_s_gradient_stays_as_it_is() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let given = Tensor::from_elements(&[1.0, 10.0]).unwrap().add_scalar(0).unwrap();
        let y = x.mul_scalar(3.0).unwrap().mul_scalar(5.0).unwrap();
        let options = BackwardOptions { gradients: &[Some(given.clone())], ..Default::default() };
        backward_with(&[y], options).unwrap();
        assert_eq!((values(&given), grad_of(&x)), (vec![1.0, 10.0], vec![15.0, 150.0]));
    });
}

#[test]
fn whoever_holds_a_gradient_keeps_its_elements() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let y = x.mul_scalar(3.0).unwrap();
        let z = y.mul_scalar(5.0).unwrap();
        let strong = Arc::new(Mutex::new(None));
        let weak = Arc::new(Mutex::new(None));
        let (kept, seen) = (Arc::clone(&strong), Arc::clone(&weak));
        y.retain_grad().unwrap();
        y.register_hook(move |gradient| {
            *kept.lock().unwrap() = Some(gradient.clone());
            Ok(None)
        })
        .unwrap();
        z.register_hook(move |gradient| {
            *seen.lock().unwrap() = Some(gradient.downgrade());
            Ok(None)
        })
        .unwrap();
        run(&z.mul_scalar(2.0).unwrap()).unwrap();
        assert_eq!(values(strong.lock().unwrap().as_ref().unwrap()), [10.0, 10.0]);
        assert_eq!((grad_of(&y), grad_of(&x)), (vec![10.0, 10.0], vec![30.0, 30.0]));
        // What it was is gone: its memory was not made another gradient.
        assert!(weak.lock().unwrap().as_ref().unwrap().upgrade().is_none());
        strong.lock().unwrap().take();
    });
}

#[test]
fn results_in_the_middle_of_a_chain_are_what_they_were_there() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let y = x.mul_scalar(3.0).unwrap();
        let z = y.mul_scalar(5.0).unwrap();
        let options = GradOptions { grad_outputs: &[Some(crate::ones(&z))], ..Default::default() };
        let given = grad_with(&[z], &[y, x], options).unwrap();
        let given: Vec<_> = given.iter().flatten().map(values).collect();
        assert_eq!(given, [[5.0, 5.0], [15.0, 15.0]]);
    });
}

#[test]
fn one_gradient_for_two_nodes_is_that_of_both() {
    none_left(|| {
        let (x, y) = (leaf(&[1.0]), leaf(&[2.0]));
        // An addition hands one gradient to both.
        let sum = (x.mul_scalar(3.0).unwrap() + y.mul_scalar(5.0).unwrap()).unwrap();
        run_kept(&sum).unwrap();
        run(&sum).unwrap();
        assert_eq!((grad_of(&x), grad_of(&y)), (vec![6.0], vec![10.0]));
        // Branches that meet again.
        let middle = x.mul_scalar(2.0).unwrap();
        let sum = (middle.mul_scalar(3.0).unwrap() - middle.neg().unwrap()).unwrap();
        x.set_grad(None).unwrap();
        run(&sum).unwrap();
        assert_eq!(grad_of(&x), [8.0]);
    });
}

#[test]
fn a_chain_gives_the_same_bits_whether_its_gradients_are_held_or_not() {
    none_left(|| {
        let x = leaf(&[0.1, -7.0, 1e300]);
        let held = Arc::new(Mutex::new(Vec::new()));
        run(&chain(&x).unwrap()).unwrap();
        let free = grad_of(&x);
        x.set_grad(None).unwrap();
        let mut y = x.clone();
        let steps: [fn(&Tensor) -> Result<Tensor>; 7] = [
            |y| y.mul_scalar(0.3),
            Tensor::neg,
            |y| y.div_scalar(0.7),
            |y| y.add_scalar(2),
            |y| y.sub_scalar(1.5),
            |y| y.rsub_scalar(4.0),
            |y| y.mul_scalar(-1.1),
        ];
        for step in steps {
            y = step(&y).unwrap();
            let held = Arc::clone(&held);
            y.register_hook(move |gradient| {
                held.lock().unwrap().push(gradient.clone());
                Ok(None)
            })
            .unwrap();
        }
        run(&y).unwrap();
        assert_eq!(grad_of(&x), free);
        let first: Vec<_> = held.lock().unwrap().drain(..).map(|gradient| values(&gradient)[0]).collect();
        let expected = [1.0, -1.1, 1.1, 1.1, 1.1, 1.1 / 0.7, -(1.1 / 0.7)];
        assert_eq!(first, expected);
    });
}

#[test]
fn gradients_of_gradients_go_through_them() {
    none_left(|| {
        let x = leaf(&[3.0]);
        let y = chain(&(&x * &x).unwrap()).unwrap();
        let options = GradOptions { create_graph: true, ..Default::default() };
        let first = grad_with(&[y], &[x.clone()], options).unwrap().remove(0).unwrap();
        let before = values(&first);
        let second = grad(&[first.clone()], &[x]).unwrap();
        assert_eq!(values(&first), before);
        assert!((values(&second[0])[0] * 3.0 - before[0]).abs() < 1e-12);
    });
}
