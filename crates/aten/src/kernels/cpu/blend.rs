//! Planes whose elements are blends of those of another plane: linear and cubic enlarging.
//!
//! A blend is a product of weights along each dimension, so one table a dimension says everything.

use c10_core::{bf16, f16};

use crate::parallel::for_each_piece;
use crate::tensor::Plain;

/// An element that can be blended, and the type that weights and sums have.
pub(crate) trait Blended: Plain {
    type Weight: Weight;

    fn widen(self) -> Self::Weight;
    fn narrow(sum: Self::Weight) -> Self;
}

/// The arithmetic of weights.
pub(crate) trait Weight:
    Copy
    + Default
    + Send
    + Sync
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
{
    fn of(number: f64) -> Self;
    fn floor(self) -> Self;
    fn to_i64(self) -> i64;
    /// To the nearest, halves to even.
    fn round(self) -> Self;
}

macro_rules! weights {
    ($($float:ty)*) => {$(
        impl Weight for $float {
            #[inline]
            fn of(number: f64) -> Self {
                number as $float
            }

            #[inline]
            fn floor(self) -> Self {
                self.floor()
            }

            #[inline]
            fn to_i64(self) -> i64 {
                self as i64
            }

            #[inline]
            fn round(self) -> Self {
                self.round_ties_even()
            }
        }
    )*};
}

weights!(f32 f64);

macro_rules! half_weights {
    ($($float:ty)*) => {$(
        impl Weight for $float {
            #[inline]
            fn of(number: f64) -> Self {
                Self::from_f32(number as f32)
            }

            #[inline]
            fn floor(self) -> Self {
                Self::from_f32(self.to_f32().floor())
            }

            #[inline]
            fn to_i64(self) -> i64 {
                self.to_f32() as i64
            }

            #[inline]
            fn round(self) -> Self {
                Self::from_f32(self.to_f32().round_ties_even())
            }
        }
    )*};
}

half_weights!(f16 bf16);

macro_rules! blended {
    ($($element:ty, $weight:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Blended for $element {
            type Weight = $weight;

            #[inline]
            fn widen(self) -> $weight {
                let widen: fn($element) -> $weight = $widen;
                widen(self)
            }

            #[inline]
            fn narrow(sum: $weight) -> Self {
                let narrow: fn($weight) -> $element = $narrow;
                narrow(sum)
            }
        }
    )*};
}

blended! {
    u8, f32, f32::from, |sum| sum.round() as u8;
    f16, f32, f16::to_f32, f16::from_f32;
    bf16, f32, bf16::to_f32, bf16::from_f32;
    f32, f32, |x| x, |x| x;
    f64, f64, |x| x, |x| x;
}

/// What the elements along a dimension are blends of: `taps` elements of the other plane for each.
#[derive(Clone, Debug)]
pub(crate) struct Axis<W> {
    pub(crate) taps: usize,
    pub(crate) places: Vec<usize>,
    pub(crate) weights: Vec<W>,
}

impl<W: Weight> Axis<W> {
    pub(crate) fn len(&self) -> usize {
        self.places.len() / self.taps
    }

    fn of(&self, index: usize) -> impl Iterator<Item = (usize, W)> {
        let range = index * self.taps..(index + 1) * self.taps;
        self.places[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }
}

/// The blends along each dimension, and the plane that they are of.
#[derive(Debug)]
pub(crate) struct Blends<W> {
    pub(crate) axes: [Axis<W>; 3],
    pub(crate) input: [usize; 3],
}

impl<W: Weight> Blends<W> {
    fn inputs(&self) -> usize {
        self.input.iter().product()
    }

    fn outputs(&self) -> usize {
        self.axes.iter().map(Axis::len).product()
    }

    fn work(&self) -> usize {
        self.outputs() * self.axes.iter().map(|axis| axis.taps).product::<usize>()
    }

    /// Calls `visit(output, input, weight)` for the rows of a plane and of the plane that they are blends of.
    fn rows(&self, mut visit: impl FnMut(usize, usize, W)) {
        let [depths, heights, widths] = &self.axes;
        for depth in 0..depths.len() {
            for height in 0..heights.len() {
                let output = (depth * heights.len() + height) * widths.len();
                for (z, depth_weight) in depths.of(depth) {
                    for (y, height_weight) in heights.of(height) {
                        let input = (z * self.input[1] + y) * self.input[2];
                        visit(output, input, depth_weight * height_weight);
                    }
                }
            }
        }
    }
}

/// Blends each plane.
pub(crate) fn blend<T: Blended>(blends: &Blends<T::Weight>, input: &[T], output: &mut [T]) {
    let (inputs, outputs) = (blends.inputs(), blends.outputs());
    let widths = &blends.axes[2];
    for_each_piece(output, outputs, blends.work(), |plane, output| {
        let input = &input[plane * inputs..][..inputs];
        let mut sums = vec![T::Weight::default(); outputs];
        blends.rows(|to, from, weight| {
            let row = &input[from..][..blends.input[2]];
            for (x, sum) in sums[to..][..widths.len()].iter_mut().enumerate() {
                let blended = widths
                    .of(x)
                    .fold(T::Weight::default(), |sum, (place, weight)| sum + row[place].widen() * weight);
                *sum = *sum + blended * weight;
            }
        });
        output.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
    });
}

/// Adds to each input its share of the gradients of the blends that it is in.
pub(crate) fn blend_backward<T: Blended>(
    blends: &Blends<T::Weight>,
    grad_output: &[T],
    grad_input: &mut [T],
) {
    let (inputs, outputs) = (blends.inputs(), blends.outputs());
    let widths = &blends.axes[2];
    for_each_piece(grad_input, inputs, blends.work(), |plane, grad_input| {
        let grad_output = &grad_output[plane * outputs..][..outputs];
        let mut sums = vec![T::Weight::default(); inputs];
        blends.rows(|from, to, weight| {
            let sums = &mut sums[to..][..blends.input[2]];
            for (x, grad) in grad_output[from..][..widths.len()].iter().enumerate() {
                let grad = grad.widen() * weight;
                widths.of(x).for_each(|(place, weight)| sums[place] = sums[place] + grad * weight);
            }
        });
        grad_input.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(sum));
    });
}

/// Blends planes of bytes along one dimension after the other from the last on, in whole numbers, as PyTorch
/// does: weights of 16 bits, and bytes in between.
pub(crate) fn blend_bytes(blends: &Blends<f64>, input: &[u8], output: &mut [u8]) {
    let (inputs, outputs) = (blends.inputs(), blends.outputs());
    for_each_piece(output, outputs, blends.work(), |plane, output| {
        let mut bytes = input[plane * inputs..][..inputs].to_vec();
        let mut sizes = blends.input;
        for dim in (0..sizes.len()).rev() {
            let axis = &blends.axes[dim];
            if axis.taps > 1 && axis.len() != sizes[dim] {
                bytes = blended_bytes(axis, &bytes, sizes, dim);
                sizes[dim] = axis.len();
            }
        }
        output.copy_from_slice(&bytes);
    });
}

fn blended_bytes(axis: &Axis<f64>, bytes: &[u8], sizes: [usize; 3], dim: usize) -> Vec<u8> {
    let inner: usize = sizes[dim + 1..].iter().product();
    let largest = axis.weights.iter().copied().fold(0.0, f64::max);
    // As many bits as the largest weight leaves room for.
    let scaled = |weight: f64, bits: u32| {
        let weight = weight * f64::from(1_u32 << bits);
        (if weight < 0.0 { weight - 0.5 } else { weight + 0.5 }) as i32
    };
    let bits = (0..21).find(|&bits| scaled(largest, bits + 1) >= 1 << 15).unwrap_or(21);
    let mut blended = Vec::with_capacity(bytes.len() / sizes[dim].max(1) * axis.len());
    for slab in bytes.chunks_exact(sizes[dim] * inner) {
        for index in 0..axis.len() {
            for column in 0..inner {
                let half = if bits == 0 { 0 } else { 1_i32 << (bits - 1) };
                let sum = axis.of(index).fold(half, |sum, (place, weight)| {
                    sum + i32::from(slab[place * inner + column]) * scaled(weight, bits)
                });
                blended.push((sum >> bits).clamp(0, 255) as u8);
            }
        }
    }
    blended
}
