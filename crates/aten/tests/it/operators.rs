//! Rust's operators on tensors.

use aten::{Error, ErrorKind, Tensor};
use c10_core::ScalarType;

#[test]
fn operators_take_tensors_numbers_and_results() -> Result<(), Error> {
    let x = Tensor::from_elements(&[1_i32, 2])?;
    let y = Tensor::from_elements(&[10_i32, 20])?;
    let sum = (&y + (&x + &y + x.clone() + y.clone()))?;
    assert_eq!(sum.to_vec::<i32>()?, [32, 64]);
    assert_eq!((1 + &x)?.to_vec::<i32>()?, [2, 3]);
    assert_eq!((x.clone() + 1)?.dtype(), ScalarType::Int32);
    Ok(())
}

/// A number decides only where no tensor of its category is there.
#[test]
fn numbers_are_wrapped() -> Result<(), Error> {
    let bytes = Tensor::from_elements(&[1_u8])?;
    assert_eq!((2 + &bytes)?.dtype(), ScalarType::UInt8);
    assert_eq!((&bytes + 2)?.dtype(), ScalarType::UInt8);
    let floats = Tensor::from_elements(&[1.0_f32])?;
    assert_eq!((2.5 + &floats)?.dtype(), ScalarType::Float32);
    let ints = Tensor::from_elements(&[1_i32])?;
    assert_eq!((2.5 + &ints)?.dtype(), ScalarType::Float32);
    assert_eq!((&ints + 2.5)?.dtype(), ScalarType::Float32);
    Ok(())
}

#[test]
fn the_first_error_comes_through() {
    let x = Tensor::from_elements(&[1.0_f32, 2.0]).unwrap();
    let y = Tensor::from_elements(&[1.0_f32, 2.0, 3.0]).unwrap();
    assert_eq!((&x + &y + &x).unwrap_err().kind(), ErrorKind::Shape);
}
