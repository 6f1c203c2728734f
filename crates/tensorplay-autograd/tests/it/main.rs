//! The crate at its edge.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]
#![allow(clippy::cloned_ref_to_slice_refs, reason = "lists of one tensor are written as those of two")]
#![allow(clippy::type_complexity, reason = "logs of hooks are lists of what they saw")]

mod live;
mod numeric;

mod basics;
mod broken;
mod order;
mod hooks;
mod given_away;
mod roots;
mod reentrant;
mod modes;
mod inference;
mod versions;
mod views_in_place;
mod leaves;
mod faults;
mod deep;
mod threads;
mod cases;
mod checkpoint;
mod custom_op;
mod formulas_images;
mod formulas_index;
mod formulas_losses;
mod formulas_pointwise;
mod formulas_products;
mod formulas_reduce;
mod formulas_views;
mod function;
mod gradcheck;
mod leaf_operators;
mod multi_grad;

use aten::{Dims, Tensor};

/// A leaf of one dimension.
fn leaf(values: &[f64]) -> Tensor {
    use tensorplay_autograd::TensorAutograd;
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

/// The elements.
fn values(of: &Tensor) -> Vec<f64> {
    of.to_vec().unwrap()
}

/// The gradient's elements.
fn grad_of(of: &Tensor) -> Vec<f64> {
    use tensorplay_autograd::TensorAutograd;
    values(&of.grad().expect("a gradient"))
}

fn ones(like: &Tensor) -> Tensor {
    let sizes: Dims = like.sizes();
    Tensor::ones(&sizes, like.dtype()).unwrap()
}

/// Runs backward with ones.
fn run(of: &Tensor) -> aten::Result<()> {
    run_and(of, false)
}

/// Runs backward with ones, and keeps the graph.
fn run_kept(of: &Tensor) -> aten::Result<()> {
    run_and(of, true)
}

fn run_and(of: &Tensor, keep: bool) -> aten::Result<()> {
    use tensorplay_autograd::{BackwardOptions, TensorAutograd};
    let gradients = [Some(ones(of))];
    of.backward_with(BackwardOptions {
        gradients: &gradients,
        retain_graph: Some(keep),
        ..BackwardOptions::default()
    })
}
