//! The walk against index-by-index loops, and what must be refused.

use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;

use super::loops;
use super::{Config, Input, TensorIter};
use crate::ops::Dest;
use crate::parallel;
use crate::tensor::{Dims, Tensor};
use crate::{ErrorKind, Result};

fn add(dest: Dest<'_>, a: &Tensor, b: &Tensor) -> Result<Option<Tensor>> {
    let iter = TensorIter::binary(dest, a, b, Config::PROMOTE)?;
    loops::binary(&iter, |a: f32, b: f32| a + b)?;
    let made = iter.finish()?;
    Ok(matches!(dest, Dest::New).then(|| made.new_tensor()))
}

fn arange(n: i64) -> Tensor {
    Tensor::from_elements(&(0..n).map(|i| i as f32).collect::<Vec<_>>()).unwrap()
}

/// How an operand of a common shape lies in memory.
#[derive(Clone, Debug)]
struct Layout {
    sizes: Vec<i64>,
    strides: Vec<i64>,
    offset: i64,
    elements: i64,
}

impl Layout {
    fn tensor(&self, scale: f32) -> Tensor {
        let base =
            Tensor::from_elements(&(0..self.elements).map(|i| i as f32 * scale).collect::<Vec<_>>()).unwrap();
        base.view_of(Dims::from(&self.sizes[..]), Dims::from(&self.strides[..]), self.offset).unwrap()
    }

    /// The value at an index of the common shape, without the library.
    fn at(&self, index: &[i64], scale: f32) -> f32 {
        let lead = index.len() - self.sizes.len();
        let dims = self.sizes.iter().zip(&self.strides).enumerate();
        let place: i64 =
            dims.map(|(d, (&size, &stride))| if size == 1 { 0 } else { index[lead + d] * stride }).sum();
        (self.offset + place) as f32 * scale
    }
}

/// A permuted, stepped, partly expanded operand; `may_broadcast` lets dimensions be 1, missing or of stride 0.
fn layout(sizes: Vec<i64>, may_broadcast: bool) -> impl Strategy<Value = Layout> {
    let rank = sizes.len();
    let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
    let steps = prop::collection::vec(1..3_i64, rank);
    let kinds = prop::collection::vec(0..6_u8, rank);
    (order, steps, kinds, 0..3_i64, 0..=rank).prop_map(move |(order, steps, kinds, offset, drop)| {
        let mut own = sizes.clone();
        let mut strides = vec![0; rank];
        let mut next = 1;
        for &dim in &order {
            match (may_broadcast, kinds[dim]) {
                (true, 0) => own[dim] = 1,
                (true, 1) => continue,
                _ => {}
            }
            strides[dim] = next * steps[dim];
            next = strides[dim] * own[dim].max(1);
        }
        let drop = if may_broadcast && kinds.iter().all(|&kind| kind < 3) { drop } else { 0 };
        Layout {
            sizes: own[drop..].to_vec(),
            strides: strides[drop..].to_vec(),
            offset,
            elements: next + offset + 1,
        }
    })
}

fn operands() -> impl Strategy<Value = (Vec<i64>, Layout, Layout, Layout)> {
    prop::collection::vec(0..5_i64, 0..5).prop_flat_map(|sizes| {
        let (a, b, out) =
            (layout(sizes.clone(), true), layout(sizes.clone(), true), layout(sizes.clone(), false));
        (Just(sizes), a, b, out)
    })
}

fn indices(sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        all = all.into_iter().flat_map(|i| (0..size).map(move |k| [&i[..], &[k]].concat())).collect();
    }
    all
}

proptest! {
    #[test]
    fn a_walk_pairs_what_indices_pair((sizes, a, b, out) in operands()) {
        let (ta, tb) = (a.tensor(1.0), b.tensor(100.0));
        let shape = crate::shape::broadcast(&ta.sizes(), &tb.sizes()).unwrap();
        let expected: Vec<f32> =
            indices(&shape).iter().map(|i| a.at(i, 1.0) + b.at(i, 100.0)).collect();
        let sum = add(Dest::New, &ta, &tb).unwrap().unwrap();
        prop_assert_eq!(&*sum.sizes(), &*shape);
        prop_assert_eq!(sum.to_vec::<f32>().unwrap(), expected.clone());
        let given = out.tensor(0.0);
        if *shape == *sizes {
            add(Dest::Out(&given), &ta, &tb).unwrap();
            prop_assert_eq!(given.strides(), &out.strides[..]);
            prop_assert_eq!(given.to_vec::<f32>().unwrap(), expected);
        }
    }
}

/// Above the grain, with dimensions that do not merge and pieces that end inside rows.
#[test]
fn the_number_of_threads_changes_nothing() {
    let (rows, columns) = (411, 517);
    let a = arange(rows * columns * 2).view_of([rows, columns].into(), [columns * 2, 2].into(), 1).unwrap();
    let b = arange(rows * columns).view_of([rows, columns].into(), [1, rows].into(), 0).unwrap();
    let sum = || add(Dest::New, &a, &b).unwrap().unwrap().to_vec::<f32>().unwrap();
    let expected: Vec<f32> = (0..rows * columns)
        .map(|i| {
            let (row, column) = (i / columns, i % columns);
            (1 + row * columns * 2 + column * 2) as f32 + (row + column * rows) as f32
        })
        .collect();
    for threads in [1, 2, 3, 7] {
        parallel::set_num_threads(threads);
        assert_eq!(sum(), expected);
    }
    parallel::set_num_threads(0);
}

fn assert_overlap(result: Result<Option<Tensor>>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Overlap);
}

#[test]
fn writes_that_overlap_are_refused() {
    let base = arange(3);
    // An expanded tensor, in place and as output.
    let expanded = base.view_of([3].into(), [0].into(), 0).unwrap();
    assert_overlap(add(Dest::InPlace(&expanded), &expanded, &base));
    assert_overlap(add(Dest::Out(&expanded), &base, &base));
    // A part that moves by one.
    let (low, high) =
        (base.view_of([2].into(), [1].into(), 0).unwrap(), base.view_of([2].into(), [1].into(), 1).unwrap());
    assert_overlap(add(Dest::InPlace(&low), &low, &high));
    // The same elements in another order.
    let square = arange(4).view_of([2, 2].into(), [2, 1].into(), 0).unwrap();
    let transposed = square.view_of([2, 2].into(), [1, 2].into(), 0).unwrap();
    assert_overlap(add(Dest::InPlace(&square), &square, &transposed));
    assert_eq!(square.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    // A stride of 0 in a dimension of size 1 repeats nothing.
    let thin = arange(6).view_of([2, 1, 3].into(), [3, 0, 1].into(), 0).unwrap();
    add(Dest::InPlace(&thin), &thin, &thin).unwrap();
    assert_eq!(thin.to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    // Another view of the very same elements is no overlap.
    let again = square.view_of([2, 2].into(), [2, 1].into(), 0).unwrap();
    add(Dest::InPlace(&square), &square, &again).unwrap();
    assert_eq!(square.to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0, 6.0]);
}

#[test]
fn overlaps_that_are_hard_to_tell_are_walked_by_one_thread() {
    let n = 100_000;
    let base = arange(n + 1);
    // Rows that share all but one element: PyTorch lets it through.
    let rows = base.view_of([2, n].into(), [1, 1].into(), 0).unwrap();
    let ones = Tensor::from_elements(&vec![1.0_f32; n as usize]).unwrap();
    add(Dest::InPlace(&rows), &rows, &ones).unwrap();
    let sums = base.to_vec::<f32>().unwrap();
    assert_eq!((sums[0], sums[1], sums[n as usize]), (1.0, 3.0, n as f32 + 1.0));
}

#[test]
fn an_output_is_resized_but_not_over_the_elements_of_others() {
    let (a, b) = (arange(6), arange(6));
    let empty = Tensor::from_elements::<f32>(&[]).unwrap();
    add(Dest::Out(&empty), &a, &b).unwrap();
    assert_eq!(empty.to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    add(Dest::Out(&empty), &arange(2), &arange(2)).unwrap();
    assert_eq!(empty.sizes(), [2]);
    add(Dest::Out(&empty), &a, &b).unwrap();
    assert_eq!(empty.sizes(), [6]);

    let buffer = Tensor::from_elements(&[0.0_f32; 6]).unwrap();
    let part = buffer.view_of([2].into(), [1].into(), 0).unwrap();
    let error = add(Dest::Out(&part), &a, &b).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert_eq!(part.sizes(), [2]);
    assert_eq!(buffer.to_vec::<f32>().unwrap(), [0.0; 6]);
}

#[test]
fn a_thread_that_holds_access_does_not_wait() {
    let a = arange(3);
    let storage = a.storage();
    let guard = storage.read().unwrap();
    // Reading beside a reader is no wait.
    add(Dest::New, &a, &a).unwrap();
    assert_eq!(add(Dest::InPlace(&a), &a, &a).unwrap_err().kind(), ErrorKind::Busy);
    drop(guard);
    let guard = storage.write().unwrap();
    assert_eq!(add(Dest::New, &a, &a).unwrap_err().kind(), ErrorKind::Busy);
    drop(guard);
    add(Dest::InPlace(&a), &a, &a).unwrap();
    assert_eq!(a.to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0]);
}

#[test]
fn no_update_of_several_threads_is_lost() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 200;
    for n in [10, 70_000] {
        let rounds = if n > 1000 { 10 } else { ROUNDS };
        let sum = Tensor::from_elements(&vec![0.0_f32; n]).unwrap();
        let ones = Tensor::from_elements(&vec![1.0_f32; n]).unwrap();
        let start = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..rounds {
                        add(Dest::InPlace(&sum), &sum, &ones).unwrap();
                    }
                });
            }
        });
        assert_eq!(sum.to_vec::<f32>().unwrap(), vec![(THREADS * rounds) as f32; n]);
    }
}

/// Whatever another thread does to the sizes, a walk reads within the storage or is refused.
#[test]
fn resizing_beside_a_walk_is_refused_or_done_before_or_after() {
    let a = arange(1000);
    let storage = a.storage();
    let b = arange(1000);
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for round in 0..300 {
                let n = [1000, 10, 500][round % 3];
                a.resize_geometry([n].into(), [1].into()).unwrap();
                storage.resize(n as usize * 4).unwrap();
            }
        });
        scope.spawn(|| {
            start.wait();
            for _ in 0..300 {
                match add(Dest::New, &a, &b) {
                    Ok(sum) => assert_eq!(sum.unwrap().sizes(), [1000]),
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Shape | ErrorKind::Busy), "{error}")
                    }
                }
            }
        });
    });
}

#[test]
fn numbers_and_tensors_without_dimensions() {
    let a = arange(3);
    let iter =
        TensorIter::new(&[Dest::New], &[Input::Tensor(&a), Input::Number(2.5.into())], Config::PROMOTE)
            .unwrap();
    loops::binary(&iter, |a: f32, b: f32| a * b).unwrap();
    assert_eq!(iter.finish().unwrap().new_tensor().to_vec::<f32>().unwrap(), [0.0, 2.5, 5.0]);
    let zero_dim = a.view_of(Dims::new(), Dims::new(), 2).unwrap();
    assert_eq!(add(Dest::New, &zero_dim, &a).unwrap().unwrap().to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0]);
    assert_eq!(add(Dest::New, &zero_dim, &zero_dim).unwrap().unwrap().sizes(), [0_i64; 0]);
}

/// Kernels that take slices see the bytes, which of a conjugated or negated tensor are not its elements.
#[test]
fn slices_of_tensors_with_bits_are_refused() {
    use crate::tensor::{Fresh, access};
    let numbers = [c10_core::Complex::new(1.0_f32, 2.0)];
    let x = Tensor::from_elements(&numbers).unwrap();
    for with_bit in [x.conj().unwrap(), x._neg_view().unwrap()] {
        let refused = access([&with_bit], [], Fresh::No, |_, []| Ok(())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
}
