//! Discrete Fourier transforms of any length.
//!
//! A length is taken apart into its small prime factors (Cooley–Tukey); one with a large prime factor is a
//! convolution of a length that is a power of two (Bluestein).

use c10_core::Complex;

use super::blend::Weight;
use crate::parallel::for_each_piece;

/// The largest prime factor that is transformed by its definition.
const LARGEST_FACTOR: usize = 31;

/// A transform of one length in one direction.
#[derive(Debug)]
pub(crate) struct Transform<T> {
    len: usize,
    factors: Vec<usize>,
    /// `exp(∓2πi k / len)`.
    roots: Vec<Complex<T>>,
    chirp: Option<Chirp<T>>,
}

/// What Bluestein's way needs.
#[derive(Debug)]
struct Chirp<T> {
    /// `exp(∓πi k² / len)`.
    factors: Vec<Complex<T>>,
    /// The transform of the conjugated factors, as a circle of a power of two.
    kernel: Vec<Complex<T>>,
    forward: Box<Transform<T>>,
    backward: Box<Transform<T>>,
}

fn mul<T: Weight>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}

fn add<T: Weight>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    Complex::new(a.re + b.re, a.im + b.im)
}

fn sub<T: Weight>(a: Complex<T>, b: Complex<T>) -> Complex<T> {
    Complex::new(a.re - b.re, a.im - b.im)
}

fn conj<T: Weight>(a: Complex<T>) -> Complex<T> {
    Complex::new(a.re, -a.im)
}

/// `exp(sign·2πi·index/len)`.
fn root<T: Weight>(index: usize, len: usize, sign: f64) -> Complex<T> {
    let angle = sign * std::f64::consts::TAU * (index % len) as f64 / len as f64;
    Complex::new(T::of(angle.cos()), T::of(angle.sin()))
}

impl<T: Weight> Transform<T> {
    /// The transform of `len` elements, with a negative exponent where `forward`.
    pub(crate) fn new(len: usize, forward: bool) -> Self {
        let sign = if forward { -1.0 } else { 1.0 };
        let factors = factors(len);
        if factors.iter().any(|&factor| factor > LARGEST_FACTOR) {
            let chirp = Some(Chirp::new(len, sign));
            return Self { len, factors: Vec::new(), roots: Vec::new(), chirp };
        }
        let roots = (0..len).map(|index| root(index, len, sign)).collect();
        Self { len, factors, roots, chirp: None }
    }

    /// Writes the transform of `from` to `to`.
    pub(crate) fn run(&self, from: &[Complex<T>], to: &mut [Complex<T>]) {
        match &self.chirp {
            Some(chirp) => chirp.run(from, to),
            None => self.step(from, 1, to, &self.factors),
        }
    }

    /// Transforms every `stride`th element of `from`.
    fn step(&self, from: &[Complex<T>], stride: usize, to: &mut [Complex<T>], factors: &[usize]) {
        let Some((&factor, rest)) = factors.split_first() else {
            to[0] = from[0];
            return;
        };
        let part = to.len() / factor;
        for (index, to) in to.chunks_exact_mut(part).enumerate() {
            self.step(&from[index * stride..], stride * factor, to, rest);
        }
        for index in 0..part {
            // What is not turned is not multiplied either, so that an infinity does not become a NaN.
            let turned = |value: Complex<T>, term: usize| match index {
                0 => value,
                _ => mul(value, self.roots[term * index * stride]),
            };
            match factor {
                2 => {
                    let (a, b) = (to[index], turned(to[index + part], 1));
                    to[index] = add(a, b);
                    to[index + part] = sub(a, b);
                }
                4 => {
                    let terms = [1, 2, 3].map(|term| turned(to[index + term * part], term));
                    self.four(to, index, part, terms);
                }
                _ => {
                    let mut terms = [Complex::default(); LARGEST_FACTOR];
                    for (term, value) in terms[..factor].iter_mut().enumerate() {
                        *value = if term == 0 { to[index] } else { turned(to[index + term * part], term) };
                    }
                    self.any(to, index, part, &terms[..factor]);
                }
            }
        }
    }

    fn four(&self, to: &mut [Complex<T>], index: usize, part: usize, [b, c, d]: [Complex<T>; 3]) {
        let a = to[index];
        let (even, odd) = (add(a, c), sub(a, c));
        let (sum, difference) = (add(b, d), sub(b, d));
        // A quarter of the circle, in the transform's direction.
        let turned = mul(difference, self.roots[self.len / 4]);
        to[index] = add(even, sum);
        to[index + part] = add(odd, turned);
        to[index + 2 * part] = sub(even, sum);
        to[index + 3 * part] = sub(odd, turned);
    }

    fn any(&self, to: &mut [Complex<T>], index: usize, part: usize, terms: &[Complex<T>]) {
        let factor = terms.len();
        let step = self.len / factor;
        for output in 0..factor {
            let product = |term: usize| match term * output % factor {
                0 => terms[term],
                turn => mul(terms[term], self.roots[turn * step]),
            };
            to[index + output * part] = (1..factor).map(product).fold(terms[0], add);
        }
    }
}

impl<T: Weight> Chirp<T> {
    fn new(len: usize, sign: f64) -> Self {
        // The square modulo 2·len, in numbers that do not overflow.
        let square = |index: usize| (index as u128 * index as u128 % (2 * len as u128)) as usize;
        let factors: Vec<Complex<T>> = (0..len).map(|index| root(square(index), 2 * len, sign)).collect();
        let circle = (2 * len - 1).next_power_of_two();
        let (forward, backward) = (Transform::new(circle, true), Transform::new(circle, false));
        let mut around = vec![Complex::default(); circle];
        for (index, &factor) in factors.iter().enumerate() {
            around[index] = conj(factor);
            around[(circle - index) % circle] = conj(factor);
        }
        let mut kernel = vec![Complex::default(); circle];
        forward.run(&around, &mut kernel);
        Self { factors, kernel, forward: Box::new(forward), backward: Box::new(backward) }
    }

    fn run(&self, from: &[Complex<T>], to: &mut [Complex<T>]) {
        let circle = self.kernel.len();
        let mut values = vec![Complex::default(); circle];
        let mut transformed = values.clone();
        for ((value, &from), &factor) in values.iter_mut().zip(from).zip(&self.factors) {
            *value = mul(from, factor);
        }
        self.forward.run(&values, &mut transformed);
        transformed.iter_mut().zip(&self.kernel).for_each(|(value, &kernel)| *value = mul(*value, kernel));
        self.backward.run(&transformed, &mut values);
        let scale = T::of(1.0 / circle as f64);
        for ((to, &value), &factor) in to.iter_mut().zip(&values).zip(&self.factors) {
            let value = mul(value, factor);
            *to = Complex::new(value.re * scale, value.im * scale);
        }
    }
}

/// The prime factors, fours first, in place of two twos each.
fn factors(mut len: usize) -> Vec<usize> {
    let mut factors = Vec::new();
    while len.is_multiple_of(4) {
        factors.push(4);
        len /= 4;
    }
    let mut factor = 2;
    while factor * factor <= len {
        while len.is_multiple_of(factor) {
            factors.push(factor);
            len /= factor;
        }
        factor += 1;
    }
    factors.extend((len > 1).then_some(len));
    factors
}

/// Transforms row-major `data` along the dimension `dim`, each element multiplied by `scale` in the end.
pub(crate) fn transform_dim<T: Weight>(
    data: &mut [Complex<T>],
    sizes: &[usize],
    dim: usize,
    forward: bool,
    scale: T,
) {
    let len = sizes[dim];
    let inner: usize = sizes[dim + 1..].iter().product();
    let transform = Transform::<T>::new(len, forward);
    for_each_piece(data, len * inner, len * inner * 8, |_, data| {
        let mut from = vec![Complex::default(); len];
        let mut to = from.clone();
        for line in 0..inner {
            from.iter_mut().zip(data[line..].iter().step_by(inner)).for_each(|(to, &from)| *to = from);
            transform.run(&from, &mut to);
            for (place, value) in data[line..].iter_mut().step_by(inner).zip(&to) {
                *place = Complex::new(value.re * scale, value.im * scale);
            }
        }
    });
}
