//! Graphs of a million nodes: built, run and dropped without recursion.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use aten::Tensor;
use tensorplay_autograd::{TensorAutograd, anomaly};

use crate::live::none_left;
use crate::{grad_of, leaf, run};

const DEEP: usize = 1_000_000;
/// Enough for an overflow of any recursion, where nodes are large.
const LESS_DEEP: usize = 100_000;

/// Runs `f` on a stack on which a recursion through a graph has no place.
fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(f).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_chain_of_a_million_is_built_run_and_dropped() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let tracked = crate::live::Tracked::here();
        let own = x.clone();
        on_a_small_stack(move || {
            tracked.join();
            let mut y = own.mul_scalar(1.0).unwrap();
            for _ in 0..DEEP {
                y = y.mul_scalar(1.0).unwrap();
            }
            run(&y).unwrap();
        });
        assert_eq!(grad_of(&x), [1.0]);
    });
}

/// Row 86: each node is held by its edges and by what is saved, and nobody ever runs it.
#[test]
fn a_chain_that_is_held_by_saved_tensors_is_dropped() {
    none_left(|| {
        let tracked = crate::live::Tracked::here();
        on_a_small_stack(move || {
            tracked.join();
            let c = leaf(&[1e-9]);
            let mut y = c.mul_scalar(1.0).unwrap();
            for _ in 0..LESS_DEEP {
                y = y.add(&y.mul(&c).unwrap()).unwrap();
            }
            drop(y);
        });
    });
}

#[test]
fn a_chain_of_changes_in_place_through_views_is_run_and_dropped() {
    none_left(|| {
        let tracked = crate::live::Tracked::here();
        on_a_small_stack(move || {
            tracked.join();
            let x = leaf(&[1.0, 1.0]);
            for runs in [true, false] {
                let base = x.mul_scalar(1.0).unwrap();
                let view = base.narrow(0, 0, 1).unwrap();
                for _ in 0..LESS_DEEP / 2 {
                    view.mul_scalar_(1.0).unwrap();
                }
                if runs {
                    run(&base).unwrap();
                    assert_eq!(grad_of(&x), [1.0, 1.0]);
                }
            }
        });
    });
}

#[test]
fn graphs_that_hold_each_other_by_hooks_are_dropped() {
    none_left(|| {
        let tracked = crate::live::Tracked::here();
        on_a_small_stack(move || {
            tracked.join();
            let x = leaf(&[1.0]);
            // Each result's node has a hook that holds the result before it.
            let mut held = x.mul_scalar(1.0).unwrap();
            // And each leaf's hook the leaf before it.
            let mut leaf_held = leaf(&[1.0]);
            for _ in 0..LESS_DEEP {
                let y = x.mul_scalar(1.0).unwrap();
                let before = std::mem::replace(&mut held, y);
                held.register_hook(move |_| {
                    let _kept = &before;
                    Ok(None)
                })
                .unwrap();
                let before = std::mem::replace(&mut leaf_held, leaf(&[1.0]));
                leaf_held
                    .register_hook(move |_| {
                        let _kept = &before;
                        Ok(None)
                    })
                    .unwrap();
            }
            drop((held, leaf_held));
        });
    });
}

#[test]
fn gradients_of_gradients_are_dropped() {
    none_left(|| {
        let tracked = crate::live::Tracked::here();
        on_a_small_stack(move || {
            tracked.join();
            // Each tensor is the gradient of the one before it.
            let mut first = leaf(&[1.0]);
            for _ in 0..LESS_DEEP {
                let next = leaf(&[1.0]);
                next.set_grad(Some(&first)).unwrap();
                first = next;
            }
            drop(first);
        });
    });
}

#[test]
fn a_graph_ends_with_its_thread() {
    thread_local! {
        static KEPT: RefCell<Option<Tensor>> = const { RefCell::new(None) };
    }
    none_left(|| {
        let tracked = crate::live::Tracked::here();
        on_a_small_stack(move || {
            tracked.join();
            // Registered before anything of the crate's own, so that it is destroyed after that.
            KEPT.set(None);
            let mut y = leaf(&[1.0]);
            for _ in 0..LESS_DEEP {
                y = y.mul(&y).unwrap();
            }
            KEPT.set(Some(y));
        });
    });
}

#[test]
fn a_graph_is_dropped_by_another_thread_than_the_one_that_made_it() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let mut y = x.mul_scalar(1.0).unwrap();
        for _ in 0..LESS_DEEP {
            y = y.mul(&x).unwrap();
        }
        let made = Arc::new(Mutex::new(Some(y)));
        let own = Arc::clone(&made);
        on_a_small_stack(move || drop(own.lock().unwrap().take()));
        assert!(made.lock().unwrap().is_none());
    });
}

#[test]
fn a_chain_that_was_made_in_anomaly_mode_is_dropped() {
    none_left(|| {
        anomaly::detect_anomaly(true, || {
            let x = leaf(&[1.0]);
            let mut y = x.mul_scalar(1.0).unwrap();
            for _ in 0..500 {
                y = y.mul(&x).unwrap();
            }
            drop(y);
        });
    });
}
