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
