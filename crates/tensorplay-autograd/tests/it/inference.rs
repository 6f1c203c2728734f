//! Inference mode.

use aten::Tensor;
use aten::dispatch::local::InferenceModeGuard;
use tensorplay_autograd::{TensorAutograd, is_grad_enabled};

use crate::live::none_left;
use crate::{leaf, run, values};

fn in_inference_mode<R>(f: impl FnOnce() -> R) -> R {
    let _guard = InferenceModeGuard::new(true);
    f()
}

#[test]
fn tensors_of_inference_mode_are_not_saved_nor_changed_outside() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let made = in_inference_mode(|| {
            assert!(!is_grad_enabled());
            let made = x.mul_scalar(2.0).unwrap();
            assert!(!made.requires_grad());
            made.add_(&made).unwrap();
            made
        });
        assert!(made.is_inference());
        assert_eq!(values(&made), [4.0, 8.0]);
        let error = x.mul(&made).unwrap_err();
        assert!(error.to_string().contains("Inference tensors cannot be saved for backward."), "{error}");
        // What needs not to be saved is used.
        run(&x.add(&made).unwrap()).unwrap();
        for changed in [made.clone(), made.narrow(0, 0, 1).unwrap()] {
            let error = changed.mul_scalar_(2.0).unwrap_err();
            assert!(error.to_string().contains("Inplace update to inference tensor outside InferenceMode"), "{error}");
        }
        let error = made.requires_grad_(true).unwrap_err();
        assert!(error.to_string().contains("Setting requires_grad=True on inference tensor outside"), "{error}");
        made.requires_grad_(false).unwrap();
        assert_eq!(values(&made), [4.0, 8.0]);
    });
}

#[test]
fn views_that_are_made_in_inference_mode_are_not_changed_outside() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let y = x.mul_scalar(1.0).unwrap();
        let view = in_inference_mode(|| y.narrow(0, 0, 1).unwrap());
        assert!(!view.is_inference() && view.requires_grad());
        let error = view.mul_scalar_(2.0).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @"aten::mul_.Scalar: A view was created in inference mode and is being modified inplace in normal mode. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the inference_mode block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked). (float64[1])");
        in_inference_mode(|| y.mul_scalar_(2.0)).unwrap();
        assert_eq!((y.version(), y.grad_fn().unwrap().unwrap().name()), (1, "MulBackward1"));
        let error = view.grad_fn().unwrap_err();
        insta::assert_snapshot!(error.to_string(), @"A view was created in inference mode and its base or another view of its base has been modified inplace in normal mode. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the inference_mode block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked).");
    });
}

#[test]
fn a_view_that_needs_no_gradient_is_changed_freely() {
    none_left(|| {
        let plain = Tensor::from_elements(&[1.0, 2.0]).unwrap();
        let view = in_inference_mode(|| plain.narrow(0, 0, 1).unwrap());
        view.mul_scalar_(3.0).unwrap();
        assert_eq!(values(&plain), [3.0, 2.0]);
        assert!(view.mul_(&leaf(&[2.0])).is_err());
    });
}
