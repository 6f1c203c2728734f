//! An operator that fills what was saved of it before: see Note [Stopping early].
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use aten::dispatch::{DispatchKey, Dispatcher, Library, Op};
use aten::tensor::Access;
use aten::{Result, Tensor};
use c10_core::DeviceType;
use c10_core::storage::AccessOptions;

use super::checkpoint;
use crate::formula::{Backward, Formula, Keep, Of, Save, Target};
use crate::kernel::Functional;
use crate::{BackwardOptions, TensorAutograd};

static FILLING: Op<fn(&'static Tensor, &'static Tensor) -> Tensor> = Op::new("checkpoint_tests::filling", "");

static FORMULA: Formula = Formula {
    name: "FillingBackward0",
    targets: &[Target { argument: 0, is_list: false }],
    saves: &[Save { of: Of::Argument(1), keep: Keep::Tensor, users: 1 }],
    has_list: false,
    saves_tensors: true,
    saves_results: false,
    non_differentiable: 0,
    fills_arguments: true,
    backward: |c: &mut Backward<'_>| {
        let given = c.gradient(0)?.mul(&c.tensor(0)?)?;
        c.give(0, given);
        Ok(())
    },
};

/// Fills `noise` with sevens, which is no change that is counted, and multiplies by it.
fn fill(x: &Tensor, noise: &Tensor) -> Result<Tensor> {
    {
        let options = AccessOptions { bump_version: false, ..AccessOptions::default() };
        let mut set = Access::acquire_with(&[], &[noise], options)?;
        set.write_slice::<f64>(0)?.fill(7.0);
    }
    x.mul(noise)
}

#[test]
fn what_an_operator_fills_is_saved_as_filled() {
    crate::init().unwrap();
    let mut library = Library::define(Dispatcher::global(), "checkpoint_tests").unwrap();
    library.def("filling(Tensor x, Tensor(a!) noise) -> Tensor").unwrap();
    library.impl_for("filling", &[DispatchKey::of_device(DeviceType::Cpu)], fill).unwrap();
    let autograd = FILLING.around(Functional { formula: &FORMULA });
    library.impl_kernel("filling", &[DispatchKey::Autograd], autograd).unwrap();

    let run = |x: &[Tensor]| FILLING.call(&x[0], &Tensor::from_elements(&[0.0, 0.0])?);
    let gradient = |checkpoints: bool| {
        let x = Tensor::from_elements(&[1.0, 2.0]).unwrap().requires_grad_(true).unwrap();
        let y = if checkpoints { checkpoint(run, &[&x]) } else { run(std::slice::from_ref(&x)) }.unwrap();
        let gradients = &[Some(Tensor::from_elements(&[1.0, 1.0]).unwrap())];
        y.backward_with(BackwardOptions { gradients, ..Default::default() }).unwrap();
        x.grad().unwrap().to_vec::<f64>().unwrap()
    };
    assert_eq!(gradient(false), [7.0, 7.0]);
    assert_eq!(gradient(true), [7.0, 7.0]);
}
