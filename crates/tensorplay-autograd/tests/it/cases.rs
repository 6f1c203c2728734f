//! Small inputs that broke autograd elsewhere. Each says the row of `autograd-cases.md`.

use std::any::Any;
use std::sync::{Arc, Mutex};

use aten::{Result, Tensor};
use tensorplay_autograd::{
    BackwardOptions, SavedTensorHooks, TensorAutograd, backward_with, no_grad, with_saved_tensor_hooks,
};

use crate::live::{Tracked, none_left};
use crate::{grad_of, leaf, ones, run, run_kept, values};

/// Row 70.
#[test]
fn every_mutation_counts_as_one_whatever_its_own_gradient_is() {
    none_left(|| {
        let changes: [fn(&Tensor) -> Result<()>; 3] = [
            |y| y.fill_scalar_(1.0).map(drop),
            |y| no_grad(|| y.mul_scalar_(1.0)).map(drop),
            |y| no_grad(|| y.narrow(0, 0, 1)?.zero_().map(drop)),
        ];
        for change in changes {
            let y = leaf(&[1.0, 2.0]).mul_scalar(1.0).unwrap();
            let square = y.mul(&y).unwrap();
            change(&y).unwrap();
            assert!(run(&square).unwrap_err().to_string().contains("is at version 1; expected version 0"));
        }
    });
}

/// Row 71.
#[test]
fn a_view_that_is_saved_has_its_bases_counter() {
    none_left(|| {
        let w = leaf(&[2.0, 3.0]);
        let x = Tensor::from_elements(&[1.0, 2.0, 3.0]).unwrap();
        let y = x.narrow(0, 0, 2).unwrap().mul(&w).unwrap();
        x.add_(&ones(&x)).unwrap();
        assert!(run(&y).unwrap_err().to_string().contains("modified by an inplace operation"));
    });
}

/// Row 73.
#[test]
fn a_gradient_that_is_a_view_of_anothers_is_not_taken_over() {
    none_left(|| {
        let (p, q) = (leaf(&[1.0, 2.0]), leaf(&[3.0, 4.0]));
        // Both get the one gradient of the sum.
        run(&p.add(&q).unwrap()).unwrap();
        q.grad().unwrap().add_(&ones(&q)).unwrap();
        assert_eq!((grad_of(&p), grad_of(&q)), (vec![1.0; 2], vec![2.0; 2]));
        // A hook gives one a view of the other's.
        p.set_grad(None).unwrap();
        let shared = q.grad().unwrap();
        p.register_hook(move |_| shared.narrow(0, 0, 2).map(Some)).unwrap();
        run(&p.mul_scalar(1.0).unwrap()).unwrap();
        q.grad().unwrap().add_(&ones(&q)).unwrap();
        assert_eq!((grad_of(&p), grad_of(&q)), (vec![2.0; 2], vec![3.0; 2]));
    });
}

/// Row 74.
#[test]
fn a_result_that_is_an_input_of_backward_gets_its_gradient_also_after_a_change_in_place() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let y = x.mul_scalar(1.0).unwrap();
        for round in 0..2 {
            let root = y.mul_scalar(3.0).unwrap();
            let (gradients, inputs) = ([Some(ones(&root))], [y.clone()]);
            backward_with(&[root], BackwardOptions {
                gradients: &gradients,
                inputs: Some(&inputs),
                ..BackwardOptions::default()
            })
            .unwrap();
            assert_eq!(grad_of(&y), [3.0, 3.0], "round {round}");
            y.set_grad(None).unwrap();
            y.add_(&ones(&y)).unwrap();
        }
        assert!(x.grad().is_none());
    });
}

/// Hooks that keep all that they are given.
#[derive(Default)]
struct KeepsAll(Mutex<Vec<Tensor>>);

impl SavedTensorHooks for KeepsAll {
    fn pack(&self, tensor: &Tensor) -> Result<Box<dyn Any + Send + Sync>> {
        self.0.lock().unwrap().push(tensor.clone());
        Ok(Box::new(tensor.clone()))
    }

    fn unpack(&self, packed: &(dyn Any + Send + Sync)) -> Result<Tensor> {
        Ok(packed.downcast_ref::<Tensor>().unwrap().clone())
    }
}

/// Row 88.
#[test]
fn hooks_that_keep_what_they_are_given_make_no_cycle() {
    none_left(|| {
        let hooks = Arc::new(KeepsAll::default());
        let x = leaf(&[1.0, 2.0]);
        let y = with_saved_tensor_hooks(hooks.clone(), || {
            let y = x.mul(&x).unwrap();
            y.mul(&y).unwrap()
        });
        assert!(hooks.0.lock().unwrap().iter().all(|kept| !kept.requires_grad()));
        let kept: Arc<Mutex<Vec<Tensor>>> = Arc::default();
        let own = Arc::clone(&kept);
        y.register_hook(move |gradient| {
            own.lock().unwrap().push(gradient.clone());
            Ok(None)
        })
        .unwrap();
        run_kept(&y).unwrap();
        assert_eq!(grad_of(&x), [4.0, 32.0]);
        // Graph, hooks and what these keep all end here, without another backward call.
    });
}

/// Row 91.
#[test]
fn graphs_that_nobody_runs_are_freed() {
    none_left(|| {
        let x = leaf(&[1.0; 16]);
        let before = Tracked::here().count();
        let nodes = Arc::new(());
        for _ in 0..5000 {
            let y = x.mul(&x).unwrap();
            let held = Arc::clone(&nodes);
            y.grad_fn().unwrap().unwrap().register_prehook(move |_| {
                let _kept = &held;
                Ok(None)
            });
            drop(y.mul(&x).unwrap());
        }
        assert_eq!((Tracked::here().count(), Arc::strong_count(&nodes)), (before, 1));
    });
}

/// Row 97.
#[test]
fn two_passes_over_one_graph_give_the_same() {
    none_left(|| {
        let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], &[2, 2]).unwrap().t().unwrap();
        let x = x.requires_grad_(true).unwrap();
        let y = x.mul(&x).unwrap().mul(&x).unwrap();
        let mut passes = Vec::new();
        for _ in 0..2 {
            x.set_grad(None).unwrap();
            run_kept(&y).unwrap();
            passes.push(values(&x.grad().unwrap().contiguous().unwrap()));
        }
        assert_eq!(passes, [[3.0, 27.0, 12.0, 48.0], [3.0, 27.0, 12.0, 48.0]]);
    });
}
