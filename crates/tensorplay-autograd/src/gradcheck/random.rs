//! Random directions, and gradients of outputs.

use aten::random::Generator;
use c10_core::Complex;

/// So many numbers, each from 0 to 1.
fn uniform(generator: &Generator, count: usize) -> Vec<f64> {
    // 53 bits, as a double has.
    let number = |bits: u64| (bits >> 11) as f64 / (1_u64 << 53) as f64;
    generator.draw(|draws| (0..count).map(|_| number(draws.random64())).collect())
}

/// A direction without negative numbers, so that what is summed along it cannot cancel by chance; of length 1.
pub(super) fn direction(generator: &Generator, count: usize, is_complex: bool) -> Vec<Complex<f64>> {
    let mut numbers = uniform(generator, if is_complex { 2 * count } else { count });
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
    numbers.iter_mut().for_each(|number| *number /= length);
    complex(&numbers, is_complex)
}

/// Numbers from -1 to 1.
pub(super) fn gradient(generator: &Generator, count: usize, is_complex: bool) -> Vec<Complex<f64>> {
    let mut numbers = uniform(generator, if is_complex { 2 * count } else { count });
    numbers.iter_mut().for_each(|number| *number = 2.0 * *number - 1.0);
    complex(&numbers, is_complex)
}

fn complex(numbers: &[f64], is_complex: bool) -> Vec<Complex<f64>> {
    if is_complex {
        numbers.chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])).collect()
    } else {
        numbers.iter().map(|number| Complex::new(*number, 0.0)).collect()
    }
}
