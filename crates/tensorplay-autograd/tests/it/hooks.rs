//! Hooks of tensors and nodes: what they may change, and when they end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aten::{ErrorKind, Tensor};
use c10_core::{Device, ScalarType};
use tensorplay_autograd::{GradOptions, HookHandle, TensorAutograd, grad, grad_with, is_grad_enabled, queue_callback};

use crate::live::none_left;
use crate::{grad_of, leaf, run, run_kept, values};

#[test]
fn a_hook_changes_the_gradient_and_is_removed() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let y = x.mul_scalar(3.0).unwrap();
        let handle = y.register_hook(|gradient| gradient.mul_scalar(2.0).map(Some)).unwrap();
        run_kept(&y).unwrap();
        assert_eq!(grad_of(&x), [6.0, 6.0]);
        handle.remove();
        handle.remove();
        x.set_grad(None).unwrap();
        run(&y).unwrap();
        assert_eq!(grad_of(&x), [3.0, 3.0]);
    });
}

#[test]
fn hooks_may_change_neither_size_dtype_nor_device() {
    none_left(|| {
        let x = leaf(&[1.0, 2.0]);
        let of = |hook: fn(&Tensor) -> aten::Result<Option<Tensor>>| {
            let y = x.mul_scalar(3.0).unwrap();
            y.register_hook(hook).unwrap();
            run(&y).unwrap_err()
        };
        let error = of(|gradient| gradient.narrow(0, 0, 1).map(Some));
        assert_eq!(error.kind(), ErrorKind::Shape);
        assert!(error.to_string().contains("has changed the size of value"), "{error}");
        let error = of(|gradient| gradient.to(ScalarType::Float32).map(Some));
        assert_eq!(error.kind(), ErrorKind::Dtype);
        assert!(error.to_string().contains("has changed the type of value"), "{error}");
        assert_eq!(of(|gradient| gradient.to(Device::META).map(Some)).kind(), ErrorKind::Device);
        assert!(x.grad().is_none());
    });
}

#[test]
fn hooks_of_nodes_give_as_many_gradients_as_they_were_given() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let y = x.mul_scalar(3.0).unwrap();
        y.grad_fn().unwrap().unwrap().register_prehook(|_| Ok(Some(vec![None, None])));
        let error = run(&y).unwrap_err();
        assert!(error.to_string().contains("incorrect number of values (got 2, but expected 1)"), "{error}");
        let y = x.mul_scalar(3.0).unwrap();
        y.grad_fn().unwrap().unwrap().register_hook(|_, _| Ok(Some(vec![])));
        assert!(run(&y).unwrap_err().to_string().contains("got 0, but expected 1"));
        // A gradient may be taken away: nothing arrives then.
        let y = x.mul_scalar(3.0).unwrap();
        y.grad_fn().unwrap().unwrap().register_hook(|_, _| Ok(Some(vec![None])));
        run(&y).unwrap();
        assert!(x.grad().is_none());
    });
}

#[test]
fn only_tensors_that_require_a_gradient_take_hooks() {
    none_left(|| {
        let plain = Tensor::from_elements(&[1.0]).unwrap();
        assert_eq!(plain.register_hook(|_| Ok(None)).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(plain.register_post_accumulate_grad_hook(|_| Ok(())).is_err());
        assert!(plain.retain_grad().unwrap_err().to_string().contains("can't retain_grad"));
        let y = leaf(&[1.0]).mul_scalar(2.0).unwrap();
        let error = y.register_post_accumulate_grad_hook(|_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("cannot be registered on non-leaf tensors"), "{error}");
    });
}

#[test]
fn hooks_that_remove_and_register_hooks_take_effect_the_next_time() {
    none_left(|| {
        let y = leaf(&[1.0]).mul_scalar(1.0).unwrap();
        let log: Arc<Mutex<Vec<u32>>> = Arc::default();
        let second: Arc<Mutex<Option<HookHandle>>> = Arc::default();
        let (own, other, of) = (Arc::clone(&log), Arc::clone(&second), y.downgrade());
        y.register_hook(move |_| {
            own.lock().unwrap().push(1);
            if let Some(other) = other.lock().unwrap().take() {
                other.remove();
                let own = Arc::clone(&own);
                of.upgrade().unwrap().register_hook(move |_| {
                    own.lock().unwrap().push(3);
                    Ok(None)
                })?;
            }
            Ok(None)
        })
        .unwrap();
        let own = Arc::clone(&log);
        let handle = y.register_hook(move |_| {
            own.lock().unwrap().push(2);
            Ok(None)
        });
        *second.lock().unwrap() = Some(handle.unwrap());
        run_kept(&y).unwrap();
        assert_eq!(*log.lock().unwrap(), [1, 2]);
        run(&y).unwrap();
        assert_eq!(*log.lock().unwrap(), [1, 2, 1, 3]);
    });
}

#[test]
fn after_an_in_place_change_hooks_stay_and_a_retained_gradient_moves() {
    none_left(|| {
        let x = leaf(&[1.0, 1.0]);
        let y = x.mul_scalar(2.0).unwrap();
        y.retain_grad().unwrap();
        let log: Arc<Mutex<Vec<(&str, Vec<f64>)>>> = Arc::default();
        let logged = |name| {
            let log = Arc::clone(&log);
            move |gradient: &Tensor| {
                log.lock().unwrap().push((name, values(gradient)));
                Ok(None)
            }
        };
        y.register_hook(logged("old")).unwrap();
        y.mul_scalar_(3.0).unwrap();
        y.register_hook(logged("new")).unwrap();
        run(&y).unwrap();
        assert_eq!(grad_of(&y), [1.0, 1.0]);
        assert_eq!(*log.lock().unwrap(), [("new", vec![1.0, 1.0]), ("old", vec![3.0, 3.0])]);
    });
}

#[test]
fn retained_gradients_of_views_follow_the_nodes_that_are_made_for_them() {
    none_left(|| {
        let base = leaf(&[1.0, 1.0]).mul_scalar(1.0).unwrap();
        let (view, other) = (base.narrow(0, 0, 2).unwrap(), base.narrow(0, 0, 2).unwrap());
        base.retain_grad().unwrap();
        view.retain_grad().unwrap();
        other.retain_grad().unwrap();
        view.mul_scalar_(2.0).unwrap();
        run(&view.add(&other).unwrap()).unwrap();
        assert_eq!(grad_of(&view), [1.0, 1.0]);
        assert_eq!(grad_of(&other), [1.0, 1.0]);
        assert_eq!(grad_of(&base), [2.0, 2.0]);
    });
}

#[test]
fn retain_grad_accumulates_and_does_nothing_on_leaves() {
    none_left(|| {
        let x = leaf(&[1.0]);
        x.retain_grad().unwrap();
        assert!(!x.retains_grad());
        let y = x.mul_scalar(2.0).unwrap();
        y.retain_grad().unwrap();
        y.retain_grad().unwrap();
        let z = y.mul_scalar(5.0).unwrap();
        run_kept(&z).unwrap();
        assert_eq!(grad_of(&y), [5.0]);
        run(&z).unwrap();
        assert_eq!((grad_of(&y), grad_of(&x)), (vec![10.0], vec![20.0]));
    });
}

#[test]
fn hooks_run_in_the_mode_of_the_backward_pass_and_so_do_callbacks() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let seen: Arc<Mutex<Vec<(&str, bool)>>> = Arc::default();
        for create_graph in [false, true] {
            let y = x.mul_scalar(2.0).unwrap();
            let log = Arc::clone(&seen);
            y.register_hook(move |_| {
                log.lock().unwrap().push(("hook", is_grad_enabled()));
                let log = Arc::clone(&log);
                queue_callback(move || {
                    log.lock().unwrap().push(("callback", is_grad_enabled()));
                    Ok(())
                })?;
                Ok(None)
            })
            .unwrap();
            let options = GradOptions { create_graph, ..GradOptions::default() };
            grad_with(&[y], &[x.clone()], options).unwrap();
            assert!(is_grad_enabled());
        }
        let expected = [("hook", false), ("callback", false), ("hook", true), ("callback", true)];
        assert_eq!(*seen.lock().unwrap(), expected);
        let error = queue_callback(|| Ok(())).unwrap_err();
        assert!(error.to_string().contains("only be installed during backward pass"), "{error}");
    });
}

#[test]
fn callbacks_run_once_at_the_end_with_those_that_they_queue() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let y = x.mul_scalar(2.0).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&count);
        let leaf = x.clone();
        y.register_hook(move |_| {
            let (own, leaf) = (Arc::clone(&own), leaf.clone());
            queue_callback(move || {
                assert_eq!(grad_of(&leaf), [2.0]);
                own.fetch_add(1, Ordering::Relaxed);
                queue_callback(move || {
                    own.fetch_add(10, Ordering::Relaxed);
                    Ok(())
                })
            })?;
            Ok(None)
        })
        .unwrap();
        run(&y).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 11);
    });
}

#[test]
fn how_often_hooks_are_called_by_grad() {
    none_left(|| {
        let a = leaf(&[1.0]);
        let b = a.mul_scalar(2.0).unwrap();
        let c = b.mul_scalar(2.0).unwrap();
        let counts: Arc<[AtomicUsize; 3]> = Arc::default();
        let counter = |which: usize| {
            let counts = Arc::clone(&counts);
            move || {
                counts[which].fetch_add(1, Ordering::Relaxed);
            }
        };
        let accumulator = b.grad_fn().unwrap().unwrap().next_functions()[0].clone().unwrap().node;
        for tensor in [&a, &b] {
            let count = counter(0);
            tensor
                .register_hook(move |_| {
                    count();
                    Ok(None)
                })
                .unwrap();
        }
        for node in [&accumulator, &b.grad_fn().unwrap().unwrap()] {
            let count = counter(1);
            node.register_prehook(move |_| {
                count();
                Ok(None)
            });
            let count = counter(2);
            node.register_hook(move |_, _| {
                count();
                Ok(None)
            });
        }
        let mut seen = Vec::new();
        let mut take = || {
            let counts: Vec<_> = counts.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
            seen.push(counts);
        };
        let kept = GradOptions { retain_graph: Some(true), ..GradOptions::default() };
        grad_with(&[c.clone()], &[b.clone()], kept).unwrap();
        take();
        grad_with(&[c.clone()], &[a.clone(), b.clone()], kept).unwrap();
        take();
        run_kept(&c).unwrap();
        take();
        assert_eq!(seen, [[1, 0, 0], [2, 1, 1], [2, 2, 2]]);
        assert_eq!(values(&grad(&[c], &[a]).unwrap()[0]), [4.0]);
    });
}
