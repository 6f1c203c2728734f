//! Calls that fail half-way, hooks that give what they may not, graphs that are run again.

use std::any::Any;
use std::sync::Arc;

use aten::{Error, Result, Tensor};
use c10_core::ScalarType;
use tensorplay_autograd::{SavedTensorHooks, TensorAutograd, with_saved_tensor_hooks};

use crate::{grad_of, leaf};

struct Refuses;

impl SavedTensorHooks for Refuses {
    fn pack(&self, _: &Tensor) -> Result<Box<dyn Any + Send + Sync>> {
        Err(Error::invalid_argument("no room"))
    }

    fn unpack(&self, _: &(dyn Any + Send + Sync)) -> Result<Tensor> {
        Err(Error::invalid_argument("nothing was packed"))
    }
}

#[test]
fn a_change_in_place_whose_result_could_not_be_saved_has_no_gradient() {
    let x = leaf(&[0.0, 1.0]);
    let a = x.mul_scalar(1.0).unwrap();
    let refused = with_saved_tensor_hooks(Arc::new(Refuses), || a.exp_().map(drop));
    assert!(refused.unwrap_err().to_string().contains("no room"));
    let error = a.sum().unwrap().backward().unwrap_err().to_string();
    assert!(error.contains("ExpBackward0") && error.contains("there is no gradient"), "{error}");
    assert!(x.grad().is_none());
}

#[test]
fn a_hook_does_not_make_a_gradient_of_nothing() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul_scalar(2.0).unwrap();
    let node = y.grad_fn().unwrap().unwrap();
    node.register_hook(|_, _| Ok(Some(vec![None])));
    node.register_hook(|_, _| Ok(Some(vec![Some(Tensor::ones(&[7], ScalarType::Float64)?)])));
    let error = y.sum().unwrap().backward().unwrap_err().to_string();
    assert!(error.contains("can't replace a None gradient"), "{error}");
}

#[test]
fn a_leaf_that_is_told_later_that_its_gradient_is_not_wanted_gets_none() {
    let x = leaf(&[1.0]);
    let y = x.mul(&x).unwrap();
    x.requires_grad_(false).unwrap();
    y.sum().unwrap().backward().unwrap();
    assert!(x.grad().is_none());
}

#[test]
fn what_saves_no_tensors_is_run_again() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.add(&x).unwrap().sum().unwrap();
    y.backward().unwrap();
    y.backward().unwrap();
    assert_eq!(grad_of(&x), [4.0, 4.0]);
    // What saves some is not, where they are needed.
    let y = x.mul(&x).unwrap().sum().unwrap();
    y.backward().unwrap();
    assert!(y.backward().unwrap_err().to_string().contains("a second time"));
}
