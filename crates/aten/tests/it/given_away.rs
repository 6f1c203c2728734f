//! Operators on tensors that are given away: the same elements, in the same memory where nobody else has it.

use aten::dispatch::local::InferenceModeGuard;
use aten::{Result, Tensor};
use c10_core::{Complex, Scalar, ScalarType, Storage};

/// Each operator, as it is and of a tensor that is given away.
type Pair = (fn(&Tensor) -> Result<Tensor>, fn(Tensor) -> Result<Tensor>);

const PAIRS: [Pair; 6] = [
    (|x| x.mul_scalar(0.3), |x| x.into_mul_scalar(0.3)),
    (|x| x.mul_scalar(-3), |x| x.into_mul_scalar(-3)),
    (|x| x.mul_scalar(true), |x| x.into_mul_scalar(true)),
    (|x| x.div_scalar(0.3), |x| x.into_div_scalar(0.3)),
    (|x| x.div_scalar(0), |x| x.into_div_scalar(0)),
    (Tensor::neg, Tensor::into_neg),
];

fn address(of: &Tensor) -> usize {
    of.storage().data_ptr().addr()
}

fn bytes(of: &Tensor) -> Vec<u8> {
    of.contiguous().unwrap().view_dtype(ScalarType::UInt8).unwrap().to_vec().unwrap()
}

/// What is made of `x`, by both ways, and whether that is in the memory of `x`.
fn changed(pair: &Pair, x: Tensor) -> (Tensor, bool) {
    let (before, expected) = (address(&x), pair.0(&x).unwrap());
    let made = pair.1(x).unwrap();
    assert_eq!(
        (made.dtype(), made.sizes(), made.strides()),
        (expected.dtype(), expected.sizes(), expected.strides())
    );
    assert_eq!(made.is_inference(), expected.is_inference());
    assert_eq!(bytes(&made), bytes(&expected));
    assert_eq!(made.version(), expected.version());
    let is_own = address(&made) == before;
    (made, is_own)
}

fn made(numel: i64, dtype: ScalarType) -> Tensor {
    let values = Tensor::arange(numel, ScalarType::Float64).unwrap();
    values.sub_scalar(2.5).unwrap().mul_scalar(1.1).unwrap().to(dtype).unwrap().clone()
}

/// A new tensor begins at version 0, and what is given away was written.
#[test]
fn what_was_written_is_not_changed_again() {
    for pair in &PAIRS {
        let x = made(3, ScalarType::Float32);
        x.add_(&made(3, ScalarType::Float32)).unwrap();
        assert_eq!(x.version(), 1);
        let (made, is_own) = changed(pair, x);
        assert!(made.version() == 0 && !is_own);
    }
}

#[test]
fn the_elements_are_those_of_the_operator() {
    for dtype in [
        ScalarType::Float32,
        ScalarType::Float64,
        ScalarType::Float16,
        ScalarType::BFloat16,
        ScalarType::Int64,
        ScalarType::Complex64,
    ] {
        for numel in [0, 1, 5, 200] {
            for pair in &PAIRS {
                let (_, is_own) = changed(pair, made(numel, dtype));
                let is_plain = matches!(dtype, ScalarType::Float32 | ScalarType::Float64);
                // Nothing is at no address.
                assert!(numel == 0 || is_own == (is_plain && numel < 100), "{dtype:?} {numel}");
            }
        }
    }
    let infinite = [f64::NAN, f64::INFINITY, -0.0, 5e-324];
    for pair in &PAIRS {
        let x = Tensor::from_elements(&infinite).unwrap().add_scalar(0.0).unwrap();
        assert!(changed(pair, x).1);
    }
}

#[test]
fn a_real_tensor_by_a_complex_number_is_complex() {
    let number = Scalar::Complex(Complex::new(0.0, 2.0));
    let made = made(3, ScalarType::Float32).into_mul_scalar(number).unwrap();
    assert_eq!(made.dtype(), ScalarType::Complex64);
}

#[test]
fn what_others_have_stays_as_it_is() {
    let is_changed = |x: Tensor| {
        let before = bytes(&x);
        let (alias, old) = (x.detach().unwrap(), address(&x));
        drop(alias);
        let made = x.into_mul_scalar(2.0).unwrap();
        (address(&made) == old, before)
    };
    assert!(is_changed(made(4, ScalarType::Float32)).0);
    let x = made(4, ScalarType::Float32);
    let (handle, before) = (x.clone(), bytes(&x));
    drop(x.into_mul_scalar(2.0).unwrap());
    assert_eq!(bytes(&handle), before);
    // A view, which has the storage.
    let x = made(4, ScalarType::Float32);
    let view = x.narrow(0, 1, 2).unwrap();
    let before = bytes(&view);
    drop(x.into_mul_scalar(2.0).unwrap());
    assert_eq!(bytes(&view), before);
    drop(view.into_neg().unwrap());
    // A weak handle becomes a strong one no more, or finds what was there.
    let x = made(4, ScalarType::Float32);
    let (weak, old) = (x.downgrade(), address(&x));
    let made_of_it = x.into_mul_scalar(2.0).unwrap();
    assert!(weak.upgrade().is_none() && address(&made_of_it) != old);
}

#[test]
fn a_part_of_memory_and_repeated_elements_are_not_changed_in_place() {
    for x in [
        made(6, ScalarType::Float32).narrow(0, 0, 3).unwrap(),
        made(1, ScalarType::Float32).expand(&[4]).unwrap(),
        made(6, ScalarType::Float32).view(&[2, 3]).unwrap().select(1, 0).unwrap(),
    ] {
        for pair in &PAIRS {
            let of = x.clone();
            assert!(!changed(pair, of).1);
        }
        assert!(!changed(&PAIRS[0], x).1);
    }
    // All of it, in another order.
    let x = made(6, ScalarType::Float32).view(&[2, 3]).unwrap().t().unwrap();
    assert!(changed(&PAIRS[0], x).1);
    // Memory that was allocated elsewhere.
    let storage = Storage::from_bytes(vec![0; 8].into()).unwrap();
    let x = Tensor::from_storage(storage, ScalarType::Float32, &[2], &[1], 0).unwrap();
    assert!(!changed(&PAIRS[0], x).1);
}

#[test]
fn what_is_made_is_of_the_thread_s_mode() {
    let normal = made(3, ScalarType::Float32);
    let inference = {
        let _mode = InferenceModeGuard::new(true);
        assert!(!changed(&PAIRS[0], normal).1);
        let x = made(3, ScalarType::Float32);
        assert!(x.is_inference() && changed(&PAIRS[0], x).1);
        made(3, ScalarType::Float32)
    };
    assert!(inference.is_inference() && !changed(&PAIRS[0], inference).1);
}
