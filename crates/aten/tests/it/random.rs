//! Generators and distributions against what PyTorch drew under the same seeds.

use std::fs::File;
use std::num::NonZeroU64;
use std::path::Path;

use aten::random::{
    Continuous, CumulativeDistribution, Discrete, Draws, Generator, Real, STATE_BYTES, Uniform,
    first_categories,
};
use c10_core::{Element, ErrorKind, Scalar, bf16, f16};
use flate2::read::GzDecoder;
use serde_json::Value;

pub(crate) fn recorded(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    serde_json::from_reader(GzDecoder::new(File::open(path).unwrap())).unwrap()
}

#[test]
fn recorded_sequences_are_met() {
    assert_eq!(calls_met("random.json.gz"), 616);
}

#[test]
fn recorded_sequences_in_every_dtype_are_met() {
    assert!(calls_met("random_dtypes.json.gz") > 300);
}

/// Repeats the calls of every case on one generator.
fn calls_met(name: &str) -> usize {
    let recorded = recorded(name);
    let mut calls_met = 0;
    for case in recorded["cases"].as_array().unwrap() {
        let seed = &case["seed"];
        let generator = Generator::new();
        generator.manual_seed(seed.as_u64().unwrap_or_else(|| seed.as_i64().unwrap() as u64));
        for call in case["calls"].as_array().unwrap() {
            let context = &format!("seed {seed}, call {calls_met}, {call}");
            generator.draw(|draws| meets(draws, call, context));
            calls_met += 1;
        }
    }
    calls_met
}

fn meets(draws: &mut Draws<'_>, call: &Value, context: &str) {
    let name = call["call"].as_str().unwrap();
    let dtype = call["kwargs"]["dtype"].as_str();
    let default = if matches!(name, "randint" | "randperm") { "int64" } else { "float32" };
    let args = call["args"].as_array().unwrap();
    let expected: Vec<Scalar> = call["out"]["data"].as_array().unwrap().iter().map(scalar).collect();
    let continuous = matches!(
        name,
        "rand" | "randn" | "uniform_" | "normal_" | "exponential_" | "cauchy_" | "log_normal_"
    );
    let of_weights = matches!(name, "bernoulli" | "multinomial");
    macro_rules! call_in {
        ($call_of:ident; $($dtype:literal => $element:ty;)*) => {
            match dtype.unwrap_or(default) {
                $($dtype => $call_of::<$element>(draws, name, args, expected.len()),)*
                other => panic!("{other}: {context}"),
            }
        };
    }
    let actual: Vec<Scalar> = if continuous || of_weights {
        call_in! { continuous_call;
            "float16" => f16; "bfloat16" => bf16; "float32" => f32; "float64" => f64;
        }
    } else {
        call_in! { discrete_call;
            "float16" => f16; "bfloat16" => bf16; "float32" => f32; "float64" => f64;
            "uint8" => u8; "int8" => i8; "int16" => i16; "int32" => i32; "int64" => i64; "bool" => bool;
            "uint16" => u16; "uint32" => u32; "uint64" => u64;
        }
    };
    assert_eq!(actual.len(), expected.len(), "{context}");
    for (&actual, &expected) in actual.iter().zip(&expected) {
        let near = match (actual, expected) {
            (Scalar::Double(actual), Scalar::Double(expected)) if continuous => {
                near(actual, expected, tolerance(name, dtype.unwrap_or(default)))
            }
            _ => actual == expected,
        };
        assert!(near, "{actual}, not {expected}: {context}");
    }
}

/// PyTorch's vector paths and its scalar ones differ in the last bits; what is only drawn and scaled is exact.
pub(crate) fn tolerance(name: &str, dtype: &str) -> f64 {
    match (name, dtype) {
        ("rand" | "uniform_", _) => 0.0,
        (_, "float64") => 1e-13,
        (_, "float32") => 1e-6,
        (_, "float16") => 1e-3,
        _ => 8e-3,
    }
}

pub(crate) fn near(actual: f64, expected: f64, tolerance: f64) -> bool {
    (actual - expected).abs() <= tolerance * expected.abs().max(1e-1)
}

pub(crate) fn scalar(value: &Value) -> Scalar {
    match value {
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Number(number) if number.is_i64() => Scalar::Int(number.as_i64().unwrap()),
        Value::Number(number) if number.is_u64() => Scalar::UInt(number.as_u64().unwrap()),
        Value::Number(number) => Scalar::Double(number.as_f64().unwrap()),
        other => panic!("{other}"),
    }
}

pub(crate) fn size(arg: &Value) -> usize {
    arg.as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).product()
}

fn filled<T: Into<Scalar>>(len: usize, mut draw: impl FnMut() -> T) -> Vec<Scalar> {
    (0..len).map(|_| draw().into()).collect()
}

fn discrete_call<T: Discrete>(draws: &mut Draws<'_>, name: &str, args: &[Value], len: usize) -> Vec<Scalar> {
    let between = |from: &Value, to: &Value| {
        let (from, to) = T::exact_bounds(from.as_i64().unwrap(), to.as_i64().unwrap());
        (NonZeroU64::new(to.wrapping_sub(from) as u64).unwrap(), from)
    };
    match (name, args) {
        ("randint", [from, to, size_arg]) => {
            let (range, base) = between(from, to);
            filled(size(size_arg), || T::random_from_to(draws, range, base))
        }
        ("random_", [size_arg]) => filled(size(size_arg), || T::random(draws)),
        ("random_", [size_arg, _, Value::Null]) => filled(size(size_arg), || T::random_of_64_bits(draws)),
        ("random_", [size_arg, from, to]) => {
            let (range, base) = between(from, to);
            filled(size(size_arg), || T::random_from_to(draws, range, base))
        }
        ("randperm", [_]) => {
            let mut out = vec![T::default(); len];
            draws.fill_permutation(&mut out);
            out.into_iter().map(Into::into).collect()
        }
        ("bernoulli_", [size_arg, p]) => {
            let p = p.as_f64().unwrap();
            filled(size(size_arg), || T::from_integer(draws.bernoulli(p).into()))
        }
        ("geometric_", [size_arg, p]) => {
            let p = p.as_f64().unwrap();
            filled(size(size_arg), || T::from_real(draws.geometric(p)))
        }
        _ => panic!("{name} {args:?}"),
    }
}

fn continuous_call<T: Continuous>(
    draws: &mut Draws<'_>,
    name: &str,
    args: &[Value],
    len: usize,
) -> Vec<Scalar> {
    let parameter = |i: usize, default: f64| args.get(i).map_or(default, |arg| arg.as_f64().unwrap());
    let weights = || args[0].as_array().unwrap().iter().map(|p| T::from_real(p.as_f64().unwrap()));
    match name {
        "rand" | "uniform_" => {
            let uniform = Uniform::<T>::new(parameter(1, 0.0), parameter(2, 1.0));
            filled(len, || uniform.sample(draws))
        }
        "randn" | "normal_" => {
            let mut out = vec![T::default(); len];
            draws.fill_normal(&mut out, parameter(1, 0.0), parameter(2, 1.0));
            out.into_iter().map(Into::into).collect()
        }
        "exponential_" => filled(len, || T::from_real(draws.exponential(parameter(1, 1.0)))),
        "cauchy_" => filled(len, || T::from_real(draws.cauchy(parameter(1, 0.0), parameter(2, 1.0)))),
        "log_normal_" => filled(len, || T::from_real(draws.log_normal(parameter(1, 1.0), parameter(2, 2.0)))),
        "bernoulli" => {
            let mut drawn = Vec::new();
            for p in weights() {
                let p = p.to_op();
                let event = if T::SCALAR_TYPE == f64::SCALAR_TYPE {
                    draws.bernoulli(p.to_f64())
                } else {
                    draws.bernoulli_f32(p.to_f64() as f32)
                };
                drawn.push(T::from_integer(event.into()).into());
            }
            drawn
        }
        "multinomial" if args.get(2) == Some(&Value::Bool(true)) && len > 1 => {
            let distribution = CumulativeDistribution::try_new(weights()).unwrap();
            filled(len, || distribution.sample(draws) as i64)
        }
        "multinomial" => {
            let weights: Vec<T> = weights().collect();
            let mut waiting_times = vec![T::default(); weights.len()];
            draws.fill_waiting_times(&mut waiting_times);
            first_categories(&weights, &waiting_times, len)
                .into_iter()
                .map(|i| Scalar::Int(i as i64))
                .collect()
        }
        _ => panic!("{name} {args:?}"),
    }
}

#[test]
fn state_is_that_of_pytorch_byte_for_byte() {
    let expected: Vec<u8> =
        serde_json::from_value(recorded("random.json.gz")["rng_state_seed7"].clone()).unwrap();
    let generator = Generator::with_seed(7);
    assert_eq!(generator.state(), expected);
    assert_eq!(expected.len(), STATE_BYTES);

    // A normal number waits, and the engine is in the midst of its words.
    generator.draw(|draws| draws.normal(0.0, 1.0));
    let state = generator.state();
    let other = Generator::new();
    other.set_state(&state).unwrap();
    assert_eq!(other.state(), state);
    assert_eq!(other.initial_seed(), 7);
    for _ in 0..1000 {
        assert_eq!(
            other.draw(|draws| draws.normal(0.0, 1.0)),
            generator.draw(|draws| draws.normal(0.0, 1.0))
        );
    }
}

#[test]
fn states_that_are_none_are_refused_and_change_nothing() {
    let generator = Generator::with_seed(3);
    generator.draw(|draws| draws.random());
    let before = generator.state();
    let refused = |state: &[u8]| {
        let error = generator.set_state(state).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(generator.state(), before);
        error.to_string()
    };
    insta::assert_snapshot!(refused(&[0; 10]), @"a state of a CPU generator has 5056 bytes, not 10");
    let with = |at: usize, bytes: &[u8]| {
        let mut state = before.clone();
        state[at..at + bytes.len()].copy_from_slice(bytes);
        refused(&state)
    };
    insta::assert_snapshot!(with(12, &[0]), @"no state of MT19937: it was never seeded");
    insta::assert_snapshot!(with(8, &[0, 0]), @"no state of MT19937: 0 words left from word 1 on, of 624");
    insta::assert_snapshot!(with(8, &[255; 4]), @"no state of MT19937: 4294967295 words left from word 1 on, of 624");
    insta::assert_snapshot!(with(16, &[2]), @"no state of MT19937: 624 words left from word 2 on, of 624");
    insta::assert_snapshot!(with(16, &[255; 8]), @"no state of MT19937: its next word lies beyond the last");
}

#[test]
fn a_clone_is_the_same_generator_and_a_clone_of_the_state_is_not() {
    let generator = Generator::with_seed(11);
    let (same, other) = (generator.clone(), generator.clone_state());
    let first = generator.draw(|draws| draws.random64());
    let second = same.draw(|draws| draws.random64());
    assert_ne!(first, second);
    assert_eq!([other.draw(|draws| draws.random64()), other.draw(|draws| draws.random64())], [first, second]);
    assert!(same.is_same(&generator) && !other.is_same(&generator));

    generator.manual_seed(11);
    assert_eq!(same.draw(|draws| draws.random64()), first);
}

#[test]
fn the_default_generator_is_one() {
    assert!(Generator::default_cpu().is_same(&Generator::default_cpu()));
}

#[test]
fn a_seed_from_entropy_begins_its_own_sequence() {
    let generator = Generator::with_seed(1);
    let seed = generator.seed();
    assert_eq!(generator.initial_seed(), seed);
    assert!(seed < 1 << 53);
    assert_eq!(generator.state(), Generator::with_seed(seed).state());
    assert_ne!(generator.seed(), seed);
}

#[test]
fn threads_share_one_sequence() {
    let generator = Generator::with_seed(5);
    let mut drawn: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| (0..500).map(|_| generator.draw(|draws| draws.random())).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let alone = Generator::with_seed(5);
    let mut expected: Vec<u32> = (0..2000).map(|_| alone.draw(|draws| draws.random())).collect();
    drawn.sort_unstable();
    expected.sort_unstable();
    assert_eq!(drawn, expected);
}

#[test]
fn weights_that_are_none_are_refused() {
    for weights in [&[0.5, -0.1][..], &[f64::NAN], &[f64::INFINITY, 1.0], &[0.0, 0.0], &[]] {
        let error = CumulativeDistribution::try_new(weights.iter().copied()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{weights:?}");
    }
}

#[test]
fn the_upper_bound_of_a_uniform_distribution_is_never_drawn() {
    let generator = Generator::with_seed(0);
    let uniform = Uniform::<bf16>::new(0.0, 1.0);
    assert!(generator.draw(|draws| (0..10_000).all(|_| uniform.sample(draws) < bf16::ONE)));
}
