//! Several threads in backward at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use aten::Tensor;
use tensorplay_autograd::{TensorAutograd, backward};

use crate::live::{Tracked, none_left};
use crate::{grad_of, leaf, ones, run, run_kept, values};

const THREADS: usize = 8;

/// Runs `f` on several threads that start at once.
fn at_once<R: Send>(f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let (barrier, tracked) = (Barrier::new(THREADS), Tracked::here());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|at| {
                let (barrier, f) = (&barrier, &f);
                scope.spawn(move || {
                    tracked.join();
                    barrier.wait();
                    f(at)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn gradients_of_a_shared_leaf_from_graphs_of_several_threads_add_up() {
    none_left(|| {
        for _ in 0..20 {
            let x = leaf(&[1.0; 100]);
            at_once(|at| {
                for _ in 0..50 {
                    run(&x.mul_scalar(at as f64).unwrap()).unwrap();
                }
            });
            assert_eq!(grad_of(&x), [50.0 * 28.0; 100]);
        }
    });
}

#[test]
fn a_first_gradient_is_lost_by_no_thread() {
    none_left(|| {
        for _ in 0..200 {
            let x = leaf(&[1.0]);
            let graphs: Vec<_> = (0..THREADS).map(|_| x.mul_scalar(1.0).unwrap()).collect();
            at_once(|at| run(&graphs[at]).unwrap());
            assert_eq!(grad_of(&x), [THREADS as f64]);
        }
    });
}

#[test]
fn one_graph_is_run_by_several_threads_where_it_is_kept() {
    none_left(|| {
        let x = leaf(&[3.0]);
        let y = x.mul(&x).unwrap();
        y.retain_grad().unwrap();
        let z = y.mul(&x).unwrap();
        at_once(|_| (0..50).for_each(|_| run_kept(&z).unwrap()));
        assert_eq!(grad_of(&x), [(THREADS * 50) as f64 * 27.0]);
        assert_eq!(grad_of(&y), [(THREADS * 50) as f64 * 3.0]);
    });
}

#[test]
fn of_several_threads_that_do_not_keep_a_graph_some_are_refused_and_none_fails_otherwise() {
    none_left(|| {
        for _ in 0..100 {
            let x = leaf(&[3.0]);
            let y = x.mul(&x).unwrap();
            let results = at_once(|_| run(&y));
            let passed = results.iter().filter(|result| result.is_ok()).count();
            assert!(passed >= 1);
            for error in results.into_iter().filter_map(Result::err) {
                assert!(error.to_string().contains("Specify retain_graph=True"), "{error}");
            }
            assert_eq!(grad_of(&x), [6.0 * passed as f64]);
        }
    });
}

#[test]
fn hooks_are_called_by_the_threads_that_run_their_graphs() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let count = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&count);
        x.register_hook(move |_| {
            own.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        })
        .unwrap();
        at_once(|_| {
            let y = x.mul_scalar(2.0).unwrap();
            let caller = thread::current().id();
            y.register_hook(move |_| {
                assert_eq!(thread::current().id(), caller);
                Ok(None)
            })
            .unwrap();
            run(&y).unwrap();
        });
        assert_eq!(count.load(Ordering::Relaxed), THREADS);
        assert_eq!(grad_of(&x), [2.0 * THREADS as f64]);
    });
}

#[test]
fn a_leaf_is_read_and_written_while_its_gradient_is_added_to() {
    none_left(|| {
        let x = leaf(&[1.0; 1000]);
        x.set_grad(Some(&ones(&x).mul_scalar(0.0).unwrap())).unwrap();
        let gradient = x.grad().unwrap();
        at_once(|at| {
            for _ in 0..50 {
                match at % 2 {
                    0 => backward(&[x.mul_scalar(1.0).unwrap().narrow(0, 0, 1).unwrap()]).unwrap(),
                    // No element is ever seen half-written.
                    _ => assert!(values(&gradient).iter().all(|value| value.fract() == 0.0)),
                }
            }
        });
        assert_eq!(values(&gradient)[..2], [200.0, 0.0]);
    });
}

#[test]
fn gradients_cross_threads_with_the_tensors_that_have_them() {
    none_left(|| {
        let x = leaf(&[2.0]);
        let y = x.mul(&x).unwrap();
        let tracked = Tracked::here();
        let own = y.clone();
        thread::spawn(move || {
            tracked.join();
            run(&own).unwrap();
        })
        .join()
        .unwrap();
        assert_eq!(grad_of(&x), [4.0]);
        assert!(y.grad().is_none() && y.requires_grad());
        let _: Vec<Tensor> = vec![x, y];
    });
}
