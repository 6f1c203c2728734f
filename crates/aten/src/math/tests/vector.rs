//! Vector code gives the bits of scalar code, in every lane and at every length.

use crate::math::{Activation, Float};
use crate::simd::{InstructionSet, dispatch_at_most};

#[inline(never)]
fn map<F: Fn(f32) -> f32>(most: InstructionSet, xs: &[f32], function: F) -> Vec<f32> {
    let mut out = vec![0.0; xs.len()];
    dispatch_at_most(
        most,
        #[inline(always)]
        || {
            for (out, &x) in out.iter_mut().zip(xs) {
                *out = function(x);
            }
        },
    );
    out
}

fn specials() -> Vec<f32> {
    let mut values =
        vec![0.0, f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, f32::INFINITY, 1.0, 0.5, 88.7, 103.9];
    values.extend((0..32).map(|i| f32::from_bits(0x3000_0000 + i * 0x00a0_1234)));
    values.extend(values.clone().iter().map(|x| -x));
    values.push(f32::NAN);
    values
}

#[track_caller]
fn assert_same_bits(name: &str, x: f32, vector: f32, scalar: f32, most: InstructionSet) {
    // A NaN's payload and sign are nobody's promise.
    let same = vector.to_bits() == scalar.to_bits() || (vector.is_nan() && scalar.is_nan());
    assert!(same, "{name}({x:e}) is {vector:e} on {most:?}, {scalar:e} alone");
}

macro_rules! check {
    ($($function:path),* $(,)?) => {$(
        for length in 0..=65 {
            for shift in [0, 7, 31] {
                let specials = specials();
                let xs: Vec<f32> = (0..length).map(|i| specials[(i + shift) % specials.len()]).collect();
                for most in [InstructionSet::Baseline, InstructionSet::Avx2, InstructionSet::Avx512] {
                    let vector = map(most, &xs, #[inline(always)] |x| $function(x));
                    for (&x, vector) in xs.iter().zip(vector) {
                        assert_same_bits(stringify!($function), x, vector, $function(std::hint::black_box(x)), most);
                    }
                }
            }
        }
    )*};
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    check! {
        Float::exp, Float::exp2, Float::expm1, Float::ln, Float::log2, Float::log10, Float::log1p,
        Float::small_sin, Float::small_cos, Float::small_tan, Float::asin, Float::acos, Float::atan,
        Float::sinh, Float::cosh, Float::tanh, Float::erf, Float::erfc, Float::sigmoid, Float::round,
        Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::mish, Activation::relu,
        cube, remainder, floor_divide,
    }
}

#[inline(always)]
fn cube(x: f32) -> f32 {
    Float::pow(x, 3.0)
}

#[inline(always)]
fn remainder(x: f32) -> f32 {
    Float::remainder(x, -0.75)
}

#[inline(always)]
fn floor_divide(x: f32) -> f32 {
    Float::floor_divide(x, -0.75)
}
