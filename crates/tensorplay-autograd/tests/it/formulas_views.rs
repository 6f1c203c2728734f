//! Derivatives of views, of their copies and of what is written through them.

use aten::ops::handles;
use aten::{Result, Tensor};
use tensorplay_autograd::TensorAutograd;

use crate::numeric::{check, check_one, complex, numbers};

type One = fn(&Tensor) -> Result<Tensor>;
type Many = fn(&Tensor) -> Result<Vec<Tensor>>;
type Change = fn(&Tensor) -> Result<()>;

#[test]
fn views_and_their_copies_put_gradients_back() {
    let views: [(&str, One); 18] = [
        ("alias", Tensor::alias),
        ("view", |x| x.view(&[3, -1])),
        ("_unsafe_view", |x| handles::_UNSAFE_VIEW.call(x, &[24])),
        ("_reshape_alias", |x| handles::_RESHAPE_ALIAS.call(x, &[6, 4], &[4, 1])),
        ("expand", |x| x.expand(&[2, 2, 3, 4])),
        ("permute", |x| x.permute(&[2, -3, 1])),
        ("transpose", |x| x.transpose(0, -1)),
        ("t", |x| x.select(0, 1)?.t()),
        ("squeeze", |x| x.narrow(0, 1, 1)?.squeeze()),
        ("squeeze.dim", |x| x.narrow(1, 1, 1)?.squeeze_dim(-2)),
        ("squeeze.dims", |x| x.narrow(2, 3, 1)?.squeeze_dims(&[0, 2])),
        ("unsqueeze", |x| x.unsqueeze(-2)),
        ("slice", |x| handles::SLICE_TENSOR.call(x, 2, Some(-3), None, 2)),
        ("select", |x| x.select(-1, -2)),
        ("diagonal", |x| handles::DIAGONAL.call(x, 1, 0, 2)),
        ("unfold", |x| x.unfold(2, 3, 1)),
        ("as_strided", |x| handles::AS_STRIDED.call(x, &[2, 3], &[1, 2], Some(3))),
        ("_neg_view", Tensor::_neg_view),
    ];
    for (name, f) in views {
        check_one(name, &[numbers(&[2, 3, 4], 1)], |x| f(&x[0]));
    }
    let copies: [(&str, One); 8] = [
        ("view_copy", |x| x.view_copy(&[12])),
        ("expand_copy", |x| x.expand_copy(&[2, 3, 4])),
        ("permute_copy", |x| x.permute_copy(&[1, 0])),
        ("select_copy", |x| x.select_copy(0, 1)),
        ("unfold_copy", |x| x.unfold_copy(1, 2, 2)),
        ("narrow_copy", |x| x.narrow_copy(1, 1, 2)),
        ("as_strided_copy", |x| x.as_strided_copy(&[3], &[2])),
        ("diagonal_copy", Tensor::diagonal_copy),
    ];
    for (name, f) in copies {
        check_one(name, &[numbers(&[3, 4], 2)], |x| f(&x[0]));
    }
}

#[test]
fn parts_are_joined_where_some_have_no_gradient() {
    let parts: [(&str, Many); 6] = [
        ("split", |x| handles::SPLIT_TENSOR.call(x, 2, 0)),
        ("split_with_sizes", |x| handles::SPLIT_WITH_SIZES.call(x, &[1, 0, 4], 0)),
        ("unsafe_split", |x| handles::UNSAFE_SPLIT_TENSOR.call(x, 3, -2)),
        ("unbind", |x| handles::UNBIND_INT.call(x, 1)),
        ("split_copy", |x| handles::SPLIT_COPY_TENSOR.call(x, 2, 1)),
        ("unbind_copy", |x| handles::UNBIND_COPY_INT.call(x, 0)),
    ];
    for (name, f) in parts {
        check(name, &[numbers(&[5, 3], 3)], |x| f(&x[0]));
        check(name, &[numbers(&[5, 3], 3)], |x| Ok(vec![f(&x[0])?.remove(1)]));
    }
}

#[test]
fn complex_numbers_are_viewed_as_real_ones_and_back() {
    check_one("view_as_complex", &[numbers(&[3, 2], 4)], |x| {
        let z = complex(&x[0])?;
        &z * &z * &z
    });
    check_one("conj", &[numbers(&[3, 2], 5)], |x| {
        let z = complex(&x[0])?;
        &z * z.conj()? * &z
    });
    check_one("real", &[numbers(&[2, 2, 2], 6)], |x| {
        let z = complex(&x[0])?;
        (&z * &z)?.real()
    });
    check_one("imag of a transposed", &[numbers(&[2, 3, 2], 7)], |x| {
        let z = complex(&x[0])?.t()?;
        (&z * &z)?.imag()
    });
}

#[test]
fn strides_may_overlap() {
    // The view sees a place several times.
    check_one("as_strided that overlaps", &[numbers(&[6], 8)], |x| {
        let seen = handles::AS_STRIDED.call(&x[0], &[4, 3], &[1, 1], None)?;
        &seen * &seen
    });
    check_one("as_strided that does not", &[numbers(&[3, 4], 32)], |x| {
        let seen = handles::AS_STRIDED.call(&x[0].t()?, &[2, 1, 3], &[6, 5, 2], Some(1))?;
        &seen * &seen
    });
    // The argument does.
    check_one("as_strided of an expanded tensor", &[numbers(&[4], 9)], |x| {
        let wide = x[0].mul_scalar(1)?.expand(&[3, 4])?;
        handles::AS_STRIDED.call(&wide, &[3, 2], &[1, 1], None)
    });
}

#[test]
fn what_is_written_through_views_of_views_is_followed() {
    check_one("a view of a view", &[numbers(&[3, 4], 10), numbers(&[3], 11)], |x| {
        let y = x[0].mul_scalar(1)?;
        y.narrow(1, 1, 2)?.select(1, 1)?.mul_(&x[1])?;
        &y * &y
    });
    check_one("two views, one after the other", &[numbers(&[4, 4], 12), numbers(&[4], 13)], |x| {
        let y = x[0].mul_scalar(1)?;
        let (rows, columns) = (y.narrow(0, 1, 2)?, y.t()?);
        rows.mul_(&x[1])?;
        columns.select(0, 2)?.mul_(&x[1])?;
        &rows * &columns.narrow(0, 0, 2)?
    });
    check_one("the base after the view", &[numbers(&[4], 14)], |x| {
        let y = x[0].mul_scalar(1)?;
        let part = y.narrow(0, 1, 2)?;
        y.mul_(&x[0])?;
        &part * &part
    });
    check_one("through an expanded view's base", &[numbers(&[2, 1], 15)], |x| {
        let y = x[0].mul_scalar(1)?;
        let wide = y.expand(&[2, 3])?;
        y.mul_(&x[0])?;
        &wide * &wide
    });
    check_one("a copy into a diagonal", &[numbers(&[3, 3], 16), numbers(&[3], 17)], |x| {
        let y = x[0].mul_scalar(2)?;
        y.diagonal()?.mul_(&x[1])?;
        &y * &x[0]
    });
}

#[test]
fn what_is_written_through_conjugates_is_followed() {
    check("a conjugate", &[numbers(&[3, 2], 33), numbers(&[2, 2], 34)], |x| {
        let z = complex(&x[0])?.mul_scalar(1)?;
        let conjugate = z.conj()?;
        conjugate.narrow(0, 1, 2)?.mul_(&complex(&x[1])?)?;
        Ok(vec![(&z * &z)?, (&conjugate * &z)?, conjugate])
    });
    check("a negative", &[numbers(&[3], 35)], |x| {
        let y = x[0].mul_scalar(1)?;
        let negative = y._neg_view()?;
        negative.mul_(&x[0])?;
        Ok(vec![(&y * &y)?, (&negative * &x[0])?])
    });
}

#[test]
fn geometry_is_changed_in_place() {
    let changes: [(&str, Change); 8] = [
        ("transpose_", |x| x.transpose_(0, 1).map(drop)),
        ("swapaxes_", |x| handles::SWAPAXES_.call(x, 0, 1)),
        ("t_", |x| handles::T_.call(x)),
        ("unsqueeze_", |x| x.unsqueeze_(-1).map(drop)),
        ("squeeze_", |x| x.unsqueeze_(0)?.squeeze_().map(drop)),
        ("squeeze_.dim", |x| x.unsqueeze_(0)?.squeeze_dim_(0).map(drop)),
        ("squeeze_.dims", |x| x.unsqueeze_(1)?.squeeze_dims_(&[1]).map(drop)),
        ("as_strided_", |x| x.as_strided_(&[2, 2], &[1, 2]).map(drop)),
    ];
    for (name, change) in changes {
        check(name, &[numbers(&[2, 3], 18)], |x| {
            let y = (&x[0] * &x[0])?;
            change(&y)?;
            Ok(vec![y])
        });
        // Of a view: the base is what it was.
        check(&format!("{name} of a view"), &[numbers(&[3, 3], 19)], |x| {
            let y = (&x[0] * &x[0])?;
            let part = y.narrow(0, 0, 2)?;
            change(&part)?;
            Ok(vec![part, y])
        });
    }
}

#[test]
fn nodes_are_called_as_in_pytorch() {
    let x = numbers(&[2, 2], 20).requires_grad_(true).unwrap();
    let name = |tensor: &Tensor| tensor.grad_fn().unwrap().unwrap().name().to_owned();
    assert_eq!(name(&x.view_copy(&[4]).unwrap()), "ViewBackward0_copy");
    assert_eq!(name(&x.squeeze_copy_dim(0).unwrap()), "SqueezeBackward1_copy");
    assert_eq!(name(&x.narrow_copy(0, 0, 1).unwrap()), "NarrowCopyBackward0");
    let y = x.mul_scalar(1).unwrap();
    y.unsqueeze_(0).unwrap();
    assert_eq!(name(&y), "UnsqueezeBackward1");
    y.squeeze_().unwrap();
    assert_eq!(name(&y), "SqueezeBackward3");
    y.transpose_(0, 1).unwrap();
    assert_eq!(name(&y), "TransposeBackward1");
    y.as_strided_(&[2], &[1]).unwrap();
    assert_eq!(name(&y), "AsStridedBackward1");
    assert_eq!(name(&x.pdist().unwrap()), "PdistBackward0");
    assert_eq!(name(&x.conj_physical().unwrap().alias().unwrap()), "AliasBackward0");
}

#[test]
fn some_geometry_cannot_be_changed() {
    let x = numbers(&[4], 21).requires_grad_(true).unwrap();
    let y = x.mul_scalar(2).unwrap();
    for tensor in [&x, &y] {
        let refused = tensor.resize_(&[2]).unwrap_err().to_string();
        assert!(refused.contains("cannot resize variables that require grad"), "{refused}");
        assert_eq!(tensor.sizes()[..], [4]);
    }
    assert!(x.resize_as_(&numbers(&[2], 1)).is_err());
    numbers(&[4], 1).resize_(&[2]).unwrap();
    let refused = y.narrow(0, 0, 2).unwrap().detach_().unwrap_err().to_string();
    assert!(refused.contains("Can't detach views in-place"), "{refused}");
    y.detach_().unwrap();
    assert!(!y.requires_grad() && y.grad_fn().unwrap().is_none());
    let refused = x.set_source_tensor_(&y).unwrap_err().to_string();
    assert!(refused.contains("a leaf Variable that requires grad"), "{refused}");
    let refused = handles::T_.call(&x).unwrap_err().to_string();
    assert!(refused.contains("a leaf Variable that requires grad"), "{refused}");
}

#[test]
fn detached_tensors_and_other_dtypes_are_not_followed() {
    let x = numbers(&[2], 22).requires_grad_(true).unwrap();
    let y = x.mul_scalar(1).unwrap();
    let detached = y.detach().unwrap();
    assert!(!detached.requires_grad() && detached.view_base().is_none());
    let made_by = y.grad_fn().unwrap().unwrap().name().to_owned();
    detached.mul_scalar_(2).unwrap();
    assert_eq!(y.grad_fn().unwrap().unwrap().name(), made_by);
    assert!(!y.view_dtype(c10_core::ScalarType::Int64).unwrap().requires_grad());
}

/// Row 71 of the autograd cases.
#[test]
fn a_view_that_was_saved_sees_writes_to_its_base() {
    let w = numbers(&[3], 23).requires_grad_(true).unwrap();
    let x = numbers(&[3], 24);
    let y = (x.view(&[3]).unwrap() * &w).unwrap();
    x.add_scalar_(1).unwrap();
    let error = y.sum().unwrap().backward().unwrap_err().to_string();
    assert!(error.contains("modified by an inplace operation"), "{error}");
}

/// Row 73.
#[test]
fn a_gradient_that_is_a_view_of_anothers_is_not_shared() {
    let p = numbers(&[2], 25).requires_grad_(true).unwrap();
    let q = numbers(&[2, 2], 26).requires_grad_(true).unwrap();
    // The gradient of both is (a part of) the one that comes in.
    let out = handles::CAT.call(&[p.unsqueeze(0).unwrap(), q.alias().unwrap()], 0).unwrap();
    let incoming = numbers(&[3, 2], 27);
    let options =
        tensorplay_autograd::BackwardOptions { gradients: &[Some(incoming.clone())], ..Default::default() };
    out.backward_with(options).unwrap();
    let before = p.grad().unwrap().to_vec::<f64>().unwrap();
    q.grad().unwrap().add_scalar_(1).unwrap();
    incoming.zero_().unwrap();
    assert_eq!(p.grad().unwrap().to_vec::<f64>().unwrap(), before);
}

/// Rows 76 and 77.
#[test]
fn views_of_several_are_not_changed_in_place() {
    let x = numbers(&[2, 3], 28).requires_grad_(true).unwrap();
    let y = x.mul_scalar(1).unwrap();
    let parts = handles::UNBIND_INT.call(&y, 0).unwrap();
    let refused = parts[0].mul_scalar_(2).unwrap_err().to_string();
    assert!(refused.contains("returns multiple views"), "{refused}");
    let chained = parts[0].view(&[3, 1]).unwrap();
    let refused = chained.mul_scalar_(2).unwrap_err().to_string();
    assert!(refused.contains("returns multiple views"), "{refused}");
    let parts = handles::SPLIT_TENSOR.call(&y, 1, 1).unwrap();
    assert!(parts[1].mul_scalar_(2).is_err());
    let both = (y.narrow(1, 0, 1).unwrap() * &parts[2]).unwrap();
    both.sum().unwrap().backward().unwrap();
    let values = x.detach().unwrap().to_vec::<f64>().unwrap();
    let expected = [values[2], 0.0, values[0], values[5], 0.0, values[3]];
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), expected);
}

#[test]
fn scatters_of_views_have_gradients_for_both() {
    type Two = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let scatters: [(&str, &[i64], Two); 3] = [
        ("select_scatter", &[4], |x, src| x.select_scatter(src, 0, 1)),
        ("slice_scatter", &[3, 2], |x, src| handles::SLICE_SCATTER.call(x, src, 1, Some(1), None, 2)),
        ("diagonal_scatter", &[3], |x, src| handles::DIAGONAL_SCATTER.call(x, src, 1, 0, 1)),
    ];
    for (name, sizes, f) in scatters {
        check_one(name, &[numbers(&[3, 4], 29), numbers(sizes, 30)], |x| f(&x[0], &x[1]));
    }
    check_one("as_strided_scatter", &[numbers(&[2, 2], 31)], |x| {
        handles::AS_STRIDED_SCATTER.call(&numbers(&[3, 4], 29), &x[0], &[2, 2], &[3, 1], Some(2))
    });
}
