//! Derivatives of functions of numbers, element by element.

use aten::ops::handles;
use aten::{Result, Tensor, tensor};
use c10_core::{Complex, Scalar, ScalarType};
use tensorplay_autograd::{TensorAutograd, grad};

use crate::numeric::{check, check_first, check_one, complex, numbers};

/// An operator of one tensor.
type One = (&'static str, fn(&Tensor) -> Result<Tensor>);

/// Numbers from a half to two and a half.
fn above_zero(seed: u32) -> Tensor {
    numbers(&[3], seed).add_scalar(1.5).unwrap()
}

fn leaf(values: &[f64]) -> Tensor {
    Tensor::from_elements(values).unwrap().requires_grad_(true).unwrap()
}

/// The gradients of the sum of what `f` makes.
fn gradients<const N: usize>(inputs: [&[f64]; N], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> [Vec<f64>; N] {
    let leaves: Vec<Tensor> = inputs.iter().map(|values| leaf(values)).collect();
    let sum = f(&leaves).unwrap().sum().unwrap();
    let made = grad(&[sum], &leaves).unwrap();
    std::array::from_fn(|at| made[at].to_vec::<f64>().unwrap())
}

#[test]
fn functions_of_one_number_have_second_derivatives() {
    let anywhere: &[One] = &[
        ("abs", Tensor::abs),
        ("neg", Tensor::neg),
        ("frac", Tensor::frac),
        ("asinh", Tensor::asinh),
        ("atan", Tensor::atan),
        ("cos", Tensor::cos),
        ("cosh", Tensor::cosh),
        ("deg2rad", Tensor::deg2rad),
        ("erf", Tensor::erf),
        ("erfc", Tensor::erfc),
        ("exp", Tensor::exp),
        ("exp2", Tensor::exp2),
        ("expm1", Tensor::expm1),
        ("i0", Tensor::i0),
        ("rad2deg", Tensor::rad2deg),
        ("sigmoid", Tensor::sigmoid),
        ("sin", Tensor::sin),
        ("sinc", Tensor::sinc),
        ("sinh", Tensor::sinh),
        ("square", Tensor::square),
        ("tan", Tensor::tan),
        ("tanh", Tensor::tanh),
        ("special_bessel_j0", Tensor::special_bessel_j0),
        ("special_bessel_j1", Tensor::special_bessel_j1),
        ("special_erfcx", Tensor::special_erfcx),
        ("special_i0e", Tensor::special_i0e),
        ("special_i1", Tensor::special_i1),
        ("special_i1e", Tensor::special_i1e),
        ("special_log_ndtr", Tensor::special_log_ndtr),
        ("elu", Tensor::elu),
        ("celu", Tensor::celu),
        ("selu", Tensor::selu),
        ("gelu", Tensor::gelu),
        ("hardsigmoid", Tensor::hardsigmoid),
        ("hardswish", Tensor::hardswish),
        ("leaky_relu", Tensor::leaky_relu),
        ("log_sigmoid", Tensor::log_sigmoid),
        ("mish", Tensor::mish),
        ("relu", Tensor::relu),
        ("relu6", Tensor::relu6),
        ("silu", Tensor::silu),
        ("softplus", Tensor::softplus),
        ("softshrink", Tensor::softshrink),
    ];
    for (name, f) in anywhere {
        check_one(name, &[numbers(&[3], 1)], |x| f(&x[0]));
    }
    check_first("floor", &[numbers(&[3], 1)], |x| Ok(vec![x[0].floor()?]));
    let positive: &[One] = &[
        ("digamma", Tensor::digamma),
        ("lgamma", Tensor::lgamma),
        ("log", Tensor::log),
        ("log10", Tensor::log10),
        ("log1p", Tensor::log1p),
        ("log2", Tensor::log2),
        ("reciprocal", Tensor::reciprocal),
        ("rsqrt", Tensor::rsqrt),
        ("sqrt", Tensor::sqrt),
        ("special_entr", Tensor::special_entr),
        ("special_bessel_y0", Tensor::special_bessel_y0),
        ("special_modified_bessel_k0", Tensor::special_modified_bessel_k0),
        ("acosh of one more", |x| x.add_scalar(1.0)?.acosh()),
        ("polygamma", |x| Tensor::polygamma(2, x)),
        ("mvlgamma", |x| x.add_scalar(1.0)?.mvlgamma(3)),
    ];
    for (name, f) in positive {
        check_one(name, &[above_zero(2)], |x| f(&x[0]));
    }
    let inside: &[One] = &[
        ("acos", Tensor::acos),
        ("asin", Tensor::asin),
        ("atanh", Tensor::atanh),
        ("erfinv", Tensor::erfinv),
        ("logit of a share", |x| handles::LOGIT.call(&x.add_scalar(1.0)?.mul_scalar(0.5)?, None)),
        ("special_ndtri of a share", |x| x.add_scalar(1.0)?.mul_scalar(0.5)?.special_ndtri()),
    ];
    for (name, f) in inside {
        check_one(name, &[numbers(&[3], 3).mul_scalar(0.9).unwrap()], |x| f(&x[0]));
    }
}

#[test]
fn holomorphic_functions_conjugate() {
    let functions: &[One] = &[
        ("acos", Tensor::acos),
        ("acosh", Tensor::acosh),
        ("angle", Tensor::angle),
        ("asin", Tensor::asin),
        ("asinh", Tensor::asinh),
        ("atan", Tensor::atan),
        ("abs", Tensor::abs),
        ("exp", Tensor::exp),
        ("log", Tensor::log),
        ("reciprocal", Tensor::reciprocal),
        ("rsqrt", Tensor::rsqrt),
        ("sgn", Tensor::sgn),
        ("sigmoid", Tensor::sigmoid),
        ("sinc", Tensor::sinc),
        ("sqrt", Tensor::sqrt),
        ("tan", Tensor::tan),
        ("tanh", Tensor::tanh),
    ];
    for (name, f) in functions {
        check_one(name, &[numbers(&[3, 2], 4)], |x| f(&complex(&x[0])?));
    }
    let exponent = Scalar::Complex(Complex::new(1.5, -0.5));
    check_one("pow", &[numbers(&[3, 2], 5)], |x| complex(&x[0])?.pow_scalar(exponent));
    check_one("pow", &[numbers(&[3, 2], 5), numbers(&[3, 2], 6)], |x| complex(&x[0])?.pow(&complex(&x[1])?));
    check_one("div", &[numbers(&[3, 2], 5), numbers(&[3], 6)], |x| x[1].div(&complex(&x[0])?));
    check_one("add", &[numbers(&[3, 2], 5), numbers(&[3], 6)], |x| {
        handles::ADD_TENSOR.call(&x[1], &complex(&x[0])?, exponent)
    });
    check_one("complex", &[numbers(&[3], 5), numbers(&[3], 6)], |x| x[0].complex(&x[1]));
    check_one("polar", &[above_zero(5), numbers(&[3], 6)], |x| x[0].polar(&x[1]));
}

#[test]
fn functions_of_two_numbers_have_second_derivatives() {
    let (a, b) = (numbers(&[2, 3], 7), numbers(&[3], 8));
    type Two = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>);
    let functions: &[Two] = &[
        ("add", |x, y| handles::ADD_TENSOR.call(x, y, 2.5.into())),
        ("sub", |x, y| handles::SUB_TENSOR.call(x, y, 2.5.into())),
        ("rsub", |x, y| handles::RSUB_TENSOR.call(x, y, 2.5.into())),
        ("mul", Tensor::mul),
        ("div", Tensor::div),
        ("fmod", Tensor::fmod),
        ("remainder", Tensor::remainder),
        ("maximum", Tensor::maximum),
        ("fmin", Tensor::fmin),
        ("atan2", Tensor::atan2),
        ("hypot", Tensor::hypot),
        ("copysign", Tensor::copysign),
        ("logaddexp", Tensor::logaddexp),
        ("logaddexp2", Tensor::logaddexp2),
        ("pow", |x, y| x.abs()?.pow(y)),
        ("xlogy", |x, y| x.xlogy(&y.abs()?)),
        ("special_xlog1py", |x, y| x.special_xlog1py(&y.abs()?)),
        ("lerp", |x, y| handles::LERP_SCALAR.call(x, y, 0.3.into())),
        ("clamp_min", Tensor::clamp_min_tensor),
    ];
    for (name, f) in functions {
        check_one(name, &[a.clone(), b.clone()], |x| f(&x[0], &x[1]));
    }
    let three = [a, b, numbers(&[2, 1], 9)];
    check_one("addcmul", &three, |x| handles::ADDCMUL.call(&x[0], &x[1], &x[2], 2.5.into()));
    check_one("addcdiv", &three, |x| handles::ADDCDIV.call(&x[0], &x[1], &x[2].add_scalar(1.5)?, 2.5.into()));
    check_one("lerp", &three, |x| x[0].lerp(&x[1], &x[2]));
    check_one("clamp", &three, |x| handles::CLAMP_TENSOR.call(&x[0], Some(&x[1]), Some(&x[2])));
    check_one("where", &three, |x| x[2].gt_scalar(0.0)?.where_self(&x[0], &x[1]));
}

#[test]
fn powers_at_zero_and_of_numbers() {
    for (exponent, expected) in [(0.0, 0.0), (1.0, 1.0), (2.0, 0.0), (3.0, 0.0)] {
        let [of_base] = gradients([&[0.0]], |x| x[0].pow_scalar(exponent));
        assert_eq!(of_base, [expected], "exponent {exponent}");
    }
    let [of_base, of_exponent] = gradients([&[0.0, 0.0, 2.0], &[0.0, 2.0, 3.0]], |x| x[0].pow(&x[1]));
    assert_eq!(of_base, [0.0, 0.0, 12.0]);
    assert_eq!(of_exponent, [0.0, 0.0, 8.0 * 2.0_f64.ln()]);
    let [of_exponent] = gradients([&[0.0, 2.0]], |x| Tensor::pow_of_scalar(0.0, &x[0]));
    assert_eq!(of_exponent, [0.0, 0.0]);
    check_one("2 ** x", &[numbers(&[4], 10)], |x| Tensor::pow_of_scalar(2.0, &x[0]));
}

#[test]
fn those_that_are_the_same_share_the_gradient() {
    let (a, b): (&[f64], &[f64]) = (&[1.0, 2.0, 3.0], &[1.0, 3.0, 2.0]);
    assert_eq!(gradients([a, b], |x| x[0].maximum(&x[1])), [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]);
    assert_eq!(gradients([a, b], |x| x[0].minimum(&x[1])), [[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]);
    let nan = f64::NAN;
    let two = gradients([&[nan, 1.0, 2.0], &[1.0, nan, 2.0]], |x| x[0].fmax(&x[1]));
    assert_eq!(two, [[0.0, 1.0, 0.5], [1.0, 0.0, 0.5]]);
    let three = gradients([&[1.0, 0.5, 3.0, 1.5], &[1.0, 1.0, 1.0, 3.0], &[2.0, 2.0, 2.0, 2.0]], |x| {
        handles::CLAMP_TENSOR.call(&x[0], Some(&x[1]), Some(&x[2]))
    });
    assert_eq!(three, [[0.5, 0.0, 0.0, 0.0], [0.5, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]);
}

/// Case 83: the logarithm of the sum of two nothings is nothing, and nothing of the gradient is theirs.
#[test]
fn logaddexp_of_nothing() {
    let none = f64::NEG_INFINITY;
    let three = gradients([&[none], &[none], &[2.0]], |x| x[0].logaddexp(&x[1])?.logaddexp(&x[2]));
    assert_eq!(three, [[0.0], [0.0], [1.0]]);
    let two = gradients([&[none, 5.0], &[none, none]], |x| x[0].logaddexp(&x[1]));
    assert_eq!(two, [[0.0, 1.0], [0.0, 0.0]]);
}

#[test]
fn no_gradient_is_nan_at_the_edges() {
    let zero: &[f64] = &[0.0];
    for (name, f) in [
        ("sinc", Tensor::sinc as fn(&Tensor) -> Result<Tensor>),
        ("special_bessel_j1", Tensor::special_bessel_j1),
        ("special_i1", Tensor::special_i1),
        ("special_i1e", Tensor::special_i1e),
        ("abs", Tensor::abs),
        ("sgn", Tensor::sgn),
    ] {
        assert!(gradients([zero], |x| f(&x[0]))[0][0].is_finite(), "{name}");
    }
    assert_eq!(gradients([zero, zero], |x| x[0].atan2(&x[1])), [[0.0], [0.0]]);
    assert_eq!(gradients([zero, zero], |x| x[0].xlogy(&x[1]))[0], [0.0]);
    let infinite = gradients([&[f64::NAN, f64::INFINITY, 1.0]], |x| x[0].nan_to_num());
    assert_eq!(infinite, [[0.0, 0.0, 1.0]]);
}

#[test]
fn what_overwrites_a_tensor_leaves_it_no_gradient() {
    type InPlace = (&'static str, fn(&Tensor) -> Result<&Tensor>);
    let all: &[InPlace] = &[
        ("zero_", Tensor::zero_),
        ("eq_", |x| x.eq_scalar_(1.0)),
        ("logical_not_", Tensor::logical_not_),
        ("fill_", |x| x.fill_scalar_(2.0)),
        ("floor_", Tensor::floor_),
        ("normal_", Tensor::normal_),
        ("uniform_", Tensor::uniform_),
    ];
    for (name, change) in all {
        let [of] = gradients([&[1.0, -2.0]], |x| {
            let y = x[0].mul_scalar(3.0)?;
            change(&y)?;
            Ok(y)
        });
        assert_eq!(of, [0.0, 0.0], "{name}");
    }
    let two = gradients([&[1.0, 2.0], &[5.0]], |x| {
        let y = x[0].mul_scalar(3.0)?;
        y.copy_(&x[1])?;
        Ok(y)
    });
    assert_eq!(two, [vec![0.0, 0.0], vec![2.0]]);
}

/// In-place forms whose overloads or arguments are called otherwise than those of the operator.
#[test]
fn powers_and_others_in_place() {
    let two = [above_zero(15), numbers(&[3], 16)];
    let changed = |x: &Tensor, change: &dyn Fn(&Tensor) -> Result<()>| {
        let y = x.mul_scalar(2.0)?;
        change(&y)?;
        Ok(y)
    };
    check_one("pow_ of a number", &two, |x| changed(&x[0], &|y| handles::POW__SCALAR.call(y, 2.5.into())));
    check_one("pow_", &two, |x| changed(&x[0], &|y| handles::POW__TENSOR.call(y, &x[1])));
    check_one("polygamma_", &two, |x| changed(&x[0], &|y| handles::POLYGAMMA_.call(y, 1)));
    check_one("xlogy_", &two, |x| changed(&x[1], &|y| handles::XLOGY__TENSOR.call(y, &x[0])));
    check_one("tanh_", &two, |x| changed(&x[1], &|y| handles::TANH_.call(y)));
    check_one("div_", &two, |x| changed(&x[1], &|y| handles::DIV__TENSOR.call(y, &x[0])));
    check_one("lerp_", &two, |x| changed(&x[1], &|y| handles::LERP__SCALAR.call(y, &x[0], 0.3.into())));
}

#[test]
fn masks_choose_gradients() {
    let mask = tensor![true, false, true].unwrap();
    let (x, y) = (numbers(&[2, 3], 11), numbers(&[6], 12));
    check("masked_fill", &[x.clone(), numbers(&[], 13)], |x| {
        Ok(vec![handles::MASKED_FILL_TENSOR.call(&x[0], &mask, &x[1])?])
    });
    check("masked_scatter", &[x.clone(), y], |x| Ok(vec![x[0].masked_scatter(&mask, &x[1])?]));
    check_one("masked_select", &[x], |x| x[0].masked_select(&mask));
}

#[test]
fn casts_and_numbers_keep_dtypes() {
    let x = leaf(&[1.5, 2.5]);
    let y = x.to(ScalarType::Float32).unwrap().mul_scalar(2.0).unwrap();
    let [made] = &grad(&[y.sum().unwrap()], std::slice::from_ref(&x)).unwrap()[..] else { panic!("one") };
    assert_eq!(made.dtype(), ScalarType::Float64);
    assert_eq!(made.to_vec::<f64>().unwrap(), [2.0, 2.0]);
}

#[test]
fn what_has_no_derivative_says_so() {
    let (a, b) = (leaf(&[1.5, 2.5]), leaf(&[1.0, 0.5]));
    let y = a.igamma(&b).unwrap().sum().unwrap();
    let error = grad(&[y], std::slice::from_ref(&a)).unwrap_err();
    assert_eq!(error.kind(), aten::ErrorKind::NotImplemented);
    check_first("igamma", &[above_zero(14)], |x| {
        Ok(vec![Tensor::full_like(&x[0].detach()?, 2.0, aten::TensorOptions::default())?.igamma(&x[0])?])
    });
    assert!(!a.eq(&b).unwrap().requires_grad());
}
