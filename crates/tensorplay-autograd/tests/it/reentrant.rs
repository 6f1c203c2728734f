//! Backward calls inside of backward calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aten::Tensor;
use tensorplay_autograd::{BackwardOptions, TensorAutograd, enable_grad, grad, queue_callback};

use crate::live::none_left;
use crate::{grad_of, leaf, run};

/// A tensor whose gradient's hook builds another graph and runs it, `levels` times inside of each other.
fn nested(levels: usize, reached: &Arc<AtomicUsize>, shared: &Tensor) -> Tensor {
    let y = shared.mul_scalar(1.0).unwrap();
    let (reached, shared) = (Arc::clone(reached), shared.clone());
    y.register_hook(move |_| {
        reached.fetch_add(1, Ordering::Relaxed);
        if levels > 1 {
            let inner = enable_grad(|| nested(levels - 1, &reached, &shared));
            run(&inner)?;
        }
        Ok(None)
    })
    .unwrap();
    y
}

#[test]
fn two_thousand_levels_do_not_overflow_the_stack() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let reached = Arc::new(AtomicUsize::new(0));
        run(&nested(2000, &reached, &x)).unwrap();
        assert_eq!(reached.load(Ordering::Relaxed), 2000);
        assert_eq!(grad_of(&x), [2000.0]);
    });
}

#[test]
fn an_inner_call_ends_before_the_outer_goes_on() {
    none_left(|| {
        let (x, y) = (leaf(&[6.0]), leaf(&[9.0]));
        let log: Arc<Mutex<Vec<&str>>> = Arc::default();
        let logged = |name: &'static str, of: &Tensor| {
            let log = Arc::clone(&log);
            of.register_hook(move |_| {
                log.lock().unwrap().push(name);
                Ok(None)
            })
            .unwrap();
        };
        let older = x.mul_scalar(1.0).unwrap();
        logged("older", &older);
        let newer = y.mul_scalar(1.0).unwrap();
        let (own, leaf) = (Arc::clone(&log), y.clone());
        newer
            .register_hook(move |_| {
                own.lock().unwrap().push("newer");
                let inner = enable_grad(|| leaf.mul(&leaf))?;
                let log = Arc::clone(&own);
                inner.register_hook(move |_| {
                    log.lock().unwrap().push("inner");
                    let log = Arc::clone(&log);
                    queue_callback(move || {
                        log.lock().unwrap().push("inner is done");
                        Ok(())
                    })?;
                    Ok(None)
                })?;
                let log = Arc::clone(&own);
                queue_callback(move || {
                    log.lock().unwrap().push("outer is done");
                    Ok(())
                })?;
                run(&inner)?;
                Ok(None)
            })
            .unwrap();
        run(&older.mul(&newer).unwrap()).unwrap();
        insta::assert_snapshot!(log.lock().unwrap().join("\n"), @"
        newer
        inner
        inner is done
        older
        outer is done
        ");
        assert_eq!((grad_of(&x), grad_of(&y)), (vec![9.0], vec![24.0]));
    });
}

#[test]
fn an_error_of_an_inner_call_can_be_met_and_the_outer_goes_on() {
    none_left(|| {
        let x = leaf(&[1.0]);
        let used = x.mul(&x).unwrap();
        run(&used).unwrap();
        let y = x.mul_scalar(2.0).unwrap();
        let failed = Arc::new(Mutex::new(String::new()));
        let own = Arc::clone(&failed);
        y.register_hook(move |_| {
            *own.lock().unwrap() = run(&used).unwrap_err().to_string();
            Ok(None)
        })
        .unwrap();
        run(&y).unwrap();
        assert!(failed.lock().unwrap().contains("a second time"));
        assert_eq!(grad_of(&x), [4.0]);
    });
}

/// The node that runs in the outer call, where the gradient of `b` is not wanted, runs in the inner one too, where it is.
#[test]
fn an_inner_call_computes_what_the_outer_does_not_want() {
    none_left(|| {
        let (a, b) = (leaf(&[2.0]), leaf(&[3.0]));
        let y = a.mul(&b).unwrap();
        let (own, calls) = (y.downgrade(), AtomicUsize::new(0));
        y.register_hook(move |_| {
            if calls.fetch_add(1, Ordering::Relaxed) == 0 {
                let again = BackwardOptions { retain_graph: Some(true), ..BackwardOptions::default() };
                own.upgrade().unwrap().backward_with(again)?;
            }
            Ok(None)
        })
        .unwrap();
        let given = grad(std::slice::from_ref(&y), std::slice::from_ref(&a)).unwrap();
        assert_eq!(given[0].item().unwrap(), 3.0);
        assert_eq!((grad_of(&a), grad_of(&b)), (vec![3.0], vec![2.0]));
    });
}
