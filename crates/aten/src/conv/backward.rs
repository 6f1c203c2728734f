//! The gradients of a convolution, which are products with the same three operands: of the input (also the
//! transposed convolution), of the weight and of the bias.

#![expect(
    unsafe_code,
    reason = "threads write disjoint channels of one buffer, and images are copied with their channels last"
)]

use std::borrow::Cow;
use std::ops::Range;

use super::forward::forward;
use super::geometry::{ConvGeometry, DIMS, Dims};
use super::patches::{Reach, gather_row, scatter_add};
use crate::linalg::accumulate::Accumulate;
use crate::linalg::gemm::gemm;
use crate::linalg::matrices::{Matrices, MatricesMut, MatrixLayout};
use crate::linalg::pack::{Source, pack};
use crate::linalg::simd::Ring;
use crate::parallel::{DisjointMut, for_each_piece, parallel_for};

/// Elements of patches that are held at a time for the gradient of the input.
const COLUMNS: usize = 1 << 21;
/// Elements of patches that are held at a time for the gradient of the weight: a thread's, to stay in its cache.
const PATCHES: usize = 1 << 17;
/// Places of which patches are held all the same: to add the products of fewer to all sums is not worth it.
const PLACES: usize = 384;
/// Parts of a batch whose products are summed apart.
const PARTS: usize = 16;
/// Sums of such parts.
const PART_SUMS: usize = 1 << 18;

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
    let channels_at_once = (COLUMNS / (geometry.taps() * outputs).max(1)).clamp(1, geometry.channels_in);
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

/// Writes the gradient of the weight: the output's gradient, as a matrix of channels and places, times the matrix of
/// the inputs that the weights meet at each place.
///
/// The batch is cut into parts, for each of which the products are summed apart. How many there are depends on sizes
/// alone, so that results do not depend on threads.
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
    if grad_weight.is_empty() {
        return;
    }
    let (channels_in, taps, depth) = (geometry.channels_in, geometry.taps(), geometry.depth());
    let weights = geometry.channels_out * depth;
    let parts = (PART_SUMS / grad_weight.len()).clamp(1, PARTS).min(geometry.batch.max(1));
    let mut sums = vec![T::Sum::ZERO; geometry.groups * parts * weights];
    let work = weights * geometry.output_len() * geometry.batch.div_ceil(parts);
    for_each_piece(&mut sums, weights, work, |piece, sums| {
        let (group, part) = (piece / parts, piece % parts);
        let images = geometry.batch * part / parts..geometry.batch * (part + 1) / parts;
        let images = images.map(|image| image * geometry.groups + group);
        weight_products(geometry, grad_output, input, images, sums);
    });
    for (sums, grad_weight) in
        sums.chunks_exact_mut(parts * weights).zip(grad_weight.chunks_exact_mut(weights))
    {
        let (sums, others) = sums.split_at_mut(weights);
        for other in others.chunks_exact(weights) {
            sums.iter_mut().zip(other).for_each(|(sum, &other)| *sum = sum.ring_add(other));
        }
        // The channels of the input, which are beside each other in the sums, come before the taps in the weight.
        for (sums, grad_weight) in sums.chunks_exact(depth).zip(grad_weight.chunks_exact_mut(depth)) {
            for (place, to) in grad_weight.iter_mut().enumerate() {
                *to = T::narrow(sums[place % taps * channels_in + place / taps]);
            }
        }
    }
}

/// Adds the products of some images of one group to `sums`, which are for each channel of the output a row of those
/// for each place of the kernel and each channel of the input.
fn weight_products<T: Accumulate>(
    geometry: &ConvGeometry,
    grad_output: &[T],
    input: &[T],
    images: impl Iterator<Item = usize>,
    sums: &mut [T::Sum],
) {
    let (channels, depth, outputs) = (geometry.channels_out, geometry.depth(), geometry.output_len());
    let (image_in, image_out) = (geometry.channels_in * geometry.input_len(), channels * outputs);
    let [_, _, row_len] = geometry.output;
    let rows = outputs / row_len.max(1);
    let rows_at_once = (PATCHES / (row_len * depth).max(1)).max(PLACES.div_ceil(row_len.max(1)));
    let rows_at_once = rows_at_once.min(rows);
    // A row may be long: then there is one at a time, in parts.
    let width = (PATCHES / depth.max(1)).max(PLACES).min(row_len);
    let reaches: Vec<Reach> =
        (0..geometry.taps()).map(|tap| Reach::new(geometry, geometry.tap(tap))).collect();
    // What is not written below meets padding, the same for all images where patches are taken of whole ones.
    let mut patches = vec![T::Sum::ZERO; rows_at_once * width * depth];
    for image in images {
        let grad_output = widened(&grad_output[image * image_out..][..image_out]);
        let pixels = channels_last(geometry, widened(&input[image * image_in..][..image_in]));
        for first in (0..rows).step_by(rows_at_once.max(1)) {
            let rows_taken = rows_at_once.min(rows - first);
            for start in (0..row_len).step_by(width.max(1)) {
                let taken = start..row_len.min(start + width);
                let places = rows_taken * taken.len();
                if places < outputs {
                    patches.fill(T::Sum::ZERO);
                }
                take_patches(geometry, &reaches, &pixels, first, &taken, &mut patches[..places * depth]);
                let places_of_channels = MatrixLayout::matrix(channels, places, outputs as isize, 1);
                gemm(
                    T::Sum::ONE,
                    Matrices::new(&grad_output, first * row_len + start, places_of_channels),
                    Matrices::new(&patches, 0, MatrixLayout::row_major(places, depth)),
                    T::Sum::ONE,
                    MatricesMut::new(sums, 0, MatrixLayout::row_major(channels, depth)),
                );
            }
        }
    }
}

/// An image with the channels of each place beside each other.
fn channels_last<'a, S: Ring>(geometry: &ConvGeometry, image: Cow<'a, [S]>) -> Cow<'a, [S]> {
    let (channels, places) = (geometry.channels_in, geometry.input_len());
    if channels == 1 {
        return image;
    }
    let mut pixels = vec![S::ZERO; channels * places];
    let source = Source {
        first: image.as_ptr(),
        lanes: channels,
        depth: places,
        lane_stride: places as isize,
        depth_stride: 1,
    };
    // SAFETY: the image has as many channels of so many places, and there is room for as many.
    unsafe { pack(source, pixels.as_mut_ptr(), channels) };
    pixels.into()
}

/// Writes the patches of the outputs `taken` of some rows from the row `first` on.
fn take_patches<S: Ring>(
    geometry: &ConvGeometry,
    reaches: &[Reach],
    pixels: &[S],
    first: usize,
    taken: &Range<usize>,
    patches: &mut [S],
) {
    let len = taken.len() * geometry.depth();
    for_each_piece(patches, len, len, |row, patches| {
        let row = first + row;
        let row = [row / geometry.output[1], row % geometry.output[1]];
        gather_row(geometry, reaches, pixels, row, taken, patches);
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
fn widened<T: Accumulate>(elements: &[T]) -> Cow<'_, [T::Sum]> {
    match T::as_sums(elements) {
        Some(sums) => sums.into(),
        None => elements.iter().map(|element| element.widen()).collect(),
    }
}
