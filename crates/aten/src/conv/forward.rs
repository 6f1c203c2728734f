//! The convolution itself.
//!
//! For one image of one group it is a matrix product, weights times the matrix of patches, whose second
//! factor is not made: its row for a weight is the image's [`Planes`] from an offset on. Outputs are numbered
//! as in the planes, so that a tile of adjacent numbers may hold some that do not exist; these are computed
//! and left out when the tile is copied to the output.

#![expect(unsafe_code, reason = "the microkernel reads planes through a table of offsets")]

use std::ops::Range;

use super::geometry::ConvGeometry;
use super::planes::Planes;
use crate::linalg::accumulate::Accumulate;
use crate::linalg::microkernel::{Before, KernelElement, Microkernel, Tile};
use crate::linalg::pack::{PanelBuffer, Source, pack};
use crate::linalg::simd::Ring;
use crate::parallel::{DisjointMut, num_threads, parallel_for};

/// Weights of one output that are worked through at a time.
const DEPTH_BLOCK: usize = 384;
/// Sums that a thread keeps at a time.
const SUMS: usize = 1 << 16;

/// Writes the convolution of `input` with `weight`, plus `bias` for each channel, to `output`.
///
/// # Panics
/// When a slice has not the size that the geometry says.
pub(crate) fn forward<T: Accumulate>(
    geometry: &ConvGeometry,
    input: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    output: &mut [T],
) {
    geometry.assert_lens(input.len(), weight.len(), output.len());
    assert!(bias.is_none_or(|bias| bias.len() == geometry.groups * geometry.channels_out));
    if output.is_empty() {
        return;
    }
    let convolution = Convolution::new(geometry, weight, bias);
    let images = geometry.batch * geometry.groups;
    let image_in = geometry.channels_in * geometry.input_len();
    let image_out = geometry.channels_out * geometry.output_len();
    let output = DisjointMut::new(output);
    let some = |images: Range<usize>| {
        let mut buffer = Vec::new();
        for image in images {
            let group = image % geometry.groups;
            let planes = convolution.planes.of(geometry, &input[image * image_in..][..image_in], &mut buffer);
            // SAFETY: each image is taken once.
            let output = unsafe { output.part(image * image_out..(image + 1) * image_out) };
            convolution.image(group, planes, output);
        }
    };
    if images >= 2 * num_threads() {
        let work = image_out * geometry.depth().max(1);
        parallel_for(0..images, (1 << 16) / work, some);
    } else {
        some(0..images);
    }
}

struct Convolution<'a, T: Accumulate> {
    geometry: &'a ConvGeometry,
    planes: Planes,
    kernel: Microkernel<T::Sum>,
    /// The weights of all groups in panels.
    weights: Vec<T::Sum>,
    bias: Option<&'a [T]>,
}

impl<'a, T: Accumulate> Convolution<'a, T> {
    fn new(geometry: &'a ConvGeometry, weight: &[T], bias: Option<&'a [T]>) -> Self {
        let kernel = T::Sum::microkernel();
        let weights = packed_weights(geometry, weight, kernel.rows);
        Self { geometry, planes: Planes::new(geometry), kernel, weights, bias }
    }

    /// Convolves an image of one group.
    fn image(&self, group: usize, planes: &[T::Sum], output: &mut [T]) {
        let geometry = self.geometry;
        let width = self.kernel.cols;
        let places = self.planes.place(geometry.output.map(|len| len - 1)) + 1;
        let tiles = places.div_ceil(width);
        let chunk = (SUMS / (geometry.channels_out * width)).clamp(4, 64);
        let work = geometry.channels_out * geometry.depth().max(1) * width;
        let output = DisjointMut::new(output);
        // A thread takes some tiles at a time, in portions whose sums fit the cache.
        parallel_for(0..tiles, ((1 << 18) / work).max(1), |tiles| {
            let portion = chunk.min(tiles.len());
            let mut sums = PanelBuffer::new(geometry.channels_out * portion * width);
            for first in tiles.clone().step_by(portion) {
                let places = first * width..places.min((first + portion).min(tiles.end) * width);
                self.sums(group, planes, places.clone(), sums.as_mut_ptr());
                let len = geometry.channels_out * places.len();
                // SAFETY: `sums` has just written them all.
                let sums = unsafe { std::slice::from_raw_parts(sums.as_mut_ptr(), len) };
                self.store(group, sums, places, &output);
            }
        });
    }

    /// Computes the outputs with the numbers `places`, those of one channel beside each other.
    fn sums(&self, group: usize, planes: &[T::Sum], places: Range<usize>, sums: *mut T::Sum) {
        let geometry = self.geometry;
        let (height, width, depth) = (self.kernel.rows, self.kernel.cols, geometry.depth());
        let panels = geometry.channels_out.div_ceil(height);
        let weights = &self.weights[group * panels * height * depth..];
        for begin in (0..depth.max(1)).step_by(DEPTH_BLOCK) {
            let block = begin..depth.min(begin + DEPTH_BLOCK);
            for panel in 0..panels {
                let channel = panel * height;
                let a = &weights[(panel * depth + block.start) * height..];
                for place in places.clone().step_by(width) {
                    let c = channel * places.len() + (place - places.start);
                    let tile = Tile {
                        rows: height.min(geometry.channels_out - channel),
                        cols: width.min(places.end - place),
                        depth: block.len(),
                        a: a.as_ptr(),
                        a_row_stride: 1,
                        a_depth_stride: height as isize,
                        b: planes.as_ptr().wrapping_add(place),
                        b_offsets: self.planes.offsets[block.clone()].as_ptr(),
                        c: sums.wrapping_add(c),
                        c_row_stride: places.len() as isize,
                        alpha: T::Sum::ONE,
                        before: if begin == 0 { Before::Dropped } else { Before::Kept },
                    };
                    // SAFETY: the last output's inputs are in the planes for every offset, so those of all
                    // numbers before it are; the panel has `depth` columns; the sums are this thread's.
                    unsafe { self.kernel.run(&tile) };
                }
            }
        }
    }

    /// Copies the outputs that exist, with the bias, to their places.
    fn store(&self, group: usize, sums: &[T::Sum], places: Range<usize>, output: &DisjointMut<'_, T>) {
        let [_, rows, cols] = self.geometry.output;
        let channels = self.geometry.channels_out;
        let mut place = places.start;
        while place < places.end {
            let [z, y, x] = self.planes.output(place);
            let row_end = self.planes.place([z, y, 0]) + self.planes.row_len();
            let run = place..places.end.min(row_end);
            place = run.end;
            if y >= rows || x >= cols {
                continue;
            }
            let len = run.len().min(cols - x);
            for channel in 0..channels {
                let bias = self.bias.map(|bias| bias[group * channels + channel].widen());
                let from = &sums[channel * places.len() + run.start - places.start..][..len];
                let to = ((channel * self.geometry.output[0] + z) * rows + y) * cols + x;
                // SAFETY: each place of each channel is stored once.
                let to = unsafe { output.part(to..to + len) };
                match bias {
                    None => to.iter_mut().zip(from).for_each(|(to, &sum)| *to = T::narrow(sum)),
                    Some(bias) => {
                        to.iter_mut().zip(from).for_each(|(to, &sum)| *to = T::narrow(sum.ring_add(bias)));
                    }
                }
            }
        }
    }
}

/// The weights of each group in panels of `height` channels, zero where there are none.
fn packed_weights<T: Accumulate>(geometry: &ConvGeometry, weight: &[T], height: usize) -> Vec<T::Sum> {
    let (channels, depth) = (geometry.channels_out, geometry.depth());
    let panels = channels.div_ceil(height);
    let mut packed = vec![T::Sum::ZERO; geometry.groups * panels * height * depth];
    let widened: Vec<T::Sum>;
    let weight = match T::as_sums(weight) {
        Some(weight) => weight,
        None => {
            widened = weight.iter().map(|weight| weight.widen()).collect();
            &widened
        }
    };
    for group in 0..geometry.groups {
        for panel in 0..panels {
            let first = panel * height;
            let lanes = height.min(channels - first);
            let from = &weight[(group * channels + first) * depth..][..lanes * depth];
            let to = &mut packed[(group * panels + panel) * height * depth..][..height * depth];
            let source =
                Source { first: from.as_ptr(), lanes, depth, lane_stride: depth as isize, depth_stride: 1 };
            // SAFETY: `from` has all lanes, and `to` room for the panel.
            unsafe { pack(source, to.as_mut_ptr(), height) };
        }
    }
    packed
}

/// Adds the bias of each channel to the `image` elements that it has in each image.
pub(crate) fn add_bias<T: Accumulate>(bias: &[T], image: usize, output: &mut [T]) {
    for (channel, output) in output.chunks_exact_mut(image.max(1)).enumerate() {
        let bias = bias[channel % bias.len()].widen();
        output.iter_mut().for_each(|output| *output = T::narrow(output.widen().ring_add(bias)));
    }
}
