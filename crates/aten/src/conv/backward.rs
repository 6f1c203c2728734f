//! The gradients of a convolution, which are products with the same three operands: of the input (also the
//! transposed convolution), of the weight and of the bias.

#![expect(unsafe_code, reason = "threads write disjoint channels of one buffer")]

use super::forward::forward;
use super::geometry::{ConvGeometry, DIMS, Dims};
use super::patches::{gather, scatter_add};
use crate::linalg::accumulate::Accumulate;
use crate::linalg::gemm::gemm;
use crate::linalg::matrices::{Matrices, MatricesMut, MatrixLayout};
use crate::linalg::simd::Ring;
use crate::parallel::{DisjointMut, parallel_for};

/// Elements of patches that are held at a time.
const PATCHES: usize = 1 << 21;

/// Writes the gradient of the input: what a transposed convolution of `grad_output` with `weight` gives.
///
/// # Panics
/// When a slice has not the size that the geometry says.
pub(crate) fn backward_input<T: Accumulate>(
    geometry: &ConvGeometry,
    grad_output: &[T],
    weight: &[T],
    grad_input: &mut [T],
) {
    geometry.assert_lens(grad_input.len(), weight.len(), grad_output.len());
    if grad_input.is_empty() {
        return;
    }
    if let Some(flipped) = as_convolution(geometry) {
        return forward(&flipped, grad_output, &flipped_weight(geometry, weight), None, grad_input);
    }
    let (outputs, depth) = (geometry.output_len(), geometry.depth());
    let (image_in, image_out) =
        (geometry.channels_in * geometry.input_len(), geometry.channels_out * outputs);
    let weight = widened(weight);
    let mut sums = vec![T::Sum::ZERO; image_in];
    let channels_at_once = (PATCHES / (geometry.taps() * outputs).max(1)).clamp(1, geometry.channels_in);
    let mut patches = vec![T::Sum::ZERO; channels_at_once * geometry.taps() * outputs];
    for image in 0..geometry.batch * geometry.groups {
        let group = image % geometry.groups;
        let grad_output = widened(&grad_output[image * image_out..][..image_out]);
        sums.fill(T::Sum::ZERO);
        for first in (0..geometry.channels_in).step_by(channels_at_once) {
            let channels = channels_at_once.min(geometry.channels_in - first);
            let rows = channels * geometry.taps();
            let place = group * geometry.channels_out * depth + first * geometry.taps();
            let weights = MatrixLayout::matrix(rows, geometry.channels_out, 1, depth as isize);
            gemm(
                T::Sum::ONE,
                Matrices::new(&weight, place, weights),
                Matrices::new(&grad_output, 0, MatrixLayout::row_major(geometry.channels_out, outputs)),
                T::Sum::ZERO,
                MatricesMut::new(&mut patches, 0, MatrixLayout::row_major(rows, outputs)),
            );
            add_patches(geometry, &patches, &mut sums[first * geometry.input_len()..], channels);
        }
        let grad_input = &mut grad_input[image * image_in..][..image_in];
        grad_input.iter_mut().zip(&sums).for_each(|(to, &sum)| *to = T::narrow(sum));
    }
}

fn add_patches<S: Ring>(geometry: &ConvGeometry, patches: &[S], sums: &mut [S], channels: usize) {
    let (inputs, outputs, taps) = (geometry.input_len(), geometry.output_len(), geometry.taps());
    let sums = DisjointMut::new(sums);
    parallel_for(0..channels, (1 << 15) / (taps * outputs).max(1), |channels| {
        for channel in channels {
            // SAFETY: each channel is taken once.
            let channel_sums = unsafe { sums.part(channel * inputs..(channel + 1) * inputs) };
            for tap in 0..taps {
                let patches = &patches[(channel * taps + tap) * outputs..][..outputs];
                scatter_add(geometry, geometry.tap(tap), patches, channel_sums, S::ring_add);
            }
        }
    });
}

/// The convolution of the output's gradient that gives the input's, where the stride is one.
fn as_convolution(geometry: &ConvGeometry) -> Option<ConvGeometry> {
    if geometry.stride != [1; DIMS] {
        return None;
    }
    let mut padding: Dims = [0; DIMS];
    for (dim, padding) in padding.iter_mut().enumerate() {
        let reach = geometry.dilation[dim] * (geometry.kernel[dim] - 1);
        *padding = reach.checked_sub(geometry.padding[dim])?;
    }
    Some(ConvGeometry {
        channels_in: geometry.channels_out,
        channels_out: geometry.channels_in,
        input: geometry.output,
        output: geometry.input,
        padding,
        ..geometry.clone()
    })
}

/// The weight with its channels exchanged and its places in reverse.
fn flipped_weight<T: Accumulate>(geometry: &ConvGeometry, weight: &[T]) -> Vec<T> {
    let (taps, ins, outs) = (geometry.taps(), geometry.channels_in, geometry.channels_out);
    let mut flipped = Vec::with_capacity(weight.len());
    for group in 0..geometry.groups {
        for channel_in in 0..ins {
            for channel_out in 0..outs {
                let from = ((group * outs + channel_out) * ins + channel_in) * taps;
                flipped.extend(weight[from..from + taps].iter().rev());
            }
        }
    }
    flipped
}

/// Writes the gradient of the weight.
///
/// # Panics
/// When a slice has not the size that the geometry says.
pub(crate) fn backward_weight<T: Accumulate>(
    geometry: &ConvGeometry,
    grad_output: &[T],
    input: &[T],
    grad_weight: &mut [T],
) {
    geometry.assert_lens(input.len(), grad_weight.len(), grad_output.len());
    let (outputs, taps, depth) = (geometry.output_len(), geometry.taps(), geometry.depth());
    let (image_in, image_out) =
        (geometry.channels_in * geometry.input_len(), geometry.channels_out * outputs);
    let mut sums = vec![T::Sum::ZERO; grad_weight.len()];
    let channels_at_once = (PATCHES / (taps * outputs).max(1)).clamp(1, geometry.channels_in.max(1));
    let mut patches = vec![T::Sum::ZERO; channels_at_once * taps * outputs];
    for image in 0..geometry.batch * geometry.groups {
        let group = image % geometry.groups;
        let grad_output = widened(&grad_output[image * image_out..][..image_out]);
        let input = &input[image * image_in..][..image_in];
        for first in (0..geometry.channels_in).step_by(channels_at_once) {
            let channels = channels_at_once.min(geometry.channels_in - first);
            let cols = channels * taps;
            take_patches(geometry, &input[first * geometry.input_len()..], &mut patches, channels);
            let place = group * geometry.channels_out * depth + first * taps;
            let weights = MatrixLayout::matrix(geometry.channels_out, cols, depth as isize, 1);
            gemm(
                T::Sum::ONE,
                Matrices::new(&grad_output, 0, MatrixLayout::row_major(geometry.channels_out, outputs)),
                Matrices::new(&patches, 0, MatrixLayout::row_major(cols, outputs)).transposed(),
                T::Sum::ONE,
                MatricesMut::new(&mut sums, place, weights),
            );
        }
    }
    grad_weight.iter_mut().zip(&sums).for_each(|(to, &sum)| *to = T::narrow(sum));
}

fn take_patches<T: Accumulate>(
    geometry: &ConvGeometry,
    input: &[T],
    patches: &mut [T::Sum],
    channels: usize,
) {
    let (inputs, outputs, taps) = (geometry.input_len(), geometry.output_len(), geometry.taps());
    let patches = DisjointMut::new(patches);
    parallel_for(0..channels * taps, (1 << 15) / outputs.max(1), |rows| {
        for row in rows {
            let channel = &input[row / taps * inputs..][..inputs];
            // SAFETY: each row is taken once.
            let patches = unsafe { patches.part(row * outputs..(row + 1) * outputs) };
            gather(geometry, geometry.tap(row % taps), channel, patches, T::Sum::ZERO, T::widen);
        }
    });
}

/// Writes the gradient of the bias: the sums of the output's gradient over the images and their places.
///
/// # Panics
/// When the slices do not have the same channels.
pub(crate) fn backward_bias<T: Accumulate>(batch: usize, grad_output: &[T], grad_bias: &mut [T]) {
    let channels = grad_bias.len();
    let outputs = grad_output.len() / (batch * channels).max(1);
    assert_eq!(grad_output.len(), batch * channels * outputs);
    let grad_bias = DisjointMut::new(grad_bias);
    parallel_for(0..channels, (1 << 15) / (batch * outputs).max(1), |channels_taken| {
        for channel in channels_taken {
            let mut sum = T::Sum::ZERO;
            for image in 0..batch {
                let row = &grad_output[(image * channels + channel) * outputs..][..outputs];
                sum = sum.ring_add(sum_of(row));
            }
            // SAFETY: each channel is taken once.
            let to = unsafe { grad_bias.part(channel..channel + 1) };
            to[0] = T::narrow(sum);
        }
    });
}

/// The sum of a row, in halves, so that rounding grows with the logarithm of its length.
fn sum_of<T: Accumulate>(row: &[T]) -> T::Sum {
    const LANES: usize = 16;
    if row.len() > 64 * LANES {
        let (left, right) = row.split_at(row.len() / 2);
        return sum_of(left).ring_add(sum_of(right));
    }
    let mut lanes = [T::Sum::ZERO; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane = lane.ring_add(value.widen()));
    }
    let sum = lanes.into_iter().fold(T::Sum::ZERO, Ring::ring_add);
    rest.iter().fold(sum, |sum, value| sum.ring_add(value.widen()))
}

/// The elements as sums.
fn widened<T: Accumulate>(elements: &[T]) -> std::borrow::Cow<'_, [T::Sum]> {
    match T::as_sums(elements) {
        Some(sums) => sums.into(),
        None => elements.iter().map(|element| element.widen()).collect(),
    }
}
