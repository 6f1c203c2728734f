//! [`Planes`]: an image laid out so that the microkernel finds the inputs of adjacent outputs side by side.
//!
//! Where the stride is one and nothing is padded, that is the image itself. Otherwise each channel is copied
//! into padded planes, one for each remainder of a place divided by the stride: the inputs that the outputs
//! `o`, `o + 1`, … meet at one place of the kernel are then adjacent whatever the stride. An output has the
//! same number in all planes, so one table of offsets, an entry for each weight, says where its inputs are.

#![expect(unsafe_code, reason = "threads fill the planes of one buffer")]

use super::geometry::{ConvGeometry, DIMS, Dims};
use crate::linalg::accumulate::Accumulate;
use crate::linalg::simd::Ring;
use crate::parallel::{DisjointMut, parallel_for};

/// The layout, shared by all images of a convolution.
#[derive(Debug)]
pub(crate) struct Planes {
    /// The length of a plane along each dimension.
    plane: Dims,
    /// The remainders that some place of the kernel meets.
    phases: Vec<Dims>,
    /// Where the inputs of output 0 stand, for each weight in order.
    pub(crate) offsets: Vec<isize>,
    /// Whether the image needs no copy.
    in_place: bool,
}

impl Planes {
    pub(crate) fn new(geometry: &ConvGeometry) -> Self {
        let in_place = (0..DIMS).all(|dim| {
            let reach = geometry.dilation[dim] * (geometry.kernel[dim] - 1);
            let fits = geometry.output[dim] + reach <= geometry.input[dim];
            geometry.stride[dim] == 1 && geometry.padding[dim] == 0 && fits
        });
        let plane: Dims = if in_place {
            geometry.input
        } else {
            std::array::from_fn(|dim| {
                let reach = geometry.dilation[dim] * (geometry.kernel[dim] - 1) / geometry.stride[dim];
                geometry.output[dim] + reach
            })
        };
        let taps: Vec<(Dims, Dims)> =
            (0..geometry.taps()).map(|tap| phase_and_shift(geometry, geometry.tap(tap))).collect();
        let mut phases: Vec<Dims> = taps.iter().map(|(phase, _)| *phase).collect();
        phases.sort_unstable();
        phases.dedup();
        let len: usize = plane.iter().product();
        let mut offsets = Vec::with_capacity(geometry.depth());
        for channel in 0..geometry.channels_in {
            for (phase, [depth, height, width]) in &taps {
                let phase = phases.binary_search(phase).unwrap_or_default();
                let first = (channel * phases.len() + phase) * len;
                offsets.push((first + (depth * plane[1] + height) * plane[2] + width) as isize);
            }
        }
        Self { plane, phases, offsets, in_place }
    }

    /// The number of an output in the planes.
    pub(crate) fn place(&self, [depth, height, width]: Dims) -> usize {
        (depth * self.plane[1] + height) * self.plane[2] + width
    }

    /// The output with that number; one that does not exist has a height or width beyond the last.
    pub(crate) fn output(&self, place: usize) -> Dims {
        let [_, height, width] = self.plane;
        [place / (height * width), place / width % height, place % width]
    }

    /// The length of a row of a plane.
    pub(crate) fn row_len(&self) -> usize {
        self.plane[2]
    }

    /// How many elements the planes of one image of one group take.
    pub(crate) fn len(&self, geometry: &ConvGeometry) -> usize {
        geometry.channels_in * self.phases.len() * self.plane.iter().product::<usize>()
    }

    /// The planes of an image of one group: the image itself, or a copy in `buffer`.
    pub(crate) fn of<'a, T: Accumulate>(
        &self,
        geometry: &ConvGeometry,
        image: &'a [T],
        buffer: &'a mut Vec<T::Sum>,
    ) -> &'a [T::Sum] {
        if self.in_place
            && let Some(image) = T::as_sums(image)
        {
            return image;
        }
        // All that is not written below is padding, the same for every image.
        buffer.resize(self.len(geometry), T::Sum::ZERO);
        let len: usize = self.plane.iter().product();
        let planes = DisjointMut::new(buffer);
        let grain = (1 << 15) / (len * self.phases.len()).max(1);
        parallel_for(0..geometry.channels_in, grain, |channels| {
            for channel in channels {
                let from = &image[channel * geometry.input_len()..][..geometry.input_len()];
                for (index, &phase) in self.phases.iter().enumerate() {
                    let first = (channel * self.phases.len() + index) * len;
                    // SAFETY: each plane is taken once.
                    let plane = unsafe { planes.part(first..first + len) };
                    self.copy(geometry, from, phase, plane);
                }
            }
        });
        buffer
    }

    /// Copies what a plane holds of a channel.
    fn copy<T: Accumulate>(&self, geometry: &ConvGeometry, from: &[T], phase: Dims, plane: &mut [T::Sum]) {
        let place = |dim: usize, index: usize| {
            (index * geometry.stride[dim] + phase[dim])
                .checked_sub(geometry.padding[dim])
                .filter(|&place| place < geometry.input[dim])
        };
        let [_, _, stride] = geometry.stride;
        let Some(columns) = inside(self.plane[2], |index| place(2, index)) else { return };
        let Some(first) = place(2, columns.start) else { return };
        for depth in 0..self.plane[0] {
            let Some(z) = place(0, depth) else { continue };
            for height in 0..self.plane[1] {
                let Some(y) = place(1, height) else { continue };
                let row = &from[(z * geometry.input[1] + y) * geometry.input[2] + first..];
                let to = &mut plane[(depth * self.plane[1] + height) * self.plane[2]..][columns.clone()];
                if stride == 1 {
                    let row = &row[..to.len()];
                    to.iter_mut().zip(row).for_each(|(to, from)| *to = from.widen());
                } else {
                    to.iter_mut().zip(row.iter().step_by(stride)).for_each(|(to, from)| *to = from.widen());
                }
            }
        }
    }
}

/// Which plane a place of the kernel reads, and how far from the output.
fn phase_and_shift(geometry: &ConvGeometry, tap: Dims) -> (Dims, Dims) {
    let reach = |dim: usize| tap[dim] * geometry.dilation[dim];
    (
        std::array::from_fn(|dim| reach(dim) % geometry.stride[dim]),
        std::array::from_fn(|dim| reach(dim) / geometry.stride[dim]),
    )
}

/// The range of indices below `len` that have a place; they are adjacent.
fn inside(len: usize, place: impl Fn(usize) -> Option<usize>) -> Option<std::ops::Range<usize>> {
    let start = (0..len).find(|&index| place(index).is_some())?;
    let end = (start..len).find(|&index| place(index).is_none()).unwrap_or(len);
    Some(start..end)
}
