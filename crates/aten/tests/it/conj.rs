//! Views that stand for conjugates and negations.

use std::collections::BTreeMap;

use aten::dispatch::{DispatchKey, Dispatcher, Kernel, Library, LocalDispatchKeySet, Stack, Value};
use aten::io::dlpack::{DLManagedTensorVersioned, ManagedTensor};
use aten::io::{npy, safetensors};
use aten::tensor::{Access, TensorOptions};
use aten::{ErrorKind, Result, Tensor};
use c10_core::{Complex, ScalarType};

type C = Complex<f64>;

fn c(re: f64, im: f64) -> C {
    Complex::new(re, im)
}

/// 0 + 1i, 1 + 2i, … in two rows.
fn matrix() -> Tensor {
    let elements: Vec<C> = (0..6).map(|i| c(f64::from(i), f64::from(i + 1))).collect();
    Tensor::from_slice(&elements, &[2, 3]).unwrap()
}

fn values(tensor: &Tensor) -> Vec<C> {
    tensor.to_vec().unwrap()
}

fn conjugates(tensor: &Tensor) -> Vec<C> {
    values(tensor).into_iter().map(|x| c(x.re, -x.im)).collect()
}

fn negatives(values: &[C]) -> Vec<C> {
    values.iter().map(|x| c(-x.re, -x.im)).collect()
}

/// What the operator gives for a copy without bits must be what it gives for the tensor.
#[track_caller]
fn same_as_resolved(tensor: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) {
    let plain = tensor.deep_clone().unwrap();
    assert!(!plain.is_conj() && !plain.is_neg());
    let (of_view, of_plain) = (f(tensor).unwrap(), f(&plain).unwrap());
    assert_eq!(of_view.sizes(), of_plain.sizes());
    assert_eq!(of_view.dtype(), of_plain.dtype());
    if of_view.dtype().is_complex() {
        assert_eq!(values(&of_view), values(&of_plain));
    } else {
        assert_eq!(of_view.to_vec::<f64>().unwrap(), of_plain.to_vec::<f64>().unwrap());
    }
}

#[test]
fn a_conjugate_shares_storage_and_version() {
    let x = matrix();
    let view = x.conj().unwrap();
    assert!(view.is_conj() && !x.is_conj() && view.is_alias_of(&x) && !view.is_same(&x));
    assert_eq!(values(&view), conjugates(&x));
    assert!(view.key_set().has(DispatchKey::Conjugate));
    x.mul_scalar_(2).unwrap();
    assert_eq!(view.version(), x.version());
    assert_eq!(values(&view), conjugates(&x));
    // Twice is none.
    let twice = view.conj().unwrap();
    assert!(!twice.is_conj() && twice.is_alias_of(&x));
    assert_eq!(values(&twice), values(&x));
    // A real tensor is its own conjugate.
    let real = Tensor::from_elements(&[1.0_f64]).unwrap();
    assert!(real.conj().unwrap().is_same(&real));
    assert_eq!(real._conj().unwrap_err().kind(), ErrorKind::Dtype);
}

#[test]
fn views_carry_the_bits_on() {
    let x = matrix();
    let y = x.conj().unwrap();
    let views = [
        y.t().unwrap(),
        y.select(0, 1).unwrap(),
        y.view(&[3, 2]).unwrap(),
        y.reshape(&[6]).unwrap(),
        y.expand(&[2, 2, 3]).unwrap(),
        y.unsqueeze(0).unwrap(),
        y.as_strided(&[2], &[3]).unwrap(),
        y.alias().unwrap(),
        y.detach().unwrap(),
        y.contiguous().unwrap(),
        y.narrow(1, 1, 2).unwrap(),
        y.split(1).unwrap().swap_remove(1),
        y.chunk(2).unwrap().swap_remove(1),
        y.to(ScalarType::Complex128).unwrap(),
    ];
    for view in &views {
        assert!(view.is_conj() && view.is_alias_of(&x));
        same_as_resolved(view, Tensor::deep_clone);
    }
    assert_eq!(values(&y.t().unwrap()), conjugates(&x.t().unwrap()));
    for adjoint in [x.mh().unwrap(), x.adjoint().unwrap(), x.matrix_h().unwrap()] {
        assert!(adjoint.is_conj() && adjoint.is_alias_of(&x));
        assert_eq!(values(&adjoint), conjugates(&x.t().unwrap()));
    }
    // What is not a view carries none.
    for copy in [
        y.deep_clone().unwrap(),
        y.t().unwrap().contiguous().unwrap(),
        y.to(ScalarType::Complex64).unwrap(),
        y.resolve_conj().unwrap(),
        y.conj_physical().unwrap(),
        y.empty_like(TensorOptions::default()).unwrap(),
        y.alias_copy().unwrap(),
        x._conj_copy().unwrap(),
        x._neg_view_copy().unwrap(),
    ] {
        assert!(!copy.is_conj() && !copy.is_neg() && !copy.is_alias_of(&x));
    }
    assert_eq!(values(&y.conj_physical().unwrap()), values(&x));
    assert_eq!(values(&x._conj_copy().unwrap()), values(&y));
    assert_eq!(values(&x._neg_view_copy().unwrap()), negatives(&values(&x)));
    assert!(x.resolve_conj().unwrap().is_same(&x));
    assert!(y.resolve_neg().unwrap().is_same(&y));
}

#[test]
fn parts_of_conjugates_are_views() {
    let x = matrix();
    let y = x.conj().unwrap();
    let (re, im) = (y.real().unwrap(), y.imag().unwrap());
    assert!(!re.is_neg() && im.is_neg() && !im.is_conj() && im.is_alias_of(&x) && re.is_alias_of(&x));
    assert_eq!(re.to_vec::<f64>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(im.to_vec::<f64>().unwrap(), [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    same_as_resolved(&im, |im| im.exp());
    same_as_resolved(&im, |im| im.abs());
    same_as_resolved(&im, |im| im.add(&Tensor::from_elements(&[1.0_f64, 2.0, 3.0])?));
    // Negated as a whole: the parts are, and the imaginary one of the conjugate is twice.
    let z = y._neg_view().unwrap();
    assert!(z.is_conj() && z.is_neg());
    assert!(z.real().unwrap().is_neg() && !z.imag().unwrap().is_neg());
    assert_eq!(z.imag().unwrap().to_vec::<f64>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(x._neg_view().unwrap().view_as_real().unwrap().is_neg());
    // Writing to a part writes to the base.
    im.fill_scalar_(7).unwrap();
    assert!(values(&x).iter().all(|x| x.im == -7.0));
}

#[test]
fn both_bits_resolve_together() {
    let x = matrix();
    let z = x.conj().unwrap()._neg_view().unwrap();
    let expected: Vec<C> = values(&x).into_iter().map(|x| c(-x.re, x.im)).collect();
    assert_eq!(values(&z), expected);
    for resolved in [z.resolve_conj().unwrap(), z.resolve_neg().unwrap(), z.deep_clone().unwrap()] {
        assert!(!resolved.is_conj() && !resolved.is_neg());
        assert_eq!(values(&resolved), expected);
    }
    same_as_resolved(&z, |z| z.mul(z));
    same_as_resolved(&z, |z| z.add(&matrix().conj()?));
    z.add_scalar_(1).unwrap();
    assert!(z.is_conj() && z.is_neg());
    assert_eq!(values(&x)[0], c(-1.0, 1.0));
    assert_eq!(values(&z)[0], c(1.0, 1.0));
    z.copy_(&matrix()).unwrap();
    assert_eq!(values(&z), values(&matrix()));
    assert_eq!(values(&x)[5], c(-5.0, 6.0));
}

#[test]
fn operators_see_the_logical_elements() {
    let x = matrix().conj().unwrap();
    same_as_resolved(&x, |x| x.add(&matrix()));
    same_as_resolved(&x, |x| matrix().sub(x));
    same_as_resolved(&x, |x| x.mm(&x.t()?));
    same_as_resolved(&x, |x| matrix().matmul(&x.mh()?));
    same_as_resolved(&x, |x| x.reshape(&[6])?.dot(&x.reshape(&[6])?));
    same_as_resolved(&x, |x| x.reshape(&[6])?.vdot(&matrix().reshape(&[6])?));
    same_as_resolved(&x, |x| x.sum());
    same_as_resolved(&x, |x| x.angle());
    same_as_resolved(&x, |x| x.sgn());
    same_as_resolved(&x, |x| x.neg());
    same_as_resolved(&x, |x| Tensor::cat(&[x.clone(), matrix(), x.clone()]));
    same_as_resolved(&x, |x| Tensor::stack(&[x.clone(), matrix()]));
    same_as_resolved(&x, |x| x.index_select(1, &Tensor::from_elements(&[2_i64, 0])?));
    same_as_resolved(&x, |x| x.fft_fft());
    same_as_resolved(&x, |x| x.diagonal()?.diag());
    // In the result of the matrix product above the dot products are right.
    let product = matrix().mm(&matrix().mh().unwrap()).unwrap();
    assert_eq!(values(&product)[0], c(19.0, 0.0));
}

#[test]
fn writing_to_a_view_changes_the_base() {
    let x = matrix();
    let y = x.conj().unwrap();
    let version = x.version();
    let result = y.mul_(&Tensor::from_elements(&[c(0.0, 1.0)]).unwrap()).unwrap();
    assert!(result.is_same(&y) && x.version() > version);
    // conj(conj(x) · i) = -x · i
    let expected: Vec<C> = values(&matrix()).into_iter().map(|x| c(x.im, -x.re)).collect();
    assert_eq!(values(&x), expected);
    // The tensor and its conjugate as operands of one call.
    let x = matrix();
    x.add_(&x.conj().unwrap()).unwrap();
    assert!(values(&x).iter().all(|x| x.im == 0.0));
    let x = matrix();
    x.copy_(&x.conj().unwrap()).unwrap();
    assert_eq!(values(&x), conjugates(&matrix()));
    x.conj().unwrap().conj_physical_().unwrap();
    assert_eq!(values(&x), values(&matrix()));
    x.conj().unwrap().select(0, 0).unwrap().fill_scalar_(c(1.0, 1.0)).unwrap();
    assert_eq!(values(&x)[..3], [c(1.0, -1.0); 3]);
    // Other dtypes on the way.
    let x = matrix();
    x.conj().unwrap().copy_(&Tensor::from_slice(&[1.0_f32, 2.0, 3.0], &[3]).unwrap()).unwrap();
    assert_eq!(values(&x)[1], c(2.0, 0.0));
    let narrow = Tensor::from_slice(&[Complex::new(1.0_f32, 2.0); 6], &[2, 3]).unwrap();
    x.conj().unwrap().copy_(&narrow).unwrap();
    assert_eq!(values(&x)[1], c(1.0, -2.0));
    narrow._neg_view().unwrap().copy_(&x.conj().unwrap()).unwrap();
    assert_eq!(narrow.to_vec::<Complex<f32>>().unwrap()[1], Complex::new(-1.0, -2.0));
}

#[test]
fn out_arguments_are_written_and_resized() {
    let x = matrix();
    let empty = Tensor::from_slice::<C>(&[], &[0]).unwrap();
    let out = empty.conj().unwrap();
    let add = Dispatcher::global().require("aten::add.out").unwrap();
    let results = add
        .call_with(vec![x.clone().into(), x.clone().into()], vec![("out".into(), out.clone().into())])
        .unwrap();
    assert!(matches!(&results[..], [Value::Tensor(result)] if result.is_same(&out)));
    assert!(out.is_conj());
    let doubled: Vec<C> = values(&x).iter().map(|&x| c(2.0 * x.re, 2.0 * x.im)).collect();
    assert_eq!(out.sizes(), [2, 3]);
    assert_eq!(values(&out), doubled);
    // Two that are written are too many, and nothing is.
    let outs = [Tensor::from_slice(&[9.0_f64], &[1]).unwrap(), Tensor::from_slice(&[9.0_f64], &[1]).unwrap()];
    let views = outs.each_ref().map(|out| out._neg_view().unwrap());
    let max = Dispatcher::global().require("aten::aminmax.out").unwrap();
    let real = Tensor::from_elements(&[1.0_f64, 2.0]).unwrap();
    let named = vec![("min".into(), views[0].clone().into()), ("max".into(), views[1].clone().into())];
    assert_eq!(max.call_with(vec![real.into()], named).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert!(outs.iter().all(|out| out.to_vec::<f64>().unwrap() == [9.0]));
}

#[test]
fn a_tensor_that_moves_keeps_its_bits() {
    let x = matrix();
    let y = x.conj().unwrap();
    y.t_().unwrap();
    assert!(y.is_conj() && y.is_alias_of(&x));
    assert_eq!(values(&y), conjugates(&x.t().unwrap()));
    y.unsqueeze_(0).unwrap();
    y.squeeze_().unwrap();
    assert_eq!(values(&y), conjugates(&x.t().unwrap()));
    // Taking a storage takes it as it is stored.
    let z = matrix();
    z.set_source_tensor_(&y).unwrap();
    assert!(!z.is_conj() && z.is_alias_of(&x));
    assert_eq!(values(&z), values(&x.t().unwrap()));
}

#[test]
fn elements_are_read_resolved_or_refused() {
    let x = matrix();
    let y = x.conj().unwrap();
    assert_eq!(y.i((1, 2)).unwrap().item().unwrap().to::<C>().unwrap(), c(5.0, -6.0));
    for refused in [
        Access::acquire(&[&y], &[]).map(drop),
        Access::acquire(&[], &[&y]).map(drop),
        Access::acquire(&[&x._neg_view().unwrap()], &[]).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let refused =
        |tensor: &Tensor| ManagedTensor::<DLManagedTensorVersioned>::new(tensor).unwrap_err().to_string();
    assert!(refused(&y).contains("Can't export tensors with the conjugate bit set"));
    assert!(refused(&x._neg_view().unwrap()).contains("Can't export tensors with the negative bit set"));
    for refused in [y.view_as_real().map(drop), y.view_dtype(ScalarType::Float64).map(drop)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut file = Vec::new();
    npy::write(&mut file, &y).unwrap();
    assert_eq!(values(&npy::from_bytes(&file).unwrap()), values(&y));
    let im = y.imag().unwrap();
    let mut file = Vec::new();
    safetensors::write(&mut file, [("im", &im)], &BTreeMap::new()).unwrap();
    let read = safetensors::SafeTensors::from_bytes(&file).unwrap();
    assert_eq!(read.tensor("im").unwrap().to_vec::<f64>().unwrap(), im.to_vec::<f64>().unwrap());
}

#[test]
fn printing_shows_the_logical_elements() {
    let x = Tensor::from_elements(&[Complex::new(1.0_f32, 2.0), Complex::new(3.0, -4.0)]).unwrap();
    let y = x.conj().unwrap();
    assert_eq!(y.to_string(), "tensor([1.-2.j, 3.+4.j])");
    assert_eq!(y._neg_view().unwrap().to_string(), "tensor([-1.+2.j, -3.-4.j])");
    assert_eq!(y.imag().unwrap().to_string(), "tensor([-2.,  4.])");
}

#[test]
fn every_number_can_be_negated() {
    use ScalarType as S;
    let x = Tensor::from_elements(&[1.0_f64, 2.0]).unwrap();
    for dtype in [S::UInt8, S::Int8, S::Int16, S::Int32, S::Int64, S::Float16, S::BFloat16, S::Float32] {
        let x = x.to(dtype).unwrap();
        let neg = x._neg_view().unwrap();
        let (view, plain) = (neg.to(S::Float64).unwrap(), x.neg().unwrap().to(S::Float64).unwrap());
        assert_eq!(view.to_vec::<f64>().unwrap(), plain.to_vec::<f64>().unwrap(), "{dtype}");
    }
    let half = x.to(S::Complex32).unwrap().mul_scalar(c(1.0, 1.0)).unwrap();
    let view = half.conj().unwrap()._neg_view().unwrap().to(S::Complex128).unwrap();
    assert_eq!(values(&view), [c(-1.0, 1.0), c(-2.0, 2.0)]);
    // A view of truth values can be had, and not read.
    let truth = Tensor::from_elements(&[true]).unwrap()._neg_view().unwrap();
    assert!(truth.deep_clone().is_err() && truth.item().is_err());
}

#[test]
fn meta_tensors_have_bits() {
    let x = matrix().to(c10_core::Device::META).unwrap();
    let y = x.conj().unwrap();
    assert!(y.is_conj() && y.is_alias_of(&x));
    let sum = y.add(&x).unwrap();
    assert!(sum.is_meta() && !sum.is_conj());
    assert_eq!(sum.sizes(), [2, 3]);
    y.mul_scalar_(2).unwrap();
    assert!(y.resolve_conj().unwrap().is_meta());
}

#[test]
fn kernels_of_others_see_no_bits() {
    let mut library = Library::define(Dispatcher::global(), "conj_test").unwrap();
    library.def("first(Tensor x) -> Scalar").unwrap();
    library.def("whole(Tensor(a) x) -> Tensor(a)").unwrap();
    library.def("all(Tensor[] xs, Tensor? y) -> bool").unwrap();
    let keys = [DispatchKey::Cpu];
    library
        .impl_for("first", &keys, |x: &Tensor| -> Result<c10_core::Scalar> {
            assert!(!x.is_conj());
            x.select(0, 0)?.item()
        })
        .unwrap();
    library.impl_for("whole", &keys, |x: &Tensor| -> Result<Tensor> { x.alias() }).unwrap();
    let none = |stack: &Stack| {
        let mut found = false;
        stack.iter().for_each(|value| value.for_each_tensor(&mut |x| found |= x.is_conj() || x.is_neg()));
        !found
    };
    let kernel = Kernel::boxed(move |_, _, stack| {
        let result = none(stack);
        *stack = vec![result.into()];
        Ok(())
    });
    library.impl_kernel("all", &keys, kernel).unwrap();
    let call = |name: &str, arguments: Vec<Value>| {
        Dispatcher::global().require(name).unwrap().call_with(arguments, vec![]).unwrap().swap_remove(0)
    };
    let x = Tensor::from_elements(&[c(1.0, 2.0)]).unwrap();
    let (y, z) = (x.conj().unwrap(), x._neg_view().unwrap());
    let first = call("conj_test::first", vec![y.clone().into()]);
    assert!(matches!(first, Value::Scalar(value) if value.to::<C>().unwrap() == c(1.0, -2.0)));
    let whole = call("conj_test::whole", vec![y.clone().into()]);
    assert!(matches!(whole, Value::Tensor(whole) if whole.is_conj() && whole.is_alias_of(&x)));
    let both = vec![vec![x, y.clone(), z.clone()].into(), z.into()];
    assert!(matches!(call("conj_test::all", both), Value::Scalar(value) if value.to::<bool>().unwrap()));
    // Below autograd the composites are reached under the keys too.
    let without_autograd = LocalDispatchKeySet {
        excluded: aten::dispatch::DispatchKeySet::AUTOGRAD,
        ..LocalDispatchKeySet::current()
    };
    without_autograd.scope(|| {
        assert!(y.real().unwrap().is_alias_of(&y) && y.imag().unwrap().is_neg());
        assert!(y.contiguous().unwrap().is_conj());
        assert!(matches!(call("aten::is_conj", vec![y.clone().into()]), Value::Scalar(v) if v.to::<bool>().unwrap()));
    });
}
