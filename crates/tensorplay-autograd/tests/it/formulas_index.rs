//! Derivatives of what reads, writes and orders elements by index, and of joins.

use aten::ops::handles;
use aten::{Result, Tensor};
use c10_core::Scalar;
use tensorplay_autograd::TensorAutograd;

use crate::numeric::{check, check_first, check_one, numbers, places};

type Two = fn(&Tensor, &Tensor) -> Result<Tensor>;

#[test]
fn joins_give_each_its_part() {
    let two = [numbers(&[2, 3], 1), numbers(&[2, 3], 2)];
    let joins: [(&str, Two); 4] = [
        ("cat", |x, y| handles::CAT.call(&[x.clone(), y.clone(), x.clone()], -1)),
        ("cat of nothing too", |x, y| {
            let none = Tensor::zeros(&[0], x.dtype())?;
            handles::CAT.call(&[x.clone(), none, y.clone()], 0)
        }),
        ("stack", |x, y| handles::STACK.call(&[x.clone(), y.clone()], -2)),
        ("block_diag", |x, y| {
            let parts = [x.clone(), y.select(0, 1)?, y.select(0, 0)?.select(0, 0)?];
            handles::BLOCK_DIAG.call(&parts)
        }),
    ];
    for (name, f) in joins {
        check_one(name, &two, |x| f(&x[0], &x[1]));
    }
}

#[test]
fn grids_of_lines_sum_along_what_was_repeated() {
    let two = [numbers(&[3], 32), numbers(&[2], 33)];
    for (indexing, sizes) in [("ij", [3, 2]), ("xy", [2, 3])] {
        check(indexing, &two, |x| {
            let grids = handles::MESHGRID_INDEXING.call(&[x[0].clone(), x[1].clone()], indexing)?;
            assert_eq!(grids[0].sizes()[..], sizes);
            Ok(grids)
        });
    }
    let weights = [numbers(&[2, 3], 34), numbers(&[3], 35).abs().unwrap()];
    check_first("weighted covariances", &weights, |x| {
        Ok(vec![
            handles::COV.call(&x[0], 0, None, Some(&x[1]))?,
            handles::COV.call(&x[0], 1, None, Some(&x[1]))?,
        ])
    });
}

#[test]
fn reordered_elements_go_back() {
    let x = [numbers(&[3, 4], 3)];
    check_one("repeat", &x, |x| x[0].repeat(&[2, 1, 3]));
    check_one("repeat of a number", &[numbers(&[], 4)], |x| x[0].repeat(&[2, 2]));
    check_one("repeat none", &x, |x| x[0].repeat(&[0, 2]));
    check_one("flip", &x, |x| x[0].flip(&[-1, 0]));
    check_one("roll", &x, |x| handles::ROLL.call(&x[0], &[1, -2], &[0, 1]));
    check_one("roll of all", &x, |x| x[0].roll(&[5]));
    check_one("rot90", &x, |x| handles::ROT90.call(&x[0], 3, &[1, 0]));
    check_one("tril", &x, |x| handles::TRIL.call(&x[0], -1));
    check_one("triu_", &x, |x| {
        let y = (&x[0] * &x[0])?;
        y.triu_()?;
        Ok(y)
    });
    check_one("diag_embed", &x, |x| handles::DIAG_EMBED.call(&x[0], 1, 0, -1));
    check_one("pixel_shuffle", &[numbers(&[1, 4, 2, 3], 5)], |x| x[0].pixel_shuffle(2));
    check_one("pixel_unshuffle", &[numbers(&[1, 1, 2, 4], 6)], |x| x[0].pixel_unshuffle(2));
    check_one("channel_shuffle", &[numbers(&[1, 6, 2], 7)], |x| x[0].channel_shuffle(2));
}

#[test]
fn what_was_read_by_index_gets_its_gradient() {
    let x = [numbers(&[3, 4], 8)];
    let index = places(&[2, 0, 2, 2], &[2, 2]);
    check_one("gather", &x, |x| {
        let read = x[0].gather(1, &index)?;
        &read * &read
    });
    check_one("index with duplicates", &x, |x| x[0].index(&[None, Some(index.clone())]));
    check_one("index with a mask", &x, |x| {
        let mask = x[0].detach()?.gt_scalar(0)?;
        x[0].index(&[Some(mask)])
    });
    let line = places(&[1, 1, 0], &[3]);
    check_one("index_select", &x, |x| x[0].index_select(-1, &line));
    check_one("index_select of a number", &[numbers(&[], 9)], |x| x[0].index_select(0, &places(&[0], &[1])));
    check_one("take", &x, |x| x[0].take(&places(&[-1, 3, 3], &[3])));
    check_one("masked_select that broadcasts", &[numbers(&[4], 10)], |x| {
        let mask = numbers(&[3, 4], 8).gt_scalar(0)?;
        x[0].masked_select(&mask)
    });
    check_one("embedding", &x, |x| handles::EMBEDDING.call(&x[0], &index, -1, false, false));
    let bags = places(&[0, 2], &[2]);
    check_first("embedding_bag", &[numbers(&[3, 2], 11), numbers(&[4], 12)], |x| {
        let flat = index.reshape(&[-1])?;
        let (sum, ..) =
            handles::_EMBEDDING_BAG.call(&x[0], &flat, &bags, false, 0, false, Some(&x[1]), false, -1)?;
        Ok(vec![sum])
    });
}

#[test]
fn what_was_written_by_index_gets_its_gradient() {
    let two = [numbers(&[3, 4], 13), numbers(&[2, 4], 14)];
    let rows = places(&[2, 0], &[2]);
    let twice = places(&[1, 1], &[2]);
    let index = places(&[2, 0, 1, 1, 0, 0, 1, 2], &[2, 4]);
    check_one("index_put", &two, |x| x[0].index_put(&[Some(rows.clone())], &x[1]));
    check_one("index_put that accumulates duplicates", &two, |x| {
        let put = handles::INDEX_PUT.call(&x[0], &[Some(twice.clone())], &x[1], true)?;
        &put * &put
    });
    check_one("index_put_ of a value that broadcasts", &[numbers(&[3, 4], 15), numbers(&[], 16)], |x| {
        let y = (&x[0] * &x[0])?;
        handles::INDEX_PUT_.call(&y, &[Some(twice.clone())], &x[1], true)?;
        Ok(y)
    });
    check_one("_index_put_impl_", &two, |x| {
        let y = x[0].mul_scalar(1)?;
        handles::_INDEX_PUT_IMPL_.call(&y, &[Some(rows.clone())], &x[1], false, false)?;
        Ok(y)
    });
    check_one("index_add", &two, |x| handles::INDEX_ADD.call(&x[0], 0, &twice, &x[1], Scalar::Double(2.5)));
    check_one("index_add of a number", &[numbers(&[3], 17), numbers(&[], 18)], |x| {
        x[0].index_add(0, &places(&[2], &[1]), &x[1])
    });
    check_one("index_copy", &two, |x| x[0].index_copy(0, &rows, &x[1]));
    check_one("index_fill", &two, |x| x[0].index_fill_int_scalar(0, &twice, 3.0));
    check_one("index_fill of a tensor", &[numbers(&[3, 4], 19), numbers(&[], 20)], |x| {
        x[0].index_fill_int_tensor(0, &twice, &x[1])
    });
    check_one("put", &two, |x| x[0].put(&places(&[0, 2, 4, 6, 8, 10, 1, 3], &[8]), &x[1]));
    check_one("put that accumulates", &two, |x| {
        handles::PUT.call(&x[0], &places(&[0, 0, 4, 4, 8, 8, 1, 1], &[2, 4]), &x[1], true)
    });
    let once = places(&[2, 0, 1, 1, 0, 1, 2, 2], &[2, 4]);
    check_one("scatter", &two, |x| x[0].scatter_src(0, &once, &x[1]));
    check_one("scatter of a number", &two, |x| x[0].scatter_value(0, &index, 2));
    check_one("scatter_add_", &two, |x| {
        let y = (&x[0] * &x[0])?;
        y.scatter_add_(0, &index, &x[1])?;
        Ok(y)
    });
    let mask = numbers(&[3, 4], 21).gt_scalar(0).unwrap();
    check_one("masked_fill", &two, |x| x[0].masked_fill_scalar(&mask, 2));
    check_one("masked_fill of a tensor", &[numbers(&[3, 4], 22), numbers(&[], 23)], |x| {
        x[0].masked_fill_tensor(&mask, &x[1])
    });
    check_one("masked_scatter", &[numbers(&[3, 4], 24), numbers(&[13], 25)], |x| {
        x[0].masked_scatter(&mask, &x[1])
    });
}

#[test]
fn reductions_by_index_have_gradients_for_both() {
    let two = [numbers(&[3, 4], 26), numbers(&[3, 4], 27)];
    let index = places(&[2, 0, 1, 1, 0, 0, 1, 2, 2, 0, 2, 1], &[3, 4]);
    let rows = places(&[0, 2, 0], &[3]);
    for include_self in [true, false] {
        for reduce in ["sum", "prod", "mean", "amax", "amin"] {
            check_one(&format!("scatter_reduce {reduce} {include_self}"), &two, |x| {
                handles::SCATTER_REDUCE_TWO.call(&x[0], 0, &index, &x[1], reduce, include_self)
            });
            if reduce != "sum" {
                check_one(&format!("index_reduce {reduce} {include_self}"), &two, |x| {
                    handles::INDEX_REDUCE.call(&x[0], 0, &rows, &x[1], reduce, include_self)
                });
            }
        }
    }
    // A zero's gradient is the product of the others, if it is alone.
    let zeros = [places(&[2, 0, 3], &[3]), places(&[0, 5, 0, 0], &[4])];
    let zeros = zeros.map(|x| x.to(c10_core::ScalarType::Float64).unwrap());
    let index = places(&[0, 0, 1, 2], &[4]);
    check_first("scatter_reduce of zeros", &zeros, |x| {
        Ok(vec![handles::SCATTER_REDUCE_TWO.call(&x[0], 0, &index, &x[1], "prod", true)?])
    });
}

#[test]
fn ordered_elements_go_back() {
    let x = [numbers(&[3, 4], 28)];
    check("sort", &x, |x| Ok(vec![handles::SORT.call(&x[0], -1, true)?.0]));
    check("topk", &x, |x| Ok(vec![handles::TOPK.call(&x[0], 2, 0, true, true)?.0]));
    check("kthvalue", &x, |x| Ok(vec![handles::KTHVALUE.call(&x[0], 2, 1, false)?.0]));
    check("median.dim", &x, |x| Ok(vec![handles::MEDIAN_DIM.call(&x[0], 0, true)?.0]));
    check("mode", &x, |x| Ok(vec![handles::MODE.call(&x[0], 0, false)?.0]));
    check_one("median", &x, |x| handles::MEDIAN.call(&x[0]));
    check_one("nanmedian", &x, |x| handles::NANMEDIAN.call(&x[0]));
    check("sort of a number", &[numbers(&[], 29)], |x| Ok(vec![handles::SORT.call(&x[0], 0, false)?.0]));
}

#[test]
fn rows_of_an_embedding_are_scaled_by_frequency() {
    let table = numbers(&[3, 1], 31).requires_grad_(true).unwrap();
    let rows = handles::EMBEDDING.call(&table, &places(&[2, 0, 2, 2], &[4]), -1, true, false).unwrap();
    tensorplay_autograd::backward(&[rows.sum().unwrap()]).unwrap();
    assert_eq!(table.grad().unwrap().to_vec::<f64>().unwrap(), [1.0, 0.0, 1.0]);
}

#[test]
fn unique_elements_are_refused_by_name() {
    let x = numbers(&[3], 30).requires_grad_(true).unwrap();
    let (unique, ..) = handles::_UNIQUE2.call(&x, true, false, false).unwrap();
    let error = tensorplay_autograd::backward(&[unique.sum().unwrap()]).unwrap_err().to_string();
    assert!(error.contains("_unique2"), "{error}");
    assert!(!handles::HISTC.call(&x, 3, Scalar::Int(0), Scalar::Int(0)).unwrap().requires_grad());
}
