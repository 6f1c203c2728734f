//! Type promotion: [`promote_types`], the type that can hold the values of two, and [`can_cast`], what an
//! in-place operator may write where.
//!
//! How wrapped numbers and zero-dimensional tensors take part is for the crate that has tensors to say.

use crate::error::{Error, Result};
use crate::scalar_type::ScalarType;

/// The type of a result of operands of types `a` and `b` (`c10::promoteTypes`). It commutes.
///
/// Complex beats floating point beats integers beats `bool`; within a category the wider one wins, except
/// that `float16` with `bfloat16` gives `float32` and `uint8` with `int8` gives `int16`, since neither of
/// the two holds the other. An integer never widens a floating-point type.
///
/// ```
/// use c10_core::{ScalarType, promote_types};
///
/// assert_eq!(promote_types(ScalarType::Int64, ScalarType::Float16)?, ScalarType::Float16);
/// assert_eq!(promote_types(ScalarType::Complex64, ScalarType::Float64)?, ScalarType::Complex128);
/// # Ok::<(), c10_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) where PyTorch has no rule either: an
/// eight-bit float with any other type, and `uint16`, `uint32` or `uint64` with any other type that is not
/// real floating point.
pub fn promote_types(a: ScalarType, b: ScalarType) -> Result<ScalarType> {
    if a == b {
        return Ok(a);
    }
    if a.is_float8() || b.is_float8() {
        return Err(no_rule(a, b, "the eight-bit floats promote with no other type"));
    }
    if a.is_barebones_unsigned() || b.is_barebones_unsigned() {
        return match (a.is_floating_point(), b.is_floating_point()) {
            (true, _) => Ok(a),
            (_, true) => Ok(b),
            _ => Err(no_rule(a, b, "uint16, uint32 and uint64 promote with real floating-point types alone")),
        };
    }
    Ok(if a.is_complex() || b.is_complex() {
        match floating(a.to_real(), b.to_real()) {
            ScalarType::Float16 => ScalarType::Complex32,
            ScalarType::BFloat16 => ScalarType::BComplex32,
            ScalarType::Float64 => ScalarType::Complex128,
            _ => ScalarType::Complex64,
        }
    } else if a.is_floating_point() || b.is_floating_point() {
        floating(a, b)
    } else {
        integral(a, b)
    })
}

/// Whether a result of type `from` may be written to an output of type `to` (`c10::canCast`): not from
/// complex to real, not from floating point to integers, and to `bool` from `bool` alone.
pub fn can_cast(from: ScalarType, to: ScalarType) -> bool {
    let loses_imaginary = from.is_complex() && !to.is_complex();
    let loses_fraction = from.is_floating_point() && to.is_integral(false);
    let loses_number = from != ScalarType::Bool && to == ScalarType::Bool;
    !(loses_imaginary || loses_fraction || loses_number)
}

/// Two real types of which one at least is floating point.
fn floating(a: ScalarType, b: ScalarType) -> ScalarType {
    match (a.is_floating_point(), b.is_floating_point()) {
        (true, false) => a,
        (false, _) => b,
        // Half and bfloat16: equally wide, and neither holds the other.
        _ if a != b && a.element_size() == b.element_size() => ScalarType::Float32,
        _ => wider(a, b),
    }
}

/// Two different types out of `bool`, `uint8` and the signed integers.
fn integral(a: ScalarType, b: ScalarType) -> ScalarType {
    match (a, b) {
        (ScalarType::Bool, other) | (other, ScalarType::Bool) => other,
        // `uint8` and `int8`: equally wide, and neither holds the other.
        _ if a.element_size() == b.element_size() => ScalarType::Int16,
        _ => wider(a, b),
    }
}

fn wider(a: ScalarType, b: ScalarType) -> ScalarType {
    if a.element_size() >= b.element_size() { a } else { b }
}

#[cold]
fn no_rule(a: ScalarType, b: ScalarType, why: &str) -> Error {
    Error::invalid_argument(format!("{a} and {b} have no common type ({why}); cast one of them first"))
}
