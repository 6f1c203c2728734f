//! Saved tensors and the versions of their storages.

use aten::Tensor;
use tensorplay_autograd::{TensorAutograd, anomaly, no_grad};

use crate::live::none_left;
use crate::{grad_of, leaf, run};

fn refused(of: &Tensor) -> String {
    run(of).unwrap_err().to_string()
}

#[test]
fn a_saved_result_that_was_changed_is_refused_with_its_maker() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0, 3.0]);
        let y = x.add(&x).unwrap();
        let z = y.mul(&y).unwrap();
        y.add_(&x).unwrap();
        insta::assert_snapshot!(refused(&z), @"one of the variables needed for gradient computation has been modified by an inplace operation: [torch.DoubleTensor [3]], which is output 0 of Add, is at version 1; expected version 0 instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).");
        assert!(x.grad().is_none());
    });
}

#[test]
fn a_saved_leaf_that_was_changed_is_refused() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0, 3.0]);
        let y = x.mul(&x).unwrap();
        no_grad(|| x.add_(&x)).unwrap();
        insta::assert_snapshot!(refused(&y), @"one of the variables needed for gradient computation has been modified by an inplace operation: [torch.DoubleTensor [3]] is at version 1; expected version 0 instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).");
    });
}

#[test]
fn a_change_through_a_view_of_other_elements_is_refused_too() {
    none_left(|| {
        let y = leaf(&[1.0, 2.0, 3.0]).mul_scalar(1.0).unwrap();
        let head = y.narrow(0, 0, 1).unwrap();
        let square = head.mul(&head).unwrap();
        y.narrow(0, 2, 1).unwrap().mul_scalar_(2.0).unwrap();
        assert!(refused(&square).contains("is at version 1; expected version 0 instead."));
    });
}

#[test]
fn a_base_that_was_changed_through_a_view_is_refused_with_its_new_maker() {
    none_left(|| {
        let y = leaf(&[1.0, 2.0]).mul_scalar(1.0).unwrap();
        let square = y.mul(&y).unwrap();
        y.narrow(0, 0, 1).unwrap().mul_scalar_(2.0).unwrap();
        assert!(refused(&square).contains("which is output 0 of torch::autograd::CopySlices, is at version 1"));
    });
}

#[test]
fn what_nobody_saved_may_be_changed() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let y = x.mul_scalar(2.0).unwrap();
        let z = y.add(&y).unwrap();
        y.mul_scalar_(5.0).unwrap();
        run(&z).unwrap();
        assert_eq!(grad_of(&x), [4.0, 4.0]);
    });
}

#[test]
fn the_hint_of_anomaly_mode_is_another_and_the_error_says_where_the_node_was_made() {
    none_left(|| {
        anomaly::detect_anomaly(true, || {
            let x = leaf(&[1.0, 2.0]);
            let y = x.mul_scalar(1.0).unwrap();
            let z = y.mul(&y).unwrap();
            y.mul_scalar_(2.0).unwrap();
            let text = refused(&z);
            assert!(text.contains("Hint: the backtrace further above shows the operation"), "{text}");
            assert!(text.contains("Error detected in MulBackward0. Traceback of forward call"), "{text}");
        });
        assert!(!anomaly::is_enabled());
    });
}

#[test]
fn a_nan_is_an_error_in_anomaly_mode() {
    none_left(|| {
        let x = leaf(&[0.0]);
        let y = x.mul_scalar(f64::NAN).unwrap();
        run(&y).unwrap();
        x.set_grad(None).unwrap();
        let text = anomaly::detect_anomaly(true, || refused(&x.mul_scalar(f64::NAN).unwrap()));
        assert!(text.contains("Function 'MulBackward1' returned nan values in its 0th output."), "{text}");
        anomaly::detect_anomaly(false, || run(&x.mul_scalar(f64::NAN).unwrap())).unwrap();
    });
}
