//! Reductions: edges that broke others, and every layout against naive loops.

use aten::ops::handles::{
    _SOFTMAX, AMAX, ARGMAX, ARGMIN, CUMSUM, MAX_DIM, MEAN_DIM, SUM, SUM_DIM_INTLIST, VAR_CORRECTION,
};
use aten::{Dims, ErrorKind, Tensor, parallel};
use c10_core::{Scalar, ScalarType, f16};
use proptest::prelude::*;

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_elements(values).unwrap()
}

fn zeros(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_slice(&vec![0.0_f32; n as usize], sizes).unwrap()
}

#[test]
fn extrema_of_nothing() {
    for sizes in [[2, 0], [0, 4]] {
        let kept = if sizes[0] == 0 { 1 } else { 0 };
        let (values, indices) = MAX_DIM.call(&zeros(&sizes), kept, false).unwrap();
        assert_eq!(values.sizes(), [0]);
        assert_eq!((indices.sizes(), indices.dtype()), (Dims::from([0]), ScalarType::Int64));
        let index = ARGMAX.call(&zeros(&sizes), Some(kept), false).unwrap();
        assert_eq!((index.sizes(), index.dtype()), (Dims::from([0]), ScalarType::Int64));
    }
    for refused in [AMAX.call(&zeros(&[0, 3]), &[], false), ARGMAX.call(&zeros(&[2, 0]), Some(1), false)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Index);
    }
    assert!(MAX_DIM.call(&zeros(&[2, 0]), 1, false).is_err());
}

#[test]
fn the_first_nan_is_beyond_all_numbers() {
    let index = |x: &[f32]| {
        let x = floats(x);
        let of = |made: Tensor| made.to_vec::<i64>().unwrap()[0];
        (of(ARGMAX.call(&x, None, false).unwrap()), of(ARGMIN.call(&x, None, false).unwrap()))
    };
    assert_eq!(index(&[1.0, f32::NAN, 3.0]), (1, 1));
    assert_eq!(index(&[f32::NAN, f32::NAN]), (0, 0));
    let mut long = vec![0.0; 5000];
    (long[4000], long[4100], long[17]) = (f32::NAN, f32::NAN, 9.0);
    assert_eq!(index(&long), (4000, 4000));
    assert!(AMAX.call(&floats(&long), &[], false).unwrap().to_vec::<f32>().unwrap()[0].is_nan());
}

#[test]
fn indices_do_not_leak_across_chunks() {
    for rows in [32_767, 32_768, 36_000] {
        let indices = ARGMIN.call(&zeros(&[rows, 1]), Some(1), false).unwrap();
        assert!(indices.to_vec::<i64>().unwrap().iter().all(|&index| index == 0));
    }
    // Of equal elements the first counts, whatever chunk it is in.
    let equal = zeros(&[300_000]);
    assert_eq!(ARGMAX.call(&equal, None, false).unwrap().to_vec::<i64>().unwrap(), [0]);
}

#[test]
fn half_precision_accumulates_wider() {
    let halves = |values: &[f32]| {
        Tensor::from_elements(&values.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>()).unwrap()
    };
    let mean = |x: Tensor| MEAN_DIM.call(&x, None, false, None).unwrap().to_vec::<f16>().unwrap()[0].to_f32();
    assert_eq!(mean(halves(&vec![1.0; 100_000])), 1.0);
    assert_eq!(mean(halves(&vec![1.0; 65_520])), 1.0);
    assert_eq!(mean(halves(&[40_000.0; 3])), f16::from_f32(40_000.0).to_f32());
    let ends = [[32_000.0; 4], [-32_000.0; 4]].concat();
    let sum = SUM_DIM_INTLIST.call(&halves(&ends), Some(&[0]), false, None).unwrap();
    assert_eq!(sum.to_vec::<f16>().unwrap(), [f16::ZERO]);
}

#[test]
fn integers_sum_up_in_64_bits() {
    let ones = Tensor::from_elements(&[1_u8; 300]).unwrap();
    assert_eq!(SUM.call(&ones, None).unwrap().to_vec::<i64>().unwrap(), [300]);
    assert_eq!(SUM_DIM_INTLIST.call(&ones, Some(&[0]), false, None).unwrap().to_vec::<i64>().unwrap(), [300]);
    assert_eq!(CUMSUM.call(&ones, 0, None).unwrap().to_vec::<i64>().unwrap()[299], 300);
}

#[test]
fn variances_without_degrees_of_freedom() {
    let var = |x: &[f32], correction: i64| {
        let made = VAR_CORRECTION.call(&floats(x), None, Some(Scalar::from(correction)), false).unwrap();
        made.to_vec::<f32>().unwrap()[0]
    };
    assert_eq!(var(&[1.0, 2.0, 4.0], 3), f32::INFINITY);
    assert!(var(&[1.0], 1).is_nan());
    assert_eq!(var(&[1.0, 2.0, 3.0], 1), 1.0);
    // A great mean takes nothing away.
    assert_eq!(var(&[16_777_214.0, 16_777_215.0, 16_777_216.0], 1), 1.0);
}

#[test]
fn softmax_of_negative_infinities_is_nan_and_of_others_finite() {
    let low = f32::NEG_INFINITY;
    let x = Tensor::from_slice(&[low, low, 0.0, low], &[2, 2]).unwrap();
    let made = _SOFTMAX.call(&x, 1, false).unwrap().to_vec::<f32>().unwrap();
    assert!(made[0].is_nan() && made[1].is_nan());
    assert_eq!(made[2..], [1.0, 0.0]);
}

#[test]
fn long_sums_are_accurate() {
    let sum = SUM.call(&floats(&vec![0.1; 1_000_000]), None).unwrap().to_vec::<f32>().unwrap()[0];
    assert!((sum - 100_000.0).abs() < 0.1, "{sum}");
}

/// A tensor of integers in floats, whose dimensions are permuted, and those that are reduced.
fn permuted() -> impl Strategy<Value = (Tensor, Vec<i64>)> {
    prop::collection::vec(1..40_i64, 1..4).prop_flat_map(|sizes| {
        let rank = sizes.len();
        let order = Just((0..rank as i64).collect::<Vec<_>>()).prop_shuffle();
        (order, prop::collection::vec(any::<bool>(), rank)).prop_map(move |(order, reduced)| {
            let n: i64 = sizes.iter().product();
            let values: Vec<f32> = (0..n).map(|i| (i * 7919 % 101) as f32).collect();
            let x = Tensor::from_slice(&values, &sizes).unwrap().permute(&order).unwrap();
            (x, (0..rank as i64).filter(|&dim| reduced[dim as usize]).collect())
        })
    })
}

/// The elements of each output, in row-major order.
fn groups(x: &Tensor, dims: &[i64]) -> Vec<Vec<f32>> {
    let sizes = x.sizes();
    let is_reduced = |dim: usize| dims.is_empty() || dims.contains(&(dim as i64));
    let kept: i64 = (0..sizes.len()).filter(|&dim| !is_reduced(dim)).map(|dim| sizes[dim]).product();
    let mut groups = vec![vec![]; kept as usize];
    for (i, value) in x.to_vec::<f32>().unwrap().into_iter().enumerate() {
        let mut rest = i as i64;
        let (mut at, mut step) = (0, 1);
        for dim in (0..sizes.len()).rev() {
            if !is_reduced(dim) {
                at += rest % sizes[dim] * step;
                step *= sizes[dim];
            }
            rest /= sizes[dim];
        }
        groups[at as usize].push(value);
    }
    groups
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_dimensions_of_any_layout((x, dims) in permuted()) {
        let groups = groups(&x, &dims);
        let sums: Vec<f32> = groups.iter().map(|group| group.iter().sum()).collect();
        let made = SUM_DIM_INTLIST.call(&x, Some(&dims), false, None).unwrap();
        prop_assert_eq!(made.to_vec::<f32>().unwrap(), sums);
        let greatest: Vec<f32> = groups.iter().map(|group| group.iter().fold(0.0, |a: f32, &b| a.max(b))).collect();
        prop_assert_eq!(AMAX.call(&x, &dims, false).unwrap().to_vec::<f32>().unwrap(), greatest);
        if let [dim] = dims[..] {
            let first = |group: &Vec<f32>| {
                let greatest = group.iter().fold(0.0, |a: f32, &b| a.max(b));
                group.iter().position(|&x| x == greatest).unwrap() as i64
            };
            let indices: Vec<i64> = groups.iter().map(first).collect();
            prop_assert_eq!(ARGMAX.call(&x, Some(dim), false).unwrap().to_vec::<i64>().unwrap(), indices);
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let n = 700_000;
    let x = Tensor::from_elements(&(0..n).map(|i| (i as f32).sin()).collect::<Vec<_>>()).unwrap();
    let wide = x.reshape(&[700, 1000]).unwrap();
    let all = || {
        let rows = SUM_DIM_INTLIST.call(&wide, Some(&[1]), false, None).unwrap().to_vec::<f32>().unwrap();
        let columns = SUM_DIM_INTLIST.call(&wide, Some(&[0]), false, None).unwrap().to_vec::<f32>().unwrap();
        let total = SUM.call(&x, None).unwrap().to_vec::<f32>().unwrap();
        (rows, columns, total)
    };
    parallel::set_num_threads(1);
    let expected = all();
    for threads in [2, 5] {
        parallel::set_num_threads(threads);
        assert_eq!(all(), expected);
    }
    parallel::set_num_threads(0);
}

/// Offsets beyond 2^31 elements are computed in 64 bits. (Row 119 of the tensor cases.) The memory between the two
/// rows is never touched.
#[test]
fn rows_that_lie_two_to_the_31_apart_are_told_apart() {
    const APART: i64 = (1 << 31) + 64;
    let memory = Tensor::empty(&[APART + 2], ScalarType::UInt8).unwrap();
    let x = memory.as_strided(&[2, 2], &[APART, 1]).unwrap();
    x.i((0, 0)).unwrap().fill_scalar_(9).unwrap();
    x.i((0, 1)).unwrap().fill_scalar_(1).unwrap();
    x.i((1, 0)).unwrap().fill_scalar_(2).unwrap();
    x.i((1, 1)).unwrap().fill_scalar_(7).unwrap();
    assert_eq!(ARGMAX.call(&x, Some(0), false).unwrap().to_vec::<i64>().unwrap(), [0, 1]);
    assert_eq!(SUM_DIM_INTLIST.call(&x, Some(&[0]), false, None).unwrap().to_vec::<i64>().unwrap(), [11, 8]);
    assert_eq!(x.contiguous().unwrap().to_vec::<u8>().unwrap(), [9, 1, 2, 7]);
    let second = x.index_select(0, &Tensor::from_elements(&[1_i64]).unwrap()).unwrap();
    assert_eq!(second.to_vec::<u8>().unwrap(), [2, 7]);
}
