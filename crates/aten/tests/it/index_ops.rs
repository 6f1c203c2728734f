//! Operators by index: what is out of bounds is refused before anything is written.

use aten::{ErrorKind, Tensor};
use c10_core::ScalarType;
use proptest::prelude::*;

fn floats(elements: &[f32]) -> Tensor {
    Tensor::from_elements(elements).unwrap()
}

fn ints(elements: &[i64]) -> Tensor {
    Tensor::from_elements(elements).unwrap()
}

#[test]
fn indices_out_of_bounds_are_refused_before_any_write() {
    let x = floats(&[1.0, 2.0, 3.0]);
    let src = floats(&[7.0, 8.0]);
    for bad in [[0, -1], [0, 3], [i64::MIN, 0], [i64::MAX, 0]] {
        let index = ints(&bad);
        let kinds = [
            x.gather(0, &index).unwrap_err().kind(),
            x.scatter_src_(0, &index, &src).unwrap_err().kind(),
            x.scatter_add_(0, &index, &src).unwrap_err().kind(),
            x.scatter_reduce_two_(0, &index, &src, "amax").unwrap_err().kind(),
            x.index_select(0, &index).unwrap_err().kind(),
            x.index_add_(0, &index, &src).unwrap_err().kind(),
            x.index_copy_(0, &index, &src).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::Index; 7], "{bad:?}");
    }
    for bad in [[0, -4], [0, 3]] {
        let index = ints(&bad);
        let kinds = [
            x.take(&index).unwrap_err().kind(),
            x.put_(&index, &src).unwrap_err().kind(),
            x.index(&[Some(index.clone())]).unwrap_err().kind(),
            x.index_put_(&[Some(index.clone())], &src).unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::Index; 4], "{bad:?}");
    }
    assert_eq!((x.to_vec::<f32>().unwrap(), x.version()), (vec![1.0, 2.0, 3.0], 0));
}

#[test]
fn sources_that_alias_what_is_written_are_read_first() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0]);
    let tail = x.narrow(0, 1, 3).unwrap();
    x.index_copy_(0, &ints(&[0, 1, 2]), &tail).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0, 4.0]);
}

#[test]
fn nonadjacent_indices_go_first() {
    let x = Tensor::arange(24, ScalarType::Int64).unwrap().reshape(&[2, 3, 4]).unwrap();
    let (a, b) = (ints(&[0, 1, 1, 0, 1]), ints(&[3, 0, 1, 2, 2]));
    let apart = x.index(&[Some(a.clone()), None, Some(b.clone())]).unwrap();
    assert_eq!(apart.sizes(), [5, 3]);
    let together = x.index(&[None, Some(ints(&[2])), Some(b)]).unwrap();
    assert_eq!(together.sizes(), [2, 5]);
    assert_eq!(apart.to_vec::<i64>().unwrap()[..3], [3, 7, 11]);
}

#[test]
fn sorting_puts_nans_last_and_keeps_the_order_of_equals() {
    let x = floats(&[3.0, f32::NAN, -0.0, 0.0, f32::INFINITY, f32::NEG_INFINITY]);
    let (values, indices) = x.sort().unwrap();
    assert_eq!(indices.to_vec::<i64>().unwrap(), [5, 2, 3, 0, 4, 1]);
    assert!(values.to_vec::<f32>().unwrap()[5].is_nan());
    assert_eq!(x.topk(2).unwrap().1.to_vec::<i64>().unwrap(), [1, 4]);
}

#[test]
fn an_output_that_is_an_input_of_cat_is_refused() {
    let x = floats(&[1.0, 2.0]);
    let error = Tensor::cat_out(&[x.clone(), x.clone()], &x).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overlap);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

proptest! {
    /// `gather` of what `scatter` wrote at distinct places is what was written.
    #[test]
    fn gather_undoes_scatter(order in Just((0..7_i64).collect::<Vec<_>>()).prop_shuffle(), n in 0..7_usize) {
        let index = ints(&order[..n]);
        let src = Tensor::arange(n as i64, ScalarType::Int32).unwrap();
        let written = Tensor::zeros(&[7], ScalarType::Int32).unwrap().scatter_src(0, &index, &src).unwrap();
        let read = written.gather(0, &index).unwrap();
        prop_assert_eq!(read.to_vec::<i32>().unwrap(), src.to_vec::<i32>().unwrap());
    }

    /// `index_select` along either dimension of a strided tensor is element by element what it says.
    #[test]
    fn slices_by_index(at in proptest::collection::vec(0..5_i64, 0..6), turned: bool) {
        let x = Tensor::arange(25, ScalarType::Int64).unwrap().reshape(&[5, 5]).unwrap();
        let x = if turned { x.transpose(0, 1).unwrap() } else { x };
        let rows = x.index_select(0, &ints(&at)).unwrap().to_vec::<i64>().unwrap();
        let all = x.to_vec::<i64>().unwrap();
        let expected: Vec<i64> = at.iter().flat_map(|&i| all[i as usize * 5..][..5].to_vec()).collect();
        prop_assert_eq!(rows, expected);
    }

    /// Sorted values are a permutation, named by the indices, in order.
    #[test]
    fn sorted_is_in_order(elements in proptest::collection::vec(any::<i16>(), 0..40), descending: bool) {
        let x = Tensor::from_elements(&elements).unwrap();
        let options = aten::tensor::SortOptions { descending, ..Default::default() };
        let (values, indices) = x.sort_with(options).unwrap();
        let mut expected = elements.clone();
        expected.sort_unstable();
        if descending {
            expected.reverse();
        }
        prop_assert_eq!(values.to_vec::<i16>().unwrap(), expected.clone());
        prop_assert_eq!(x.gather(0, &indices).unwrap().to_vec::<i16>().unwrap(), expected);
    }
}
