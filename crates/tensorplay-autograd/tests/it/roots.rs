//! What backward and grad are given.

use aten::{ErrorKind, Tensor, TensorOptions};
use c10_core::{Device, ScalarType};
use tensorplay_autograd::{
    BackwardOptions, GradOptions, TensorAutograd, backward, backward_with, grad, grad_with,
};

use crate::live::none_left;
use crate::{grad_of, leaf, ones, run, run_kept, values};

#[test]
fn roots_need_a_history_and_a_gradient_that_fits() {
    none_left(|| {
        let plain = Tensor::from_elements(&[1.0]).unwrap();
        let error = plain.backward().unwrap_err();
        assert!(error.to_string().contains("element 0 of tensors does not require grad"), "{error}");
        let x = leaf(&[1.0, 2.0, 3.0]);
        let y = x.mul_scalar(1.0).unwrap();
        let error = y.backward().unwrap_err();
        assert!(error.to_string().contains("only for scalar outputs"), "{error}");
        let with = |gradient: Tensor| {
            let gradients = [Some(gradient)];
            y.backward_with(BackwardOptions { gradients: &gradients, ..BackwardOptions::default() })
        };
        assert_eq!(with(Tensor::from_elements(&[1.0, 1.0]).unwrap()).unwrap_err().kind(), ErrorKind::Shape);
        let complex = Tensor::ones(&[3], ScalarType::Complex128).unwrap();
        assert_eq!(with(complex).unwrap_err().kind(), ErrorKind::Dtype);
        let elsewhere = Tensor::ones(&[3], (ScalarType::Float64, Device::META)).unwrap();
        assert_eq!(with(elsewhere).unwrap_err().kind(), ErrorKind::Device);
        assert!(backward_with(&[y.clone()], BackwardOptions { gradients: &[None, None], ..Default::default() }).is_err());
        assert!(x.grad().is_none());
        // What was refused used nothing up; an integer gradient is cast.
        with(Tensor::ones(&[3], ScalarType::Int64).unwrap()).unwrap();
        assert_eq!(grad_of(&x), [1.0; 3]);
        assert_eq!(x.grad().unwrap().dtype(), ScalarType::Float64);
    });
}

#[test]
fn a_complex_root_needs_its_gradient() {
    none_left(|| {
        let x = Tensor::ones(&[1], ScalarType::Complex64).unwrap().requires_grad_(true).unwrap();
        let error = x.mul_scalar(1.0).unwrap().backward().unwrap_err();
        assert!(error.to_string().contains("only for real scalar outputs"), "{error}");
    });
}

#[test]
fn several_roots_add_up_also_when_one_is_below_another() {
    none_left(|| {
        let x = leaf(&[3.0]);
        let y = x.mul_scalar(2.0).unwrap();
        let z = y.mul_scalar(5.0).unwrap();
        backward(&[z.clone(), y.clone(), z.mul_scalar(1.0).unwrap(), x.clone()]).unwrap();
        assert_eq!(grad_of(&x), [23.0]);
        let (w, v) = (leaf(&[3.0]), leaf(&[4.0]));
        let product = w.mul(&v).unwrap();
        let twice = grad(&[product.clone(), product], &[w, v]).unwrap();
        assert_eq!((values(&twice[0]), values(&twice[1])), (vec![8.0], vec![6.0]));
    });
}

#[test]
fn a_leaf_is_its_own_root() {
    none_left(|| {
        let x = leaf(&[3.0]);
        x.backward().unwrap();
        x.backward().unwrap();
        assert_eq!(grad_of(&x), [2.0]);
        assert_eq!(values(&grad(&[x.clone()], &[x.clone()]).unwrap()[0]), [1.0]);
    });
}

#[test]
fn inputs_that_are_not_used_are_refused_or_none_or_zeros() {
    none_left(|| {
        let (x, unused) = (leaf(&[1.0]), leaf(&[1.0, 2.0]));
        let y = || x.mul_scalar(2.0).unwrap();
        let error = grad(&[y()], &[x.clone(), unused.clone()]).unwrap_err();
        assert!(error.to_string().contains("at index 1 appears to not have been used"), "{error}");
        let with = |options| grad_with(&[y()], &[x.clone(), unused.clone()], options).unwrap();
        let given = with(GradOptions { allow_unused: true, ..GradOptions::default() });
        assert!(given[0].is_some() && given[1].is_none());
        let given = with(GradOptions { materialize_grads: true, ..GradOptions::default() });
        assert_eq!(values(given[1].as_ref().unwrap()), [0.0, 0.0]);
        assert!(!given[1].as_ref().unwrap().requires_grad());
        assert!(grad(&[y()], &[]).is_err());
        let plain = Tensor::from_elements(&[1.0]).unwrap();
        let error = grad(&[y()], &[plain]).unwrap_err();
        assert!(error.to_string().contains("does not require grad"), "{error}");
        assert!(x.grad().is_none() && unused.grad().is_none());
    });
}

#[test]
fn backward_accumulates_into_its_inputs_alone() {
    none_left(|| {
        let (x, w) = (leaf(&[2.0]), leaf(&[3.0]));
        let y = x.mul(&w).unwrap();
        let z = y.mul_scalar(10.0).unwrap();
        let into = |inputs: &[Tensor]| {
            let options = BackwardOptions {
                inputs: Some(inputs),
                retain_graph: Some(true),
                ..BackwardOptions::default()
            };
            backward_with(&[z.clone()], options)
        };
        into(&[y.clone(), x.clone()]).unwrap();
        assert_eq!((grad_of(&y), grad_of(&x)), (vec![10.0], vec![30.0]));
        assert!(w.grad().is_none());
        assert!(y.retains_grad());
        let error = into(&[]).unwrap_err();
        assert!(error.to_string().contains("cannot be empty"), "{error}");
        assert!(into(&[Tensor::from_elements(&[1.0]).unwrap()]).is_err());
    });
}

#[test]
fn a_graph_runs_once_unless_it_is_kept() {
    none_left(|| {
        let x = leaf(&[2.0]);
        let y = x.mul(&x).unwrap();
        run_kept(&y).unwrap();
        run(&y).unwrap();
        assert_eq!(grad_of(&x), [8.0]);
        let error = run(&y).unwrap_err();
        assert!(error.to_string().contains("Specify retain_graph=True"), "{error}");
        assert_eq!(grad_of(&x), [8.0]);
    });
}

#[test]
fn with_create_graph_gradients_have_gradients() {
    none_left(|| {
        let x = leaf(&[3.0]);
        let cube = x.mul(&x).unwrap().mul(&x).unwrap();
        let create = GradOptions { create_graph: true, ..GradOptions::default() };
        let first = grad_with(&[cube], &[x.clone()], create).unwrap().remove(0).unwrap();
        let second = grad_with(&[first.clone()], &[x.clone()], create).unwrap().remove(0).unwrap();
        let third = grad(&[second.clone()], &[x.clone()]).unwrap().remove(0);
        assert_eq!([&first, &second, &third].map(|of| values(of)[0]), [27.0, 18.0, 6.0]);
        assert!(!third.requires_grad());
        drop((first, second, third));
        // With the graph kept by the gradient, leaf and gradient hold each other until it is taken away.
        let square = x.mul(&x).unwrap();
        backward_with(&[square], BackwardOptions { create_graph: true, ..BackwardOptions::default() }).unwrap();
        assert!(x.grad().unwrap().requires_grad());
        x.set_grad(None).unwrap();
    });
}

#[test]
fn gradients_are_summed_to_the_sizes_and_cast_to_the_dtype_of_what_they_are_of() {
    none_left(|| {
        let row = leaf(&[1.0, 2.0, 3.0]);
        let column = Tensor::from_slice(&[1.0_f32, 10.0], &[2, 1]).unwrap().requires_grad_(true).unwrap();
        let product = row.mul(&column).unwrap();
        run(&product).unwrap();
        assert_eq!(grad_of(&row), [11.0; 3]);
        let gradient = column.grad().unwrap();
        assert_eq!((gradient.dtype(), &gradient.sizes()[..]), (ScalarType::Float32, &[2, 1][..]));
        assert_eq!(gradient.to_vec::<f32>().unwrap(), [6.0, 6.0]);
        let zeros = Tensor::zeros(&[0, 3], TensorOptions::default().dtype(ScalarType::Float64)).unwrap();
        let empty = row.mul(&zeros).unwrap();
        assert_eq!(values(&grad_with(&[empty.clone()], &[row.clone()], GradOptions {
            grad_outputs: &[Some(ones(&empty))],
            ..GradOptions::default()
        }).unwrap()[0].clone().unwrap()), [0.0; 3]);
    });
}
