//! Tensors of few elements that have ended and come again as results: nothing of what they were is left.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use aten::dispatch::local::InferenceModeGuard;
use aten::ops::handles;
use aten::{Result, Tensor};
use c10_core::reporting::{MemoryEvent, MemoryObserver, attach};
use c10_core::{Scalar, ScalarType};

/// Ends tensors that are new, written, viewed, known to a weak handle, or have what few tensors have.
fn end_all_kinds() -> Result<()> {
    let one = Tensor::ones(&[1], ScalarType::Float32)?;
    drop(one.add(&one)?);
    let written = one.add(&one)?;
    handles::ADD__TENSOR.call(&written, &one, 3.into())?;
    let view = written.view(&[1, 1])?;
    drop(written);
    drop(view);
    let resized = one.add(&one)?;
    handles::RESIZE_.call(&resized, &[3], None)?;
    drop(resized);
    let weak = one.add(&one)?.downgrade();
    assert!(weak.expired() && weak.upgrade().is_none());
    let with_data = one.add(&one)?;
    with_data.backend_data_or_init(|| Box::new(7_u8) as Box<dyn Any + Send + Sync>);
    drop(with_data);
    drop(Tensor::empty(&[1, 1, 2, 1, 1, 2, 1], ScalarType::Float64)?);
    let _guard = InferenceModeGuard::new(true);
    drop(one.add(&one)?);
    Ok(())
}

fn check_new(new: &Tensor, sizes: &[i64], dtype: ScalarType) {
    assert_eq!((&*new.sizes(), new.dtype(), new.version(), new.storage_offset()), (sizes, dtype, 0, 0));
    assert_eq!(new.numel() * dtype.element_size() as i64, new.storage().nbytes() as i64);
    assert_eq!((new.use_count(), new.storage().use_count()), (1, 2));
    assert!(new.is_contiguous() && new.is_non_overlapping_and_dense() && !new.is_wrapped_number());
    assert!(new.backend_data().is_none() && new.view_base().is_none() && new.made_by().is_none());
    assert!(!new.is_inference() && !new.is_followed());
}

#[test]
fn what_comes_again_is_new() -> Result<()> {
    for _ in 0..3 {
        end_all_kinds()?;
        for dtype in [ScalarType::Float32, ScalarType::Int64, ScalarType::Bool, ScalarType::Complex64] {
            for sizes in [&[][..], &[1], &[2, 3], &[1, 1, 2, 1, 3], &[2, 1, 1, 1, 1, 1, 2]] {
                let new = Tensor::empty(sizes, dtype)?;
                check_new(&new, sizes, dtype);
                let copy = new.add(&new)?;
                check_new(&copy, sizes, dtype);
                let transposed = Tensor::ones(&[2, 3], dtype)?.transpose(0, 1)?;
                assert_eq!(&*transposed.add(&transposed)?.strides(), &*transposed.strides());
            }
        }
    }
    Ok(())
}

#[test]
fn results_are_apart_and_right() -> Result<()> {
    let number = |n: i64| handles::FULL.call(&[1], Scalar::from(n), None, None, None, None);
    let live: Vec<_> = (0..3000).map(number).collect::<Result<_>>()?;
    for _ in 0..2 {
        let sums: Vec<_> = live.iter().map(|x| x.add(x)).collect::<Result<_>>()?;
        for (n, sum) in sums.iter().enumerate() {
            assert_eq!(sum.item()?.to::<i64>()?, 2 * n as i64);
        }
    }
    let elsewhere = thread::spawn(move || live[7].add(&live[8]));
    assert_eq!(elsewhere.join().unwrap()?.item()?.to::<i64>()?, 15);
    Ok(())
}

struct Recorder {
    thread: ThreadId,
    bytes: Mutex<Vec<i64>>,
}

impl MemoryObserver for Recorder {
    fn on_memory(&self, event: &MemoryEvent) {
        if thread::current().id() == self.thread {
            self.bytes.lock().unwrap().push(event.bytes);
        }
    }
}

#[test]
fn observers_hear_of_each_result_and_its_end() -> Result<()> {
    let one = Tensor::ones(&[16], ScalarType::Float32)?;
    drop(one.add(&one)?);
    let recorder = Arc::new(Recorder { thread: thread::current().id(), bytes: Mutex::default() });
    let attached = attach(recorder.clone());
    for _ in 0..3 {
        drop(one.add(&one)?);
    }
    let live = (one.add(&one)?, Tensor::empty(&[2], ScalarType::Bool)?);
    let view = live.0.view(&[4, 4])?;
    drop(live);
    drop(view);
    drop(attached);
    let expected: Vec<_> = [64, -64].repeat(3).into_iter().chain([64, 64, -64, -64]).collect();
    assert_eq!(*recorder.bytes.lock().unwrap(), expected);
    Ok(())
}
