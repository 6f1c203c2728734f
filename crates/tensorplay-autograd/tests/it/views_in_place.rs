//! In-place operations on views and their bases.

use aten::Tensor;
use tensorplay_autograd::{TensorAutograd, no_grad};

use crate::live::none_left;
use crate::{grad_of, leaf, ones, run, values};

fn name(of: &Tensor) -> String {
    of.grad_fn().unwrap().expect("a node").name().to_owned()
}

#[test]
fn a_change_of_a_view_is_one_of_its_base() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0, 3.0]);
        let base = x.mul_scalar(1.0).unwrap();
        let (view, other) = (base.narrow(0, 0, 2).unwrap(), base.narrow(0, 1, 2).unwrap());
        view.mul_scalar_(10.0).unwrap();
        assert_eq!(
            [name(&base), name(&view), name(&other)],
            ["CopySlices", "AsStridedBackward0", "AsStridedBackward0"]
        );
        assert_eq!((base.version(), view.version()), (1, 1));
        assert_eq!(values(&other), [20.0, 3.0]);
        run(&other.mul(&other).unwrap()).unwrap();
        assert_eq!(grad_of(&x), [0.0, 400.0, 6.0]);
    });
}

#[test]
fn a_change_of_a_base_changes_the_nodes_of_its_views() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0, 3.0]);
        let base = x.mul_scalar(1.0).unwrap();
        let view = base.narrow(0, 1, 2).unwrap();
        let before = name(&view);
        base.mul_scalar_(2.0).unwrap();
        assert_eq!((before.as_str(), name(&view).as_str()), ("SliceBackward0", "AsStridedBackward0"));
        run(&view).unwrap();
        assert_eq!(grad_of(&x), [0.0, 2.0, 2.0]);
    });
}

#[test]
fn a_change_of_a_view_of_a_view_reaches_the_base() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0, 3.0, 4.0]);
        let base = x.mul_scalar(1.0).unwrap();
        let inner = base.narrow(0, 1, 3).unwrap().narrow(0, 1, 1).unwrap();
        assert!(inner.view_base().unwrap().is_same(&base));
        inner.mul_scalar_(7.0).unwrap();
        run(&base).unwrap();
        assert_eq!(grad_of(&x), [1.0, 1.0, 7.0, 1.0]);
    });
}

#[test]
fn a_base_and_its_views_come_to_require_a_gradient() {
    none_left(|| {
        let x = leaf(&[5.0, 6.0]);
        let base = Tensor::from_elements(&[1.0, 2.0, 3.0]).unwrap();
        let (view, other) = (base.narrow(0, 0, 2).unwrap(), base.narrow(0, 1, 2).unwrap());
        view.mul_(&x).unwrap();
        assert!(base.requires_grad() && view.requires_grad() && other.requires_grad());
        run(&other).unwrap();
        assert_eq!(grad_of(&x), [0.0, 2.0]);
    });
}

#[test]
fn both_operands_of_a_change_get_their_gradients() {
    none_left(|| {
        let (x, w) = (leaf(&[1.0, 2.0, 3.0]), leaf(&[10.0, 20.0]));
        let base = x.mul_scalar(1.0).unwrap();
        base.narrow(0, 1, 2).unwrap().mul_(&w).unwrap();
        run(&base.mul(&ones(&base)).unwrap()).unwrap();
        assert_eq!((grad_of(&x), grad_of(&w)), (vec![1.0, 10.0, 20.0], vec![2.0, 3.0]));
    });
}

#[test]
fn a_view_of_no_grad_mode_is_not_changed_outside() {
    none_left(|| {
        let base = leaf(&[1.0, 2.0]).mul_scalar(1.0).unwrap();
        let view = no_grad(|| base.narrow(0, 0, 1)).unwrap();
        let of_view = view.narrow(0, 0, 1).unwrap();
        insta::assert_snapshot!(view.mul_scalar_(2.0).unwrap_err().to_string(), @"aten::mul_.Scalar: A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked). (float64[1])");
        insta::assert_snapshot!(of_view.mul_scalar_(2.0).unwrap_err().to_string(), @"aten::mul_.Scalar: Output 0 of Slice is a view of a view which was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked). (float64[1])");
        no_grad(|| view.mul_scalar_(2.0)).unwrap();
        insta::assert_snapshot!(view.grad_fn().unwrap_err().to_string(), @"A view was created in no_grad mode and its base or another view of its base has been modified inplace with grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked).");
        assert_eq!((values(&base), base.version()), (vec![2.0, 2.0], 1));
    });
}

#[test]
fn views_of_a_plain_tensor_are_only_followed_when_a_gradient_comes_in() {
    none_left(|| {
        let base = Tensor::from_elements(&[1.0, 2.0]).unwrap();
        let view = no_grad(|| base.narrow(0, 0, 1)).unwrap();
        view.mul_scalar_(2.0).unwrap();
        assert!(view.mul_(&leaf(&[3.0])).is_err());
        assert_eq!(values(&base), [2.0, 2.0]);
    });
}

/// A complex leaf of three elements.
fn complex_leaf() -> Tensor {
    let parts = Tensor::from_elements(&[1.0, 2.0, -3.0, 0.5, 0.25, -1.0]).unwrap().reshape(&[3, 2]).unwrap();
    let leaf = parts.view_as_complex().unwrap().deep_clone().unwrap();
    leaf.requires_grad_(true).unwrap();
    leaf
}

fn same(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    let difference = a.sub(b).unwrap().abs().unwrap().max().unwrap();
    assert!(values(&difference)[0] < 1e-12, "{a} and {b}");
}

fn loss(tensor: &Tensor) -> Tensor {
    let size = tensor.abs().unwrap();
    size.mul(&size).unwrap().sum().unwrap()
}

#[test]
fn parts_of_a_complex_tensor_are_changed_in_place() {
    let factor = Tensor::from_elements(&[2.0, -3.0]).unwrap().reshape(&[2]).unwrap();
    let (z, like) = (complex_leaf(), complex_leaf());
    let w = z.mul_scalar(1.0).unwrap();
    let parts = w.view_as_real().unwrap();
    let real = w.real().unwrap();
    parts.mul_(&factor).unwrap();
    real.add_(&real.deep_clone().unwrap()).unwrap();
    assert_eq!(w.grad_fn().unwrap().unwrap().name(), "CopySlices");
    // The view that was not changed itself has a node of the new base.
    loss(&w).add(&parts.narrow(1, 1, 1).unwrap().sum().unwrap()).unwrap().backward().unwrap();

    let twice = Tensor::from_elements(&[2.0, 1.0]).unwrap().reshape(&[2]).unwrap();
    let out = like.view_as_real().unwrap().mul(&factor).unwrap().mul(&twice).unwrap();
    let w = out.view_as_complex().unwrap();
    loss(&w).add(&out.narrow(1, 1, 1).unwrap().sum().unwrap()).unwrap().backward().unwrap();
    same(&z.grad().unwrap(), &like.grad().unwrap());
}

#[test]
fn pairs_of_a_real_tensor_are_changed_in_place() {
    let leaf = || {
        let leaf = Tensor::from_elements(&[1.0, 2.0, -3.0, 0.5]).unwrap().reshape(&[2, 2]).unwrap();
        leaf.requires_grad_(true).unwrap();
        leaf
    };
    let factor =
        Tensor::from_elements(&[0.5, 2.0]).unwrap().reshape(&[2]).unwrap().view_as_complex().unwrap();
    let (x, like) = (leaf(), leaf());
    let y = x.mul_scalar(3.0).unwrap();
    let pairs = y.view_as_complex().unwrap();
    pairs.mul_(&factor).unwrap();
    let weights = Tensor::from_elements(&[1.0, -1.0, 2.0, 5.0]).unwrap().reshape(&[2, 2]).unwrap();
    y.mul(&weights).unwrap().sum().unwrap().add(&loss(&pairs)).unwrap().backward().unwrap();

    let pairs = like.mul_scalar(3.0).unwrap().view_as_complex().unwrap().mul(&factor).unwrap();
    let y = pairs.view_as_real().unwrap();
    y.mul(&weights).unwrap().sum().unwrap().add(&loss(&pairs)).unwrap().backward().unwrap();
    same(&x.grad().unwrap(), &like.grad().unwrap());
}

#[test]
fn the_imaginary_part_of_a_conjugate_is_changed_in_place() {
    let (z, like) = (complex_leaf(), complex_leaf());
    let w = z.mul_scalar(1.0).unwrap();
    let imaginary = w.conj().unwrap().imag().unwrap();
    imaginary.mul_scalar_(3.0).unwrap();
    loss(&w).backward().unwrap();

    let factor = Tensor::from_elements(&[1.0, 3.0]).unwrap().reshape(&[2]).unwrap();
    loss(&like.view_as_real().unwrap().mul(&factor).unwrap().view_as_complex().unwrap()).backward().unwrap();
    same(&z.grad().unwrap(), &like.grad().unwrap());
}
