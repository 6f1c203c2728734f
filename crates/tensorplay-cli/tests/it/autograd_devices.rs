//! Backward calls on several devices and streams, on the simulated machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, ThreadId};

use aten::{Error, ErrorKind, Result, Tensor, TensorOptions};
use c10_core::guard::with_stream;
use c10_core::{Device, ScalarType};
use tensorplay_autograd::{
    BackwardOptions, GradOptions, TensorAutograd, anomaly, backward_with, enable_grad, grad_with,
    is_grad_enabled, queue_callback,
};

use crate::cuda::{cuda, current, stream, wait};

const FIRST: Device = Device::cuda(0);
const SECOND: Device = Device::cuda(1);

fn leaf_on(device: Device, values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().to(device).unwrap().requires_grad_(true).unwrap()
}

fn values(of: &Tensor) -> Vec<f64> {
    of.detach().unwrap().to(Device::CPU).unwrap().to_vec().unwrap()
}

fn grad_of(of: &Tensor) -> Vec<f64> {
    values(&of.grad().expect("a gradient"))
}

fn ones(like: &Tensor) -> Tensor {
    let options = TensorOptions::default().dtype(ScalarType::Float64).device(like.device());
    // The copy is on the device, and nobody waits for it.
    Tensor::ones(&like.sizes(), options).unwrap().deep_clone().unwrap()
}

fn run(of: &Tensor) -> Result<()> {
    run_and(of, false)
}

fn run_and(of: &Tensor, keep: bool) -> Result<()> {
    let gradients = [Some(ones(of))];
    backward_with(
        std::slice::from_ref(of),
        BackwardOptions { gradients: &gradients, retain_graph: Some(keep), ..BackwardOptions::default() },
    )
}

type Seen = Arc<Mutex<Vec<(String, ThreadId)>>>;

/// Has the gradient's hook say the thread that it runs on.
fn log_thread(of: &Tensor, seen: &Seen) {
    let seen = Arc::clone(seen);
    of.register_hook(move |_| {
        let thread = thread::current();
        seen.lock().unwrap().push((thread.name().unwrap_or("").to_owned(), thread.id()));
        Ok(None)
    })
    .unwrap();
}

#[test]
fn a_graph_crosses_devices_and_each_runs_its_own_nodes() {
    let cuda = cuda();
    let x = leaf_on(Device::CPU, &[1.0, 2.0]);
    let seen = Seen::default();
    let on_host = x.mul_scalar(2.0).unwrap();
    let on_first = on_host.to(FIRST).unwrap().mul_scalar(3.0).unwrap();
    let on_second = on_first.to(SECOND).unwrap().mul_scalar(5.0).unwrap();
    let back = on_second.to(Device::CPU).unwrap().mul(&on_host).unwrap();
    for tensor in [&on_host, &on_first, &on_second, &back] {
        log_thread(tensor, &seen);
    }
    run(&back).unwrap();
    // 60 x², whose slope is 120 x.
    assert_eq!(grad_of(&x), [120.0, 240.0]);
    let caller = thread::current();
    let own = (caller.name().unwrap_or("").to_owned(), caller.id());
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[0], own);
    assert_eq!((seen[1].0.as_str(), seen[2].0.as_str()), ("autograd cuda:1", "autograd cuda:0"));
    assert_eq!(seen[3], own);
    drop((x, on_host, on_first, on_second, back));
    cuda.finish();
}

#[test]
fn nodes_run_on_the_streams_of_the_forward_call_and_the_callers_waits_for_them() {
    let cuda = cuda();
    for caller_is_aside in [false, true] {
        let main = current(FIRST);
        let x = leaf_on(FIRST, &[1.0, 2.0]);
        let (left, right) = (stream(FIRST), stream(FIRST));
        assert!(left != right && left != main);
        let mut branches = Vec::new();
        for (aside, factor) in [(left, 3.0), (right, 5.0)] {
            wait(aside, main);
            let branch =
                with_stream(aside, || x.mul_scalar(factor).unwrap().mul_scalar(1.0).unwrap()).unwrap();
            branch.storage().record_stream(main).unwrap();
            branch
                .register_hook(move |_| {
                    assert_eq!(current(FIRST), aside);
                    Ok(None)
                })
                .unwrap();
            wait(main, aside);
            branches.push(branch);
        }
        let sum = branches[0].add(&branches[1]).unwrap();
        sum.register_hook(move |_| {
            assert_eq!(current(FIRST), main);
            Ok(None)
        })
        .unwrap();
        // Nothing that the backward pass enqueues has run when it returns: the next reader's stream waits for it.
        let caller = if caller_is_aside { stream(FIRST) } else { main };
        wait(caller, main);
        let given = with_stream(caller, || {
            run_and(&sum, true).unwrap();
            let given = grad_with(
                std::slice::from_ref(&sum),
                &[branches[0].clone(), x.clone()],
                GradOptions { grad_outputs: &[Some(ones(&sum))], ..GradOptions::default() },
            )
            .unwrap();
            let given: Vec<_> = given.into_iter().map(|given| values(&given.unwrap())).collect();
            (grad_of(&x), given)
        })
        .unwrap();
        assert_eq!(given, (vec![8.0, 8.0], vec![vec![1.0, 1.0], vec![8.0, 8.0]]));
        drop((x, branches, sum));
        cuda.driver.complete_all();
    }
    cuda.finish();
}

#[test]
fn memory_of_a_gradient_that_crossed_to_another_stream_is_not_given_out_before_that_is_done() {
    let cuda = cuda();
    let (main, aside) = (current(FIRST), stream(FIRST));
    let x = leaf_on(FIRST, &[1.0, 2.0]);
    let y = x.mul_scalar(1.0).unwrap();
    let ended: Arc<Mutex<Vec<usize>>> = Arc::default();
    let own = Arc::clone(&ended);
    // It lets go of the gradient that was made aside, while its own stream has work that has not run.
    let busy = ones(&x);
    y.register_hook(move |gradient| {
        assert_eq!(current(FIRST), main);
        own.lock().unwrap().push(gradient.storage().data_ptr().addr());
        Ok(Some(busy.deep_clone()?))
    })
    .unwrap();
    wait(aside, main);
    let z = with_stream(aside, || y.mul_scalar(5.0).unwrap()).unwrap();
    wait(main, aside);
    run(&z).unwrap();
    let ended = ended.lock().unwrap()[0];
    let is_given_out = || {
        with_stream(aside, || {
            let others: Vec<_> =
                (0..64).map(|_| Tensor::empty(&[2], (ScalarType::Float64, FIRST)).unwrap()).collect();
            others.iter().any(|other| other.storage().data_ptr().addr() == ended)
        })
        .unwrap()
    };
    assert!(!is_given_out());
    assert_eq!(grad_of(&x), [1.0, 1.0]);
    assert!(is_given_out());
    drop((x, y, z));
    cuda.finish();
}

#[test]
fn gradients_from_two_devices_add_up_where_they_meet() {
    let cuda = cuda();
    let x = leaf_on(FIRST, &[1.0, 2.0]);
    let aside = stream(SECOND);
    for round in 1..=3 {
        let far = x.to(SECOND).unwrap();
        wait(aside, current(SECOND));
        let far = with_stream(aside, || far.mul_scalar(10.0).unwrap()).unwrap();
        wait(current(SECOND), aside);
        far.storage().record_stream(current(SECOND)).unwrap();
        let near = x.mul_scalar(2.0).unwrap().add(&x).unwrap();
        let sum = far.to(FIRST).unwrap().add(&near).unwrap();
        run(&sum).unwrap();
        assert_eq!(grad_of(&x), [13.0 * f64::from(round); 2]);
        drop((far, near, sum));
        cuda.driver.complete_all();
    }
    drop(x);
    cuda.finish();
}

#[test]
fn errors_and_panics_of_a_worker_are_the_callers_and_the_worker_goes_on() {
    let cuda = cuda();
    let x = leaf_on(Device::CPU, &[1.0]);
    let of = |fault: fn() -> Result<Option<Tensor>>| {
        let y = x.to(FIRST).unwrap().mul_scalar(2.0).unwrap();
        y.register_hook(move |_| fault()).unwrap();
        y.to(Device::CPU).unwrap().mul_scalar(1.0).unwrap()
    };
    for _ in 0..3 {
        let error = run(&of(|| Err(Error::new(ErrorKind::OutOfMemory, "none is left")))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        let panic = catch_unwind(AssertUnwindSafe(|| run(&of(|| panic!("on a worker"))))).unwrap_err();
        assert_eq!(*panic.downcast::<&str>().unwrap(), "on a worker");
        assert!(x.grad().is_none() && is_grad_enabled());
    }
    run(&of(|| Ok(None))).unwrap();
    assert_eq!(grad_of(&x), [2.0]);
    drop(x);
    cuda.finish();
}

/// A result on one device whose gradient's hook runs another such graph on the next, and so on.
fn nested(levels: usize, devices: &'static [Device], reached: &Arc<AtomicUsize>, x: &Tensor) -> Tensor {
    let y = x.to(devices[levels % devices.len()]).unwrap().mul_scalar(1.0).unwrap();
    let (reached, x) = (Arc::clone(reached), x.clone());
    y.register_hook(move |_| {
        reached.fetch_add(1, Ordering::Relaxed);
        if levels > 1 {
            run(&enable_grad(|| nested(levels - 1, devices, &reached, &x)))?;
        }
        Ok(None)
    })
    .unwrap();
    y
}

#[test]
fn workers_make_backward_calls_themselves_to_any_depth_and_across_devices() {
    let cuda = cuda();
    const ONE: &[Device] = &[FIRST];
    const BOTH: &[Device] = &[FIRST, SECOND];
    const ALL: &[Device] = &[FIRST, Device::CPU, SECOND];
    for devices in [ONE, BOTH, ALL] {
        let x = leaf_on(Device::CPU, &[1.0]);
        let reached = Arc::new(AtomicUsize::new(0));
        run(&nested(150, devices, &reached, &x)).unwrap();
        assert_eq!((reached.load(Ordering::Relaxed), grad_of(&x)), (150, vec![150.0]));
    }
    cuda.finish();
}

#[test]
fn several_threads_share_the_workers() {
    let cuda = cuda();
    const THREADS: usize = 6;
    let x = leaf_on(Device::CPU, &[1.0, 1.0]);
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for at in 0..THREADS {
            let (x, barrier) = (&x, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..10 {
                    let device = [FIRST, SECOND][at % 2];
                    let y = x.to(device).unwrap().mul_scalar(at as f64).unwrap();
                    let z = y.mul(&y).unwrap().to(Device::CPU).unwrap();
                    run(&z).unwrap();
                }
            });
        }
    });
    // 2 at² each, ten times.
    assert_eq!(grad_of(&x), [2.0 * 55.0 * 10.0; 2]);
    drop(x);
    cuda.finish();
}

#[test]
fn workers_have_the_modes_and_the_callbacks_of_the_call() {
    let cuda = cuda();
    for create_graph in [false, true] {
        let x = leaf_on(FIRST, &[3.0]);
        let y = x.mul(&x).unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let own = Arc::clone(&log);
        let caller = thread::current().id();
        y.register_hook(move |_| {
            own.lock().unwrap().push(format!("grad {} anomaly {}", is_grad_enabled(), anomaly::is_enabled()));
            let own = Arc::clone(&own);
            queue_callback(move || {
                assert_eq!(thread::current().id(), caller);
                own.lock().unwrap().push("callback".to_owned());
                Ok(())
            })?;
            Ok(None)
        })
        .unwrap();
        let options = GradOptions { create_graph, grad_outputs: &[Some(ones(&y))], ..GradOptions::default() };
        let first = anomaly::detect_anomaly(false, || grad_with(&[y], std::slice::from_ref(&x), options))
            .unwrap()
            .remove(0);
        assert_eq!(
            *log.lock().unwrap(),
            [format!("grad {create_graph} anomaly true"), "callback".to_owned()]
        );
        let first = first.unwrap();
        assert_eq!((values(&first), first.requires_grad()), (vec![6.0], create_graph));
        if create_graph {
            run(&first).unwrap();
            assert_eq!(grad_of(&x), [2.0]);
        }
    }
    cuda.finish();
}

#[test]
fn a_gradient_is_refused_on_another_device_unless_it_is_a_number() {
    let cuda = cuda();
    let x = leaf_on(FIRST, &[1.0, 2.0]);
    let y = x.mul_scalar(2.0).unwrap();
    let gradients = [Some(Tensor::from_elements(&[1.0, 1.0]).unwrap())];
    let error =
        y.backward_with(BackwardOptions { gradients: &gradients, ..BackwardOptions::default() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    run(&y).unwrap();
    assert_eq!(grad_of(&x), [2.0, 2.0]);
    drop((x, y));
    cuda.finish();
}
