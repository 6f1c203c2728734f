//! Errors and panics that cross a backward call leave nothing behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aten::dispatch::{CustomOp, Dispatcher, Value};
use aten::{Error, ErrorKind, Tensor};
use c10_core::DeviceType;
use tensorplay_autograd::{TensorAutograd, is_grad_enabled, queue_callback};

use crate::live::none_left;
use crate::{grad_of, leaf, run, run_kept};

#[test]
fn an_error_of_a_hook_ends_the_call_and_the_next_works() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let y = x.mul(&x).unwrap();
        let fails = Arc::new(AtomicBool::new(true));
        let own = Arc::clone(&fails);
        y.register_hook(move |_| match own.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::OutOfMemory, "the hook has none")),
            false => Ok(None),
        })
        .unwrap();
        let z = y.mul_scalar(2.0).unwrap();
        let error = run_kept(&z).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(is_grad_enabled() && x.grad().is_none());
        assert!(queue_callback(|| Ok(())).is_err());
        fails.store(false, Ordering::Relaxed);
        run(&z).unwrap();
        assert_eq!(grad_of(&x), [4.0, 8.0]);
    });
}

#[test]
fn a_panic_of_a_hook_is_the_callers_and_the_next_call_works() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let panics = Arc::new(AtomicBool::new(true));
        let count = Arc::new(AtomicUsize::new(0));
        let (own, counted) = (Arc::clone(&panics), Arc::clone(&count));
        x.register_hook(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            assert!(!own.load(Ordering::Relaxed), "the hook panics");
            Ok(None)
        })
        .unwrap();
        let y = x.mul_scalar(2.0).unwrap();
        let payload = catch_unwind(AssertUnwindSafe(|| run_kept(&y))).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "the hook panics");
        assert!(is_grad_enabled() && x.grad().is_none());
        panics.store(false, Ordering::Relaxed);
        run(&y).unwrap();
        assert_eq!((grad_of(&x), count.load(Ordering::Relaxed)), (vec![2.0, 2.0], 2));
    });
}

#[test]
fn a_callback_that_fails_fails_the_call() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let y = x.mul_scalar(2.0).unwrap();
        y.register_hook(|_| {
            queue_callback(|| Err(Error::invalid_argument("at the end")))?;
            Ok(None)
        })
        .unwrap();
        assert!(run(&y).unwrap_err().to_string().contains("at the end"));
        assert_eq!(grad_of(&x), [2.0]);
    });
}

#[test]
fn what_panics_as_a_graph_ends_leaves_the_thread_usable() {
    struct PanicsAtItsEnd;
    impl Drop for PanicsAtItsEnd {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "its end");
        }
    }
    none_left(|| {
        let ended = Arc::new(());
        let x = leaf(&[1.0]);
        let mut y = x.mul_scalar(1.0).unwrap();
        for at in 0..10 {
            y = y.mul(&x).unwrap();
            let (held, panics) = (Arc::clone(&ended), (at == 5).then(|| PanicsAtItsEnd));
            let held = (held, Mutex::new(panics));
            y.register_hook(move |_| {
                let _kept = &held;
                Ok(None)
            })
            .unwrap();
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(y))).is_err());
        assert_eq!(Arc::strong_count(&ended), 1);
        let y = x.mul(&x).unwrap();
        drop(y.mul(&x).unwrap());
        run(&y).unwrap();
        assert_eq!(grad_of(&x), [2.0]);
    });
}

/// Row 92.
#[test]
fn an_operator_that_cannot_be_differentiated_fails_naming_itself() {
    none_left(|| {
        let operator = CustomOp::builder("autogradtest::opaque(Tensor x) -> Tensor")
            .kernel(DeviceType::Cpu, |x: &Tensor| x.deep_clone())
            .register(Dispatcher::global())
            .unwrap();
        let x = leaf(&[1.0, 2.0]);
        let y = x.mul_scalar(2.0).unwrap();
        let mut results = operator.call(vec![y.into()]).unwrap();
        let Some(Value::Tensor(result)) = results.pop() else { panic!("a tensor") };
        assert!(result.requires_grad());
        let error = run(&result).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotImplemented);
        assert!(error.to_string().contains("autogradtest::opaque"), "{error}");
        assert!(x.grad().is_none());
    });
}
