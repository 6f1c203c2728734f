//! Pointwise operators: every way to the elements gives the same bits, and the small cases that broke others.

use aten::dispatch::{Dispatcher, Value};
use aten::indexing::step;
use aten::{ErrorKind, Result, Tensor};
use c10_core::{Complex, Scalar, ScalarType, f16};

/// Values that break vector code: signed zeros, infinities, NaN, ends of ranges, subnormal numbers.
fn specials() -> Vec<f32> {
    let mut values = vec![
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        1.0,
        -1.0,
        88.8,
        -103.5,
        1e6,
    ];
    values.extend((0..23).map(|i| (i as f32 - 11.0) * 0.37));
    values
}

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len() as i64]).unwrap()
}

fn call(name: &str, arguments: &[&Tensor]) -> Tensor {
    let operator = Dispatcher::global().find(name).unwrap();
    let arguments = arguments.iter().map(|&tensor| tensor.clone().into()).collect();
    let mut stack = operator.schema().unwrap().bind(arguments, Vec::new()).unwrap();
    operator.call_boxed(&mut stack).unwrap();
    match stack.pop() {
        Some(Value::Tensor(tensor)) => tensor,
        other => panic!("{name} gave {other:?}"),
    }
}

/// Every second element of twice as many.
fn spread(values: &[f32]) -> Tensor {
    let twice: Vec<f32> = values.iter().flat_map(|&x| [x, 77.0]).collect();
    tensor(&twice).as_strided(&[values.len() as i64], &[2]).unwrap()
}

#[track_caller]
fn assert_same_bits(what: &str, got: &Tensor, right: &Tensor) {
    let (got, right) = (got.to_vec::<f32>().unwrap(), right.to_vec::<f32>().unwrap());
    assert_eq!(got.len(), right.len(), "{what}");
    for (i, (got, right)) in got.iter().zip(&right).enumerate() {
        let same = got.to_bits() == right.to_bits() || (got.is_nan() && right.is_nan());
        assert!(same, "{what}: element {i} is {got:e}, not {right:e}");
    }
}

#[test]
fn one_operand_in_any_lane_and_layout() {
    let specials = specials();
    let operators = [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
        "sigmoid",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "erf",
        "erfc",
        "abs",
        "neg",
        "sign",
        "ceil",
        "floor",
        "round",
        "trunc",
        "frac",
        "relu",
        // Not gelu: as in PyTorch, it gives NaN for an infinity among several adjacent elements alone.
        "silu",
        "hardswish",
        "mish",
        "log_sigmoid",
        "square",
    ];
    for name in operators {
        let name = format!("aten::{name}");
        for length in 0..=65_usize {
            let values: Vec<f32> = (0..length).map(|i| specials[(i + length) % specials.len()]).collect();
            let whole = call(&name, &[&tensor(&values)]);
            assert_same_bits(&name, &call(&name, &[&spread(&values)]), &whole);
            if length % 13 == 0 {
                let alone: Vec<f32> = values
                    .iter()
                    .map(|&x| call(&name, &[&tensor(&[x])]).to_vec::<f32>().unwrap()[0])
                    .collect();
                assert_same_bits(&name, &tensor(&alone), &whole);
            }
        }
    }
}

#[test]
fn two_operands_in_any_lane_and_layout() {
    let specials = specials();
    let operators = [
        "add.Tensor",
        "sub.Tensor",
        "mul.Tensor",
        "div.Tensor",
        "remainder.Tensor",
        "fmod.Tensor",
        "floor_divide",
        "pow.Tensor_Tensor",
        "atan2",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "hypot",
        "copysign.Tensor",
        "logaddexp",
    ];
    for name in operators {
        let name = format!("aten::{name}");
        for length in (0..=65_usize).step_by(5).chain([1, 63, 64]) {
            let take = |by: usize| -> Vec<f32> {
                (0..length).map(|i| specials[(i * by + length) % specials.len()]).collect()
            };
            let (a, b) = (take(1), take(5));
            let whole = call(&name, &[&tensor(&a), &tensor(&b)]);
            assert_same_bits(&name, &call(&name, &[&spread(&a), &tensor(&b)]), &whole);
            assert_same_bits(&name, &call(&name, &[&tensor(&a), &spread(&b)]), &whole);
            // One number for all, and in place.
            for &number in &b[..length.min(9)] {
                let repeated = tensor(&vec![number; length]);
                let one = Tensor::from_slice(&[number], &[]).unwrap();
                let right = call(&name, &[&tensor(&a), &repeated]);
                assert_same_bits(&name, &call(&name, &[&tensor(&a), &one]), &right);
            }
        }
    }
    let a = tensor(&specials);
    let doubled = a.add(&a).unwrap();
    a.add_(&a).unwrap();
    assert_same_bits("add_ of itself", &a, &doubled);
}

#[test]
fn narrow_floats_are_computed_wide_and_rounded_once() {
    let a = Tensor::from_slice(&[f16::from_f32(-57.0625)], &[1]).unwrap();
    let b = Tensor::from_slice(&[f16::from_f32(1.2339)], &[1]).unwrap();
    let rest = a.remainder(&b).unwrap().to_vec::<f16>().unwrap()[0];
    let (a, b) = (-57.0625_f32, f32::from(f16::from_f32(1.2339)));
    assert_eq!(rest, f16::from_f32(a % b + b));
}

#[test]
fn writing_where_elements_are_one_is_refused() {
    let x = Tensor::from_slice(&[0.5_f32], &[1]).unwrap().expand(&[3]).unwrap();
    assert_eq!(x.cos_().unwrap_err().kind(), ErrorKind::Overlap);
    assert_eq!(x.cos().unwrap().to_vec::<f32>().unwrap(), [0.5_f32.cos(); 3]);
    let values = tensor(&[1.0, 2.0, 3.0]);
    assert_eq!(values.exp_out(&x).unwrap_err().kind(), ErrorKind::Overlap);
    // A transposed self overlaps in another order.
    let a = Tensor::from_slice(&[0_i64, 1, 2, 3], &[2, 2]).unwrap();
    assert_eq!(a.add_(&a.t().unwrap()).unwrap_err().kind(), ErrorKind::Overlap);
    assert_eq!(a.to_vec::<i64>().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn integers_wrap_and_never_panic() {
    let least = Tensor::from_slice(&[i64::MIN, 7], &[2]).unwrap();
    let minus_one = Tensor::from_slice(&[-1_i64], &[1]).unwrap();
    assert_eq!(least.remainder(&minus_one).unwrap().to_vec::<i64>().unwrap(), [0, 0]);
    assert_eq!(least.fmod(&minus_one).unwrap().to_vec::<i64>().unwrap(), [0, 0]);
    assert_eq!(least.floor_divide(&minus_one).unwrap().to_vec::<i64>().unwrap(), [i64::MIN, -7]);
    assert_eq!(least.abs().unwrap().to_vec::<i64>().unwrap(), [i64::MIN, 7]);
    let zero = Tensor::from_slice(&[1_i64, 0], &[2]).unwrap();
    let out = Tensor::from_slice(&[5_i64, 5], &[2]).unwrap();
    assert_eq!(least.floor_divide_out(&zero, &out).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(out.to_vec::<i64>().unwrap(), [5, 5]);
}

#[test]
fn integer_powers() {
    let base = Tensor::from_slice(&[0_i32, 1, 2, -1], &[4]).unwrap();
    assert_eq!(base.pow_scalar(-1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let exponent = Tensor::from_slice(&[-1_i32], &[1]).unwrap();
    assert_eq!(base.pow(&exponent).unwrap().to_vec::<i32>().unwrap(), [0, 1, 0, -1]);
    let ones = Tensor::from_slice(&[1_i32, 1], &[2]).unwrap();
    let power = call_number_first("aten::pow.Scalar", 5.5.into(), &ones).unwrap();
    assert_eq!((power.dtype(), power.to_vec::<f32>().unwrap()), (ScalarType::Float32, vec![5.5, 5.5]));
    // The rank does not change what is computed: 2^17 is 0 in eight bits.
    let two = Tensor::from_slice(&[2_u8], &[1]).unwrap();
    assert_eq!(two.pow_scalar(17).unwrap().to_vec::<u8>().unwrap(), [0]);
    let two = Tensor::from_slice(&[2_u8], &[]).unwrap();
    assert_eq!(two.pow_scalar(17).unwrap().to_vec::<u8>().unwrap(), [0]);
}

fn call_number_first(name: &str, number: Scalar, tensor: &Tensor) -> Result<Tensor> {
    let mut stack = vec![Value::from(number), tensor.clone().into()];
    Dispatcher::global().find(name).unwrap().call_boxed(&mut stack)?;
    match stack.pop() {
        Some(Value::Tensor(tensor)) => Ok(tensor),
        other => panic!("{name} gave {other:?}"),
    }
}

#[test]
fn comparisons_are_those_of_the_numbers() {
    let bytes = Tensor::from_slice(&[1_u8, 2, 3, 4], &[4]).unwrap();
    let negative = Tensor::from_slice(&[-19_i8], &[]).unwrap();
    assert_eq!(bytes.le(&negative).unwrap().to_vec::<bool>().unwrap(), [false; 4]);
    assert_eq!(bytes.gt(&negative).unwrap().to_vec::<bool>().unwrap(), [true; 4]);
    let zero = Tensor::from_slice(&[0_i32], &[1]).unwrap();
    assert_eq!(zero.lt_scalar(0.5).unwrap().to_vec::<bool>().unwrap(), [true]);
}

#[test]
fn divisions_by_zero_and_signs_of_zeros() {
    let a = tensor(&[-1.0, 0.0, 1.0]);
    let quotients = a.floor_divide(&tensor(&[0.0])).unwrap().to_vec::<f32>().unwrap();
    assert!(quotients[0] == f32::NEG_INFINITY && quotients[1].is_nan() && quotients[2] == f32::INFINITY);
    let rests = tensor(&[-1.0, 2.0]).remainder(&tensor(&[1.0, -1.0])).unwrap().to_vec::<f32>().unwrap();
    assert_eq!([rests[0].to_bits(), rests[1].to_bits()], [0.0_f32.to_bits(), (-0.0_f32).to_bits()]);
}

#[test]
fn complex_sizes_and_roots() {
    let z = Tensor::from_slice(&[Complex::new(0.0_f32, -1e20)], &[1]).unwrap();
    assert_eq!(z.abs().unwrap().to_vec::<f32>().unwrap(), [1e20]);
    let root = z.sqrt().unwrap().to_vec::<Complex<f32>>().unwrap()[0];
    assert_eq!(root, Complex::new(7.071_067_6e9, -7.071_067_6e9));
    assert_eq!(z.abs_().unwrap_err().kind(), ErrorKind::Dtype);
}

#[test]
fn nothing_to_do_is_no_trouble() {
    let none = Tensor::from_slice::<f32>(&[], &[0, 3]).unwrap();
    assert_eq!(none.exp().unwrap().sizes()[..], [0, 3]);
    let row = tensor(&[1.0, 2.0, 3.0]);
    assert_eq!(none.add(&row).unwrap().sizes()[..], [0, 3]);
    assert_eq!(none.floor_divide(&none).unwrap().sizes()[..], [0, 3]);
    assert_eq!(none.clamp_min(0).unwrap().sizes()[..], [0, 3]);
}

#[test]
fn numbers_wrap_and_limits_saturate() {
    let bytes = Tensor::from_slice(&[0_u8, 5, 200], &[3]).unwrap();
    assert_eq!(bytes.mul_scalar(300).unwrap().to_vec::<u8>().unwrap(), [0, 220, 96]);
    assert_eq!(bytes.add_scalar(-1).unwrap().to_vec::<u8>().unwrap(), [255, 4, 199]);
    assert_eq!(bytes.clamp_max(300).unwrap().to_vec::<u8>().unwrap(), [0, 5, 200]);
    assert_eq!(bytes.hardtanh().unwrap().to_vec::<u8>().unwrap(), [0, 1, 1]);
}

#[test]
fn a_condition_chooses() {
    let a = tensor(&[1.0, 2.0, 3.0]);
    let mask = Tensor::from_slice(&[true, false, true], &[3]).unwrap();
    let b = Tensor::from_slice(&[7_i64], &[]).unwrap();
    let chosen = call("aten::where.self", &[&mask, &a, &b]);
    assert_eq!(chosen.to_vec::<f32>().unwrap(), [1.0, 7.0, 3.0]);
    let number = Tensor::from_slice(&[1.0_f32], &[]).unwrap();
    let refused = Dispatcher::global().find("aten::where.self").unwrap().call_boxed(&mut vec![
        number.into(),
        a.into(),
        b.into(),
    ]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Dtype);
}

/// Inputs that are walked across their lines are laid out tile by tile first: whatever the width of the elements,
/// the steps, and where the edges of tiles fall.
#[test]
fn operands_that_are_walked_crosswise_give_what_their_copies_give() {
    use ScalarType::*;
    let same = |a: &Tensor, b: &Tensor| {
        let equal = aten::ops::handles::EQ_TENSOR.call(a, b).unwrap();
        equal.all().unwrap().item().unwrap() == Scalar::Bool(true)
    };
    for dtype in [UInt8, Int16, Float16, Float32, Int64, Complex64, Complex128, Bool] {
        let numbers = |sizes: &[i64]| {
            let n: i64 = sizes.iter().product();
            Tensor::arange(n, Int64)
                .unwrap()
                .remainder_scalar(7)
                .unwrap()
                .to(dtype)
                .unwrap()
                .view(sizes)
                .unwrap()
        };
        let other = numbers(&[301, 517]);
        for across in [
            numbers(&[517, 301]).t().unwrap(),
            numbers(&[1034, 602]).i((step(.., 2), step(.., 2))).unwrap().t().unwrap(),
        ] {
            let copy = across.contiguous().unwrap();
            let sum = across.add(&other).unwrap();
            assert!(same(&sum, &copy.add(&other).unwrap()), "{dtype:?}");
            let both = across.add(&across).unwrap();
            assert!(same(&both, &copy.add(&copy).unwrap()), "{dtype:?}");
            let target = other.deep_clone().unwrap();
            target.add_(&across).unwrap();
            assert!(same(&target, &sum), "{dtype:?}");
        }
    }
}
