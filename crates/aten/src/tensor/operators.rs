//! `&a + &b`, `&a + 1.0`, `2 * &a`: Rust's operators on tensors.
//!
//! An operator gives a `Result`, and takes one, where Rust allows it: on the left of a tensor, and on the right of
//! one. A number on the left becomes a wrapped number, as it does in PyTorch, and takes no part in promotion where a
//! tensor of its category is there. Numbers are `i64`, `f64`, `Complex<f64>` and `Scalar`: with more of them Rust
//! could not tell what `1` is. `%` is Python's remainder, with the sign of the divisor; `!` and `&` are of bits, or
//! of truth values.
//!
//! ```
//! use aten::Tensor;
//!
//! let x = Tensor::from_elements(&[1.0_f32, 2.0])?;
//! let y = (&x + &x + &x)?;
//! assert_eq!((1 + &y)?.to_vec::<f32>()?, [4.0, 7.0]);
//! assert_eq!(((&x * -2.0)? % 5)?.to_vec::<f32>()?, [3.0, 1.0]);
//! # Ok::<(), aten::Error>(())
//! ```

use std::borrow::Borrow;

use c10_core::{Complex, Scalar};

use super::Tensor;
use crate::error::Result;

/// A tensor at one side of an operator.
trait Side {
    type Held: Borrow<Tensor>;

    fn held(self) -> Result<Self::Held>;
}

impl<'a> Side for &'a Tensor {
    type Held = &'a Tensor;

    fn held(self) -> Result<&'a Tensor> {
        Ok(self)
    }
}

impl Side for Tensor {
    type Held = Tensor;

    fn held(self) -> Result<Tensor> {
        Ok(self)
    }
}

impl Side for Result<Tensor> {
    type Held = Tensor;

    fn held(self) -> Result<Tensor> {
        self
    }
}

macro_rules! between {
    // All that Rust allows.
    ($Trait:ident $method:ident $named:ident) => {
        between! {
            $Trait $method $named;
            &Tensor, &Tensor;
            &Tensor, Tensor;
            &Tensor, Result<Tensor>;
            Tensor, &Tensor;
            Tensor, Tensor;
            Tensor, Result<Tensor>;
            Result<Tensor>, &Tensor;
            Result<Tensor>, Tensor;
        }
    };
    ($Trait:ident $method:ident $named:ident; $($left:ty, $right:ty;)*) => {$(
        impl std::ops::$Trait<$right> for $left {
            type Output = Result<Tensor>;

            fn $method(self, right: $right) -> Result<Tensor> {
                let (left, right) = (Side::held(self)?, Side::held(right)?);
                let left: &Tensor = left.borrow();
                left.$named(right.borrow())
            }
        }
    )*};
}

macro_rules! with_numbers {
    ($Trait:ident $method:ident $named:ident $scalar:ident; $($number:ty),*) => {$(
        impl std::ops::$Trait<$number> for &Tensor {
            type Output = Result<Tensor>;

            fn $method(self, right: $number) -> Result<Tensor> {
                self.$scalar(right)
            }
        }

        impl std::ops::$Trait<$number> for Tensor {
            type Output = Result<Tensor>;

            fn $method(self, right: $number) -> Result<Tensor> {
                self.$scalar(right)
            }
        }

        impl std::ops::$Trait<&Tensor> for $number {
            type Output = Result<Tensor>;

            fn $method(self, right: &Tensor) -> Result<Tensor> {
                Tensor::wrapped_number(self.into())?.$named(right)
            }
        }

        impl std::ops::$Trait<Tensor> for $number {
            type Output = Result<Tensor>;

            fn $method(self, right: Tensor) -> Result<Tensor> {
                Tensor::wrapped_number(self.into())?.$named(&right)
            }
        }
    )*};
}

/// Each operator: its trait, the method for tensors and the one for a number on the right.
macro_rules! operators {
    ($($Trait:ident $method:ident => $named:ident, $scalar:ident;)*) => {$(
        between! { $Trait $method $named }
        with_numbers! {
            $Trait $method $named $scalar;
            i64, f64, Complex<f64>, Scalar
        }
    )*};
}

operators! {
    Add add => add, add_scalar;
    Sub sub => sub, sub_scalar;
    Mul mul => mul, mul_scalar;
    Div div => div, div_scalar;
    Rem rem => remainder, remainder_scalar;
}

macro_rules! bits {
    ($($Trait:ident $method:ident => $named:ident;)*) => {$(
        between! { $Trait $method $named }
    )*};
}

bits! {
    BitAnd bitand => bitwise_and;
    BitOr bitor => bitwise_or;
    BitXor bitxor => bitwise_xor;
}

macro_rules! of_one {
    ($($Trait:ident $method:ident => $named:ident;)*) => {$(
        impl std::ops::$Trait for &Tensor {
            type Output = Result<Tensor>;

            fn $method(self) -> Result<Tensor> {
                Tensor::$named(self)
            }
        }

        impl std::ops::$Trait for Tensor {
            type Output = Result<Tensor>;

            fn $method(self) -> Result<Tensor> {
                Tensor::$named(&self)
            }
        }
    )*};
}

of_one! {
    Neg neg => neg;
    Not not => bitwise_not;
}
