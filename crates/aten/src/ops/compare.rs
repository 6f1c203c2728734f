//! Comparisons, truth values and bits, element by element.

use c10_core::{Scalar, ScalarType};

use super::dtypes::Dtypes;
use super::forms::{self, Pointwise, dtype_after};
use super::{Dest, Made};
use crate::dispatch::Library;
use crate::error::Result;
use crate::iter::{Config, Input};
use crate::kernels::cpu::compare as kernels;

const TRUTHS: Dtypes = Dtypes::REAL.and(Dtypes::COMPLEX);
const BITS: Dtypes = Dtypes::BOOL.and(Dtypes::INTEGERS);
const ALL_BITS: Dtypes = BITS.and(Dtypes::WIDE_UNSIGNED);
const PREDICATE: Config = Config::SAME.with_output_dtype(ScalarType::Bool);

const COMPARISONS: &[Pointwise] = &[
    Pointwise { name: "eq", config: Config::COMPARE, takes: Dtypes::EVERY, kernel: kernels::eq },
    Pointwise { name: "ne", config: Config::COMPARE, takes: Dtypes::EVERY, kernel: kernels::ne },
    Pointwise { name: "lt", config: Config::COMPARE, takes: Dtypes::REAL, kernel: kernels::lt },
    Pointwise { name: "le", config: Config::COMPARE, takes: Dtypes::REAL, kernel: kernels::le },
    Pointwise { name: "gt", config: Config::COMPARE, takes: Dtypes::REAL, kernel: kernels::gt },
    Pointwise { name: "ge", config: Config::COMPARE, takes: Dtypes::REAL, kernel: kernels::ge },
];

const OTHERS: &[Pointwise] = &[
    Pointwise { name: "logical_and", config: Config::COMPARE, takes: TRUTHS, kernel: kernels::logical_and },
    Pointwise { name: "logical_or", config: Config::COMPARE, takes: TRUTHS, kernel: kernels::logical_or },
    Pointwise { name: "logical_xor", config: Config::COMPARE, takes: TRUTHS, kernel: kernels::logical_xor },
    Pointwise { name: "bitwise_and", config: Config::PROMOTE, takes: ALL_BITS, kernel: kernels::bitwise_and },
    Pointwise { name: "bitwise_or", config: Config::PROMOTE, takes: ALL_BITS, kernel: kernels::bitwise_or },
    Pointwise { name: "bitwise_xor", config: Config::PROMOTE, takes: ALL_BITS, kernel: kernels::bitwise_xor },
    Pointwise {
        name: "bitwise_left_shift",
        config: Config::PROMOTE,
        takes: Dtypes::INTEGERS,
        kernel: kernels::shift_left,
    },
    Pointwise {
        name: "bitwise_right_shift",
        config: Config::PROMOTE,
        takes: Dtypes::INTEGERS,
        kernel: kernels::shift_right,
    },
];

const OF_ONE: &[Pointwise] = &[
    Pointwise { name: "logical_not", config: PREDICATE, takes: TRUTHS, kernel: kernels::logical_not },
    Pointwise { name: "bitwise_not", config: Config::SAME, takes: BITS, kernel: kernels::bitwise_not },
];

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    for operator in COMPARISONS {
        forms::binary(lib, operator.name, move |dest, a, b| compare(dest, a, b, operator))?;
    }
    forms::register_binary(lib, OTHERS)?;
    forms::register_unary(lib, OF_ONE)
}

fn compare(dest: Dest<'_>, a: Input<'_>, b: Input<'_>, operator: &Pointwise) -> Result<Made> {
    let dtype = dtype_after(&[a, b], Config::COMPARE)?;
    if dtype.is_integral(false) && dtype != ScalarType::Int64 {
        // Differs from PyTorch: a tensor without dimensions that holds a number beyond the dtype of the tensor
        // it is compared with is compared as it is, not as what is left of it in that dtype, so that a `uint8`
        // is never below a negative one. Plain numbers wrap, as in PyTorch.
        let wide_a = widened(a, b, dtype)?;
        let wide_b = widened(b, a, dtype)?;
        if wide_a.is_some() || wide_b.is_some() {
            let a = wide_a.as_ref().map_or(a, Input::Tensor);
            let b = wide_b.as_ref().map_or(b, Input::Tensor);
            return operator.binary(dest, a, b);
        }
    }
    operator.binary(dest, a, b)
}

/// `a` as `int64`, if it is compared in a narrower dtype with a number `b` that this dtype does not hold.
fn widened(a: Input<'_>, b: Input<'_>, dtype: ScalarType) -> Result<Option<crate::Tensor>> {
    let number = match b {
        Input::Tensor(tensor)
            if tensor.rank() == 0
                && tensor.dtype() != dtype
                && !tensor.is_wrapped_number()
                && !tensor.is_meta() =>
        {
            tensor.item()?
        }
        _ => return Ok(None),
    };
    let (Scalar::Int(value), Input::Tensor(tensor)) = (number, a) else { return Ok(None) };
    let range = match dtype {
        ScalarType::UInt8 => 0..=i64::from(u8::MAX),
        ScalarType::Int8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
        ScalarType::Int16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        ScalarType::Int32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        ScalarType::UInt16 => 0..=i64::from(u16::MAX),
        ScalarType::UInt32 => 0..=i64::from(u32::MAX),
        _ => return Ok(None),
    };
    if range.contains(&value) { Ok(None) } else { tensor.to_dtype(ScalarType::Int64).map(Some) }
}
