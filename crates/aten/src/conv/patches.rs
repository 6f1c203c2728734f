//! Patches: for each place of the kernel, the inputs that it meets at all outputs (`im2col`), and the sum back
//! (`col2im`).

use std::ops::Range;

use super::geometry::{ConvGeometry, Dims};

/// Calls `visit(to, from, len)` for the outputs, a row at a time, whose input at the kernel's place `tap` lies in
/// the image: `len` adjacent outputs from `to` on, and their first input. The others meet padding.
fn visit_rows(geometry: &ConvGeometry, tap: Dims, mut visit: impl FnMut(usize, usize, usize)) {
    let ranges: [Range<usize>; 3] = std::array::from_fn(|dim| inside(geometry, dim, tap[dim]));
    let place = |dim: usize, output: usize| {
        output * geometry.stride[dim] + tap[dim] * geometry.dilation[dim] - geometry.padding[dim]
    };
    let [z_range, y_range, x_range] = ranges;
    if x_range.is_empty() {
        return;
    }
    for z in z_range {
        for y in y_range.clone() {
            let to = (z * geometry.output[1] + y) * geometry.output[2] + x_range.start;
            let row = place(0, z) * geometry.input[1] + place(1, y);
            visit(to, row * geometry.input[2] + place(2, x_range.start), x_range.len());
        }
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

/// Writes the inputs that the kernel's place `tap` meets in one channel, zero where it meets padding.
pub(crate) fn gather<T: Copy, U: Copy>(
    geometry: &ConvGeometry,
    tap: Dims,
    channel: &[T],
    patches: &mut [U],
    zero: U,
    convert: impl Fn(T) -> U,
) {
    patches.fill(zero);
    let stride = geometry.stride[2];
    visit_rows(geometry, tap, |to, from, len| {
        let from = channel[from..].iter().step_by(stride);
        patches[to..to + len].iter_mut().zip(from).for_each(|(to, &from)| *to = convert(from));
    });
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
