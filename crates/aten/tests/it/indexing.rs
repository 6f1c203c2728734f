//! Indexing as in Python. What is expected was looked up in PyTorch.

use aten::indexing::{All, IndexItem, NewAxis, Slice, step};
use aten::{ErrorKind, Tensor};
use proptest::prelude::*;

fn numbered(sizes: &[i64]) -> Tensor {
    let count: i64 = sizes.iter().product();
    Tensor::from_slice(&(0..count).collect::<Vec<i64>>(), sizes).unwrap()
}

fn ints(x: &Tensor) -> Vec<i64> {
    x.to_vec::<i64>().unwrap()
}

#[test]
fn views_by_index() {
    let x = numbered(&[2, 3, 4]);
    let cases = [
        (x.i(1).unwrap(), vec![3, 4], vec![4, 1], 12),
        (x.i((-1, .., 2)).unwrap(), vec![3], vec![4], 14),
        (x.i((.., 1..3)).unwrap(), vec![2, 3, 2], vec![12, 4, 1], 1),
        (x.i((All, -2.., NewAxis, step(.., 2))).unwrap(), vec![2, 2, 1, 2], vec![12, 4, 4, 2], 4),
        (x.i((NewAxis, ..)).unwrap(), vec![1, 2, 3, 4], vec![24, 12, 4, 1], 0),
        (x.i((.., NewAxis)).unwrap(), vec![2, 3, 4, 1], vec![12, 4, 1, 1], 0),
        (x.i((0..=0, ..=1, Slice::new(1, None))).unwrap(), vec![1, 2, 3], vec![12, 4, 1], 1),
        (x.i(()).unwrap(), vec![2, 3, 4], vec![12, 4, 1], 0),
        (x.i(..).unwrap(), vec![2, 3, 4], vec![12, 4, 1], 0),
        (x.i((0, 5..9)).unwrap(), vec![0, 4], vec![4, 1], 12),
        (x.i(Tensor::from_slice(&[1_i64], &[]).unwrap()).unwrap(), vec![3, 4], vec![4, 1], 12),
    ];
    for (at, (view, sizes, strides, offset)) in cases.into_iter().enumerate() {
        assert_eq!((view.sizes(), view.strides()), (sizes.into(), strides.into()), "{at}");
        assert_eq!(view.storage_offset(), offset, "{at}");
        assert!(view.is_alias_of(&x));
    }
}

#[test]
fn places_that_are_not_there_are_refused() {
    let x = numbered(&[2, 3]);
    let errors = [
        x.i(2),
        x.i((0, -4)),
        x.i((0, 0, 0)),
        x.i((.., 0, ..)),
        x.i(usize::MAX),
        numbered(&[]).i(0),
        numbered(&[]).i(0..1),
    ];
    let texts: Vec<String> = errors
        .map(|result| {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Index);
            error.to_string()
        })
        .to_vec();
    insta::assert_snapshot!(texts.join("\n"));
    assert_eq!(x.i(step(.., 0)).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn assigning_writes_what_is_meant() {
    let x = numbered(&[2, 3]);
    x.i_fill_((1, 1..), 9).unwrap().i_put_((.., 0), &numbered(&[2])).unwrap();
    assert_eq!(ints(&x), [0, 1, 2, 1, 9, 9]);
    // A value may have leading dimensions of size 1, and is converted.
    x.i_put_(0, &Tensor::from_slice(&[7.9_f32], &[1, 1, 1]).unwrap()).unwrap();
    assert_eq!(ints(&x), [7, 7, 7, 1, 9, 9]);
    assert_eq!(x.i_put_(0, &numbered(&[2])).unwrap_err().kind(), ErrorKind::Shape);
    let bytes = Tensor::from_slice(&[1_u8, 2], &[2]).unwrap();
    assert_eq!(bytes.i_fill_(0, 300).unwrap_err().kind(), ErrorKind::Overflow);
    assert_eq!(bytes.to_vec::<u8>().unwrap(), [1, 2]);
}

fn index(places: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(places, sizes).unwrap()
}

fn mask(values: &[bool], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap()
}

#[test]
fn tensors_select_places() {
    let x = numbered(&[2, 3, 4]);
    let rows = &index(&[1, 0, 1], &[3]);
    let (first, second) = (&index(&[0, 1], &[2]), &index(&[2, 0], &[2]));
    let outer = &mask(&[true, false, true], &[3]);
    let above = &mask(&(0..24).map(|i| i > 15).collect::<Vec<_>>(), &[2, 3, 4]);
    let corners = &mask(&[true, false, false, false, true, true], &[2, 3]);
    let cases: [(Tensor, &[i64], &[i64]); 11] = [
        (x.i(above).unwrap(), &[8], &[16, 17, 18, 19, 20, 21, 22, 23]),
        (x.i((1, outer)).unwrap(), &[2, 4], &[12, 13, 14, 15, 20, 21, 22, 23]),
        (x.i((0, rows)).unwrap(), &[3, 4], &[4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]),
        (x.i((0, 1.., &index(&[0, -1, 2, 1], &[2, 2]))).unwrap(), &[2, 2, 2], &[4, 7, 6, 5, 8, 11, 10, 9]),
        (x.i((first, second)).unwrap(), &[2, 4], &[8, 9, 10, 11, 12, 13, 14, 15]),
        (x.i((first, All, second)).unwrap(), &[2, 3], &[2, 6, 10, 12, 16, 20]),
        (x.i((first, 1)).unwrap(), &[2, 4], &[4, 5, 6, 7, 16, 17, 18, 19]),
        (x.i((corners, 1..3)).unwrap(), &[3, 2], &[1, 2, 17, 18, 21, 22]),
        (x.i((true, 0, 1)).unwrap(), &[1, 4], &[4, 5, 6, 7]),
        (x.i(false).unwrap(), &[0, 2, 3, 4], &[]),
        (x.i((.., 0, NewAxis, rows)).unwrap(), &[2, 1, 3], &[1, 0, 1, 13, 12, 13]),
    ];
    for (at, (result, sizes, expected)) in cases.into_iter().enumerate() {
        assert_eq!((&result.sizes()[..], &ints(&result)[..]), (sizes, expected), "{at}");
        assert!(!result.is_alias_of(&x));
    }
    assert_eq!(x.i((0, &index(&[3], &[1]))).unwrap_err().kind(), ErrorKind::Index);
    assert_eq!(x.i((corners, 0, 0)).unwrap_err().kind(), ErrorKind::Index);
}

#[test]
fn assigning_through_tensors() {
    let fresh = || numbered(&[2, 4]);
    let x = fresh();
    x.i_fill_(mask(&[true, false, false, false, false, false, true, true], &[2, 4]), -1).unwrap();
    assert_eq!(ints(&x), [-1, 1, 2, 3, 4, 5, -1, -1]);
    let x = fresh();
    x.i_put_((.., &index(&[0, 3], &[2])), &index(&[100, 101], &[2, 1])).unwrap();
    assert_eq!(ints(&x), [100, 1, 2, 100, 101, 5, 6, 101]);
    let x = fresh();
    x.i_fill_((true, 0), 5).unwrap().i_put_((1, &index(&[-1, 0], &[2])), &index(&[8, 9], &[1, 2])).unwrap();
    assert_eq!(ints(&x), [5, 5, 5, 5, 9, 5, 6, 8]);
    assert!(x.i_put_(index(&[0, 2], &[2]), &index(&[1], &[])).is_err());
    assert_eq!(ints(&x), [5, 5, 5, 5, 9, 5, 6, 8]);
}

proptest! {
    /// A list of items is the steps one after another.
    #[test]
    fn items_are_views_in_turn(
        items in prop::collection::vec((0..3_u8, -3..3_i64, -4..5_i64, 1..3_i64), 0..4),
    ) {
        let x = numbered(&[3, 3, 3]);
        let mut list = Vec::new();
        let (mut expected, mut dim, mut left) = (x.clone(), 0, 3);
        for (kind, start, end, by) in items {
            if left == 0 && kind != 2 {
                continue;
            }
            list.push(match kind {
                0 => {
                    expected = expected.select(dim, start).unwrap();
                    left -= 1;
                    IndexItem::from(start)
                }
                1 => {
                    expected = expected
                        .slice_with(aten::tensor::SliceOptions { dim, start: Some(start), end: Some(end), step: by })
                        .unwrap();
                    dim += 1;
                    left -= 1;
                    step(start..end, by).into()
                }
                _ => {
                    expected = expected.unsqueeze(dim).unwrap();
                    dim += 1;
                    NewAxis.into()
                }
            });
        }
        let view = x.i(&list[..]).unwrap();
        prop_assert!(view.is_set_to(&expected));
    }
}
