//! Random operators draw what PyTorch's draw under the same seeds.

use aten::dispatch::{Dispatcher, Stack, Value};
use aten::random::Generator;
use aten::tensor::SliceOptions;
use aten::{ErrorKind, Tensor, TensorOptions};
use c10_core::{Device, Scalar, ScalarType};
use serde_json::Value as Json;

use crate::random::{near, recorded, scalar, size, tolerance};

#[test]
fn recorded_sequences_are_met_by_operators() {
    let mut calls = 0;
    for name in ["random.json.gz", "random_dtypes.json.gz"] {
        for case in recorded(name)["cases"].as_array().unwrap() {
            let seed = &case["seed"];
            let generator =
                Generator::with_seed(seed.as_u64().unwrap_or_else(|| seed.as_i64().unwrap() as u64));
            for call in case["calls"].as_array().unwrap() {
                meets(&generator, call);
                calls += 1;
            }
        }
    }
    assert!(calls > 1000);
}

fn meets(generator: &Generator, call: &Json) {
    let name = call["call"].as_str().unwrap();
    let out = called(generator, name, call);
    let flat = out.reshape(&[-1]).unwrap();
    assert_eq!(flat.dtype().name(), call["out"]["dtype"].as_str().unwrap(), "{call}");
    let expected = call["out"]["data"].as_array().unwrap();
    assert_eq!(flat.numel() as usize, expected.len(), "{call}");
    for (i, expected) in expected.iter().enumerate() {
        let (actual, expected) = (flat.select(0, i as i64).unwrap().item().unwrap(), scalar(expected));
        let met = match (actual, expected) {
            (Scalar::Double(actual), Scalar::Double(expected)) => {
                near(actual, expected, tolerance(name, flat.dtype().name()))
            }
            _ => actual == expected,
        };
        assert!(met, "{actual}, not {expected}, at {i}: {call}");
    }
}

fn run(operator: &str, mut stack: Stack) -> Tensor {
    Dispatcher::global().find(operator).unwrap().call_boxed(&mut stack).unwrap();
    match stack.pop() {
        Some(Value::Tensor(tensor)) => tensor,
        other => panic!("{operator}: {other:?}"),
    }
}

fn called(generator: &Generator, name: &str, call: &Json) -> Tensor {
    let args = call["args"].as_array().unwrap();
    let dtype = call["kwargs"]["dtype"].as_str().map(|name| name.parse::<ScalarType>().unwrap());
    let generator = || Value::from(generator.clone());
    let options = || [dtype.into(), Value::None, Value::None, Value::None];
    let sizes = |arg: &Json| Value::from(vec![size(arg) as i64]);
    let weights = || {
        let weights: Vec<f64> = args[0].as_array().unwrap().iter().map(|w| w.as_f64().unwrap()).collect();
        let weights = Tensor::from_elements(&weights).unwrap();
        weights.to(dtype.unwrap_or(ScalarType::Float32)).unwrap()
    };
    match name {
        "rand" | "randn" => {
            let stack = [sizes(&args[0]), generator()].into_iter().chain(options()).collect();
            run(&format!("aten::{name}.generator"), stack)
        }
        "randint" => {
            let bounds = [args[0].as_i64().into(), args[1].as_i64().into(), sizes(&args[2]), generator()];
            run("aten::randint.low_generator", bounds.into_iter().chain(options()).collect())
        }
        "randperm" => {
            let stack = [args[0].as_i64().into(), generator()].into_iter().chain(options()).collect();
            run("aten::randperm.generator", stack)
        }
        "bernoulli" => run("aten::bernoulli", vec![weights().into(), generator()]),
        "multinomial" => {
            let replacement = args.get(2).is_some_and(|arg| arg == &Json::Bool(true));
            let stack = vec![weights().into(), args[1].as_i64().into(), replacement.into(), generator()];
            run("aten::multinomial", stack)
        }
        _ => {
            let options = TensorOptions::from(dtype.unwrap_or(ScalarType::Float32));
            let filled = Tensor::zeros(&[size(&args[0]) as i64], options).unwrap();
            let (operator, defaults): (&str, &[f64]) = match (name, args.len()) {
                ("random_", 1) => ("random_", &[]),
                ("random_", _) => ("random_.from", &[]),
                ("bernoulli_", _) => ("bernoulli_.float", &[]),
                ("log_normal_", _) => (name, &[1.0, 2.0]),
                ("cauchy_", _) => (name, &[0.0, 1.0]),
                _ => (name, &[]),
            };
            let mut stack: Stack = vec![filled.into()];
            stack.extend(
                args[1..].iter().map(|arg| if arg.is_null() { Value::None } else { scalar(arg).into() }),
            );
            stack.extend(defaults.iter().skip(args.len() - 1).map(|&default| Value::from(default)));
            stack.push(generator());
            run(&format!("aten::{operator}"), stack)
        }
    }
}

#[test]
fn parameters_out_of_range_are_refused_and_draw_nothing() {
    let x = Tensor::zeros(&[3], ScalarType::Float32).unwrap();
    let generator = Generator::with_seed(1);
    let state = generator.state();
    let refused = |operator: &str, args: Vec<Value>| {
        let mut stack = vec![Value::from(x.clone())];
        stack.extend(args);
        stack.push(generator.clone().into());
        let operator = Dispatcher::global().find(operator).unwrap();
        assert_eq!(
            operator.call_boxed(&mut stack).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{operator:?}"
        );
    };
    refused("aten::uniform_", vec![2.0.into(), 1.0.into()]);
    refused("aten::uniform_", vec![f64::MIN.into(), 1.0.into()]);
    refused("aten::normal_", vec![0.0.into(), (-1.0).into()]);
    refused("aten::normal_", vec![0.0.into(), f64::NAN.into()]);
    refused("aten::bernoulli_.float", vec![1.5.into()]);
    refused("aten::exponential_", vec![0.0.into()]);
    refused("aten::geometric_", vec![1.0.into()]);
    refused("aten::cauchy_", vec![0.0.into(), 0.0.into()]);
    refused("aten::log_normal_", vec![0.0.into(), 0.0.into()]);
    refused("aten::random_.from", vec![5_i64.into(), Value::from(5_i64)]);
    refused("aten::multinomial", vec![2_i64.into(), false.into()]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0; 3]);
    assert_eq!((x.version(), generator.state()), (0, state));
}

#[test]
fn strided_tensors_are_filled_in_the_order_of_memory() {
    let generator = Generator::with_seed(9);
    let whole = Tensor::zeros(&[4, 6], ScalarType::Float64).unwrap();
    let view =
        whole.transpose(0, 1).unwrap().slice_with(SliceOptions { dim: 1, step: 2, ..Default::default() });
    let view = view.unwrap();
    let mut stack = vec![view.clone().into(), 0.0.into(), 1.0.into(), generator.clone().into()];
    Dispatcher::global().find("aten::uniform_").unwrap().call_boxed(&mut stack).unwrap();
    let expected =
        Tensor::rand_generator(&[12], Some(&Generator::with_seed(9)), ScalarType::Float64).unwrap();
    let expected = expected.to_vec::<f64>().unwrap();
    let rows = whole.to_vec::<f64>().unwrap();
    assert_eq!(rows[..6], expected[..6]);
    assert_eq!(rows[6..12], [0.0; 6]);
    assert_eq!(rows[12..18], expected[6..]);
}

#[test]
fn meta_tensors_draw_nothing() {
    let options = TensorOptions::from((ScalarType::Float32, Device::META));
    let generator = Generator::with_seed(3);
    let state = generator.state();
    let x = Tensor::rand_generator(&[2, 3], Some(&generator), options).unwrap();
    assert_eq!((x.sizes(), x.device()), ([2, 3].into(), Device::META));
    assert_eq!(x.multinomial(2).unwrap().sizes(), [2, 2]);
    assert_eq!(generator.state(), state);
}
