//! Grad mode.

use tensorplay_autograd::{
    GradModeGuard, TensorAutograd, enable_grad, is_grad_enabled, no_grad, set_grad_enabled,
};

use crate::leaf;
use crate::live::none_left;

#[test]
fn nothing_is_recorded_without_grad_mode() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let y = no_grad(|| {
            assert!(!is_grad_enabled());
            let inner = enable_grad(|| x.mul(&x).unwrap());
            assert!(inner.requires_grad());
            x.mul(&x).unwrap()
        });
        assert!(!y.requires_grad() && y.grad_fn().unwrap().is_none());
        assert!(is_grad_enabled());
    });
}

#[test]
fn the_mode_is_the_threads_and_guards_restore_it() {
    let guard = GradModeGuard::new(false);
    std::thread::spawn(|| assert!(is_grad_enabled())).join().unwrap();
    set_grad_enabled(true);
    assert!(is_grad_enabled());
    set_grad_enabled(false);
    assert!(!is_grad_enabled());
    drop(guard);
    assert!(is_grad_enabled());
    let panic = std::panic::catch_unwind(|| no_grad(|| panic!("in no_grad")));
    assert!(panic.is_err() && is_grad_enabled());
}
