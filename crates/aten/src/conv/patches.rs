//! Patches: for each output the inputs that it is made of (`im2col`), and the sum back from those of each place of the
//! kernel (`col2im`).

use std::ops::Range;

use super::geometry::{ConvGeometry, Dims};

/// The outputs whose input at one place of the kernel lies in the image. The others meet padding.
#[derive(Debug)]
pub(crate) struct Reach {
    tap: Dims,
    outputs: [Range<usize>; 3],
}

impl Reach {
    pub(crate) fn new(geometry: &ConvGeometry, tap: Dims) -> Self {
        Self { tap, outputs: std::array::from_fn(|dim| inside(geometry, dim, tap[dim])) }
    }

    /// Of the row of outputs at a depth and a height: the first, how many, and the place of the first one's input.
    fn row(&self, geometry: &ConvGeometry, [z, y]: [usize; 2]) -> Option<(usize, usize, usize)> {
        let [z_range, y_range, x_range] = &self.outputs;
        if !z_range.contains(&z) || !y_range.contains(&y) || x_range.is_empty() {
            return None;
        }
        let place = |dim: usize, output: usize| {
            output * geometry.stride[dim] + self.tap[dim] * geometry.dilation[dim] - geometry.padding[dim]
        };
        let row = place(0, z) * geometry.input[1] + place(1, y);
        Some((x_range.start, x_range.len(), row * geometry.input[2] + place(2, x_range.start)))
    }
}

/// The outputs along a dimension whose input is in the image.
fn inside(geometry: &ConvGeometry, dim: usize, tap: usize) -> Range<usize> {
    let (stride, padding) = (geometry.stride[dim], geometry.padding[dim]);
    let reach = tap * geometry.dilation[dim];
    // output * stride + reach - padding must be in 0..input.
    let start = padding.saturating_sub(reach).div_ceil(stride);
    let end = (geometry.input[dim] + padding).saturating_sub(reach).div_ceil(stride);
    let end = end.min(geometry.output[dim]);
    start.min(end)..end
}

/// Calls `visit(to, from, len)` for the outputs, a row at a time, whose input at the kernel's place `tap` lies in
/// the image: `len` adjacent outputs from `to` on, and their first input.
fn visit_rows(geometry: &ConvGeometry, tap: Dims, mut visit: impl FnMut(usize, usize, usize)) {
    let reach = Reach::new(geometry, tap);
    let [depth, height, width] = geometry.output;
    for row in 0..depth * height {
        if let Some((first, len, place)) = reach.row(geometry, [row / height, row % height]) {
            visit(row * width + first, place, len);
        }
    }
}

/// Writes the inputs that the kernel's place `tap` meets in one channel, zero where it meets padding.
pub(crate) fn gather<T: Copy>(geometry: &ConvGeometry, tap: Dims, channel: &[T], patches: &mut [T], zero: T) {
    patches.fill(zero);
    let stride = geometry.stride[2];
    visit_rows(geometry, tap, |to, from, len| {
        let from = channel[from..].iter().step_by(stride);
        patches[to..to + len].iter_mut().zip(from).for_each(|(to, &from)| *to = from);
    });
}

/// Writes the patches of some outputs of the row at a depth and a height, from an image whose channels are beside each
/// other: for each output all places of the kernel in order, and for each of them the channels. What meets padding is
/// not written.
pub(crate) fn gather_row<S: Copy>(
    geometry: &ConvGeometry,
    reaches: &[Reach],
    pixels: &[S],
    row: [usize; 2],
    taken: &Range<usize>,
    patches: &mut [S],
) {
    let (channels, depth) = (geometry.channels_in, geometry.depth());
    let step = geometry.stride[2] * channels;
    for (tap, reach) in reaches.iter().enumerate() {
        let Some((first, len, place)) = reach.row(geometry, row) else { continue };
        let (start, end) = (first.max(taken.start), (first + len).min(taken.end));
        if start >= end {
            continue;
        }
        let (place, len) = (place + (start - first) * geometry.stride[2], end - start);
        let to = &mut patches[(start - taken.start) * depth + tap * channels..];
        let from = &pixels[place * channels..];
        let last = (len - 1) * depth + channels;
        let places = to[..last].chunks_mut(depth).zip(from.chunks(step));
        if channels == 1 {
            places.for_each(|(to, from)| to[0] = from[0]);
        } else {
            places.for_each(|(to, from)| to[..channels].copy_from_slice(&from[..channels]));
        }
    }
}

/// Adds to each input of a channel what the outputs give that meet it at the kernel's place `tap`.
pub(crate) fn scatter_add<T: Copy, S: Copy>(
    geometry: &ConvGeometry,
    tap: Dims,
    patches: &[T],
    channel: &mut [S],
    add: impl Fn(S, T) -> S,
) {
    let stride = geometry.stride[2];
    visit_rows(geometry, tap, |to, from, len| {
        let inputs = channel[from..].iter_mut().step_by(stride);
        inputs.zip(&patches[to..to + len]).for_each(|(input, &patch)| *input = add(*input, patch));
    });
}
