//! Leaves: their flag, their gradient, how it is accumulated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aten::ops::handles;
use aten::{ErrorKind, Tensor, TensorOptions};
use c10_core::{Device, ScalarType};
use tensorplay_autograd::{BackwardOptions, TensorAutograd, backward_with, no_grad};

use crate::live::none_left;
use crate::numeric::numbers;
use crate::{grad_of, leaf, run, run_kept, values};

#[test]
fn the_flag_is_set_on_leaves_of_dtypes_that_have_gradients() {
    none_left(|| {
        let integers = Tensor::ones(&[2], ScalarType::Int64).unwrap();
        let error = integers.requires_grad_(true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Dtype);
        integers.requires_grad_(false).unwrap();
        let x = leaf(&[1.0]);
        let y = x.mul_scalar(2.0).unwrap();
        y.requires_grad_(true).unwrap();
        let error = y.requires_grad_(false).unwrap_err();
        assert!(error.to_string().contains("requires_grad flags of leaf variables"), "{error}");
        assert!(x.is_leaf() && !y.is_leaf() && integers.is_leaf());
        x.requires_grad_(false).unwrap();
        assert!(!x.mul_scalar(2.0).unwrap().requires_grad());
    });
}

#[test]
fn a_gradient_that_is_assigned_must_fit() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0, 3.0]);
        let kind = |gradient: Tensor| x.set_grad(Some(&gradient)).unwrap_err().kind();
        assert_eq!(kind(Tensor::ones(&[4], ScalarType::Float64).unwrap()), ErrorKind::Shape);
        assert_eq!(kind(Tensor::ones(&[3], ScalarType::Float32).unwrap()), ErrorKind::Dtype);
        assert_eq!(kind(Tensor::ones(&[3], (ScalarType::Float64, Device::META)).unwrap()), ErrorKind::Device);
        assert_eq!(x.set_grad(Some(&x)).unwrap_err().kind(), ErrorKind::InvalidArgument);
        let gradient = Tensor::from_elements(&[1.0, 1.0, 1.0]).unwrap();
        x.set_grad(Some(&gradient)).unwrap();
        run(&x.mul_scalar(2.0).unwrap()).unwrap();
        // The tensor that was assigned is the one that is added to.
        assert_eq!(values(&gradient), [3.0; 3]);
        x.set_grad(None).unwrap();
        assert!(x.grad().is_none());
    });
}

#[test]
fn gradients_are_taken_over_unless_others_have_the_memory_or_it_is_more() {
    none_left(|| {
        let seen = Arc::new(AtomicUsize::new(0));
        let place = |gradient: &Tensor| gradient.storage().data_ptr().addr();
        let watched = |of: &Tensor| {
            let seen = Arc::clone(&seen);
            let hook = move |gradient: &Tensor| {
                seen.store(place(gradient), Ordering::Relaxed);
                Ok(None)
            };
            of.register_hook(hook).unwrap();
        };
        let taken = |of: &Tensor| place(&of.grad().unwrap()) == seen.load(Ordering::Relaxed);
        // The gradient of a transpose is one, of a product that nobody has.
        let (x, w) = (numbers(&[2, 3], 1), numbers(&[4, 3], 2).requires_grad_(true).unwrap());
        watched(&w);
        run(&x.mm(&w.t().unwrap()).unwrap().sum().unwrap()).unwrap();
        assert!(taken(&w));
        // Parts of one gradient, the last of which has it alone in the end.
        let parts = [leaf(&[1.0, 2.0]), leaf(&[3.0])];
        parts.iter().for_each(&watched);
        run(&handles::CAT.call(&parts, 0).unwrap().mul(&numbers(&[3], 3)).unwrap().sum().unwrap()).unwrap();
        assert!(!parts.iter().any(taken));
    });
}

#[test]
fn gradients_accumulate_in_place_unless_the_pass_is_recorded() {
    none_left(|| {
        let x = leaf(&[3.0]);
        run(&x.mul(&x).unwrap()).unwrap();
        let first = x.grad().unwrap();
        run(&x.mul(&x).unwrap()).unwrap();
        assert!(x.grad().unwrap().is_same(&first));
        assert_eq!(values(&first), [12.0]);
        let create = BackwardOptions { create_graph: true, ..BackwardOptions::default() };
        backward_with(&[x.mul(&x).unwrap()], create).unwrap();
        assert!(!x.grad().unwrap().is_same(&first));
        assert_eq!((grad_of(&x), values(&first)), (vec![18.0], vec![12.0]));
        x.set_grad(None).unwrap();
    });
}

#[test]
fn a_first_gradient_is_taken_over_where_nobody_else_has_it() {
    none_left(|| {
        let x = leaf(&[3.0]);
        let y = x.mul_scalar(1.0).unwrap();
        let seen = Arc::new(std::sync::Mutex::new(None));
        let own = Arc::clone(&seen);
        x.register_hook(move |gradient| {
            *own.lock().unwrap() = Some(gradient.storage().downgrade());
            Ok(None)
        })
        .unwrap();
        run_kept(&y.mul_scalar(2.0).unwrap()).unwrap();
        let storage = seen.lock().unwrap().take().unwrap().upgrade().unwrap();
        assert!(x.grad().unwrap().storage().is_same(&storage));
        // A gradient that the caller holds is not.
        let given = Tensor::from_elements(&[5.0]).unwrap();
        x.set_grad(None).unwrap();
        let gradients = [Some(given.clone())];
        x.backward_with(BackwardOptions { gradients: &gradients, ..BackwardOptions::default() }).unwrap();
        assert!(!x.grad().unwrap().is_alias_of(&given));
        run(&x.mul_scalar(1.0).unwrap()).unwrap();
        assert_eq!((grad_of(&x), values(&given)), (vec![6.0], vec![5.0]));
    });
}

#[test]
fn gradients_have_the_strides_of_dense_leaves_and_else_are_contiguous() {
    none_left(|| {
        let options = TensorOptions::default().dtype(ScalarType::Float64);
        let strided = |sizes: &[i64], strides: &[i64]| {
            let memory = Tensor::ones(&[100], options).unwrap();
            let tensor = handles::AS_STRIDED.call(&memory, sizes, strides, None).unwrap();
            // A leaf that is no view.
            tensor.detach().unwrap().requires_grad_(true).unwrap()
        };
        for (sizes, strides, wanted) in [
            (&[2, 3][..], &[1, 2][..], &[1, 2][..]),
            (&[2, 3], &[3, 1], &[3, 1]),
            (&[2, 2], &[3, 1], &[2, 1]),
            (&[2, 4, 3], &[3, 0, 1], &[12, 3, 1]),
        ] {
            let x = strided(sizes, strides);
            run(&x.mul_scalar(2.0).unwrap()).unwrap();
            assert_eq!(&x.grad().unwrap().strides()[..], wanted, "{sizes:?} {strides:?}");
        }
    });
}

#[test]
fn leaves_are_changed_in_place_under_no_grad_alone() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let error = x.mul_scalar_(2.0).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("a leaf Variable that requires grad is being used in an in-place operation."),
            "{error}"
        );
        let error = x.narrow(0, 0, 1).unwrap().mul_scalar_(2.0).unwrap_err();
        assert!(error.to_string().contains("a view of a leaf Variable that requires grad"), "{error}");
        assert_eq!((values(&x), x.version()), (vec![1.0, 2.0], 0));
        no_grad(|| x.mul_scalar_(2.0)).unwrap();
        assert_eq!((values(&x), x.version()), (vec![2.0, 4.0], 1));
        assert!(x.is_leaf() && x.requires_grad());
    });
}

#[test]
fn detach_in_place_makes_a_leaf_of_a_result() {
    none_left(|| {
        let x = leaf(&[3.0]);
        let y = x.mul_scalar(2.0).unwrap();
        let saved = y.mul(&y).unwrap();
        y.detach_().unwrap();
        assert!(y.is_leaf() && !y.requires_grad() && y.grad_fn().unwrap().is_none());
        assert_eq!(y.version(), 0);
        let error = run(&saved).unwrap_err();
        assert!(error.to_string().contains("has been detached in-place, i.e. with .detach_()"), "{error}");
        let error = x.narrow(0, 0, 1).unwrap().detach_().unwrap_err();
        assert!(error.to_string().contains("Can't detach views in-place"), "{error}");
        run(&x.mul_scalar(2.0).unwrap()).unwrap();
        x.detach_().unwrap();
        assert!(!x.requires_grad());
        assert_eq!(grad_of(&x), [2.0]);
        let plain = Tensor::from_elements(&[1.0, 2.0]).unwrap();
        plain.detach_().unwrap();
        assert!(plain.narrow(0, 0, 1).unwrap().detach_().is_err());
    });
}

#[test]
fn out_arguments_are_refused_where_a_gradient_is_wanted() {
    none_left(|| {
        let (x, plain) = (leaf(&[1.0]), Tensor::from_elements(&[2.0]).unwrap());
        for (operand, out) in [(&x, &plain), (&plain, &x)] {
            let error = handles::MUL_OUT.call(operand, operand, out).unwrap_err();
            assert!(error.to_string().contains("don't support automatic differentiation"), "{error}");
        }
        no_grad(|| handles::MUL_OUT.call(&plain, &plain, &x)).unwrap();
        assert_eq!(values(&x), [4.0]);
    });
}
