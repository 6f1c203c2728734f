//! Calls an operator on a tensor of few elements so many times, for tools that count what that takes:
//! `op_calls CASE CALLS`. A case with `followed_` before it runs with autograd registered and no gradient wanted.

#![expect(clippy::print_stderr, reason = "a program: it says how it is called")]

use aten::ops::handles;
use aten::{Result, Tensor};
use c10_core::ScalarType;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(case), Some(calls)) = (arguments.next(), arguments.next()) else {
        eprintln!(
            "op_calls [followed_]add|add_two|add_rows|add_|mul_number|empty|zeros|view|transpose|narrow|select CALLS"
        );
        std::process::exit(2);
    };
    let calls: u64 = calls.parse()?;
    aten::parallel::set_num_threads(1);
    let case = match case.strip_prefix("followed_") {
        Some(case) => {
            tensorplay_autograd::init()?;
            case
        }
        None => &case,
    };
    let one = Tensor::ones(&[1], ScalarType::Float32)?;
    let m = Tensor::ones(&[4, 6], ScalarType::Float32)?;
    let two = Tensor::ones(&[1], ScalarType::Float32)?;
    let (wide, row) =
        (Tensor::ones(&[512, 2048], ScalarType::Float32)?, Tensor::ones(&[2048], ScalarType::Float32)?);
    let call: &dyn Fn() -> Result<Tensor> = match case {
        "add" => &|| one.add(&one),
        "add_two" => &|| one.add(&two),
        "add_rows" => &|| wide.add(&row),
        "add_" => &|| handles::ADD__TENSOR.call(&one, &one, 0.into()).map(|()| one.clone()),
        "mul_number" => &|| handles::MUL_SCALAR.call(&one, 2.0.into()),
        "empty" => &|| Tensor::empty(&[1], ScalarType::Float32),
        "zeros" => &|| Tensor::zeros(&[1], ScalarType::Float32),
        "view" => &|| m.view(&[24]),
        "transpose" => &|| m.transpose(0, 1),
        "narrow" => &|| m.narrow(0, 1, 2),
        "select" => &|| m.select(0, 1),
        _ => return Err(format!("{case:?} is no case").into()),
    };
    for _ in 0..calls {
        call()?;
    }
    Ok(())
}
