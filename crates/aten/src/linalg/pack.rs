//! Panels: a copy of some rows of `A`, or columns of `B`, in the order in which the microkernel reads them.

#![expect(unsafe_code, reason = "copies between raw strided memory and uninitialised buffers")]

use std::mem::MaybeUninit;

/// Memory for panels, uninitialised until they are packed.
pub(crate) struct PanelBuffer<T>(Vec<MaybeUninit<T>>);

impl<T: Copy> PanelBuffer<T> {
    pub(crate) fn new(len: usize) -> Self {
        let mut memory = Vec::with_capacity(len);
        // SAFETY: the capacity is there, and nothing has to be initialised.
        unsafe { memory.set_len(len) };
        Self(memory)
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// The elements of a panel in the matrix that it is copied from: `lanes` of them beside each other (rows of
/// `A`, columns of `B`), `depth` times.
#[derive(Clone, Copy)]
pub(crate) struct Source<T> {
    pub(crate) first: *const T,
    pub(crate) lanes: usize,
    pub(crate) depth: usize,
    pub(crate) lane_stride: isize,
    pub(crate) depth_stride: isize,
}

/// Copies a panel: lane `i` at depth `p` goes to `to[p * width + i]`.
///
/// # Safety
/// The source is readable, and `to` has room for `depth * width` elements, `lanes <= width`.
pub(crate) unsafe fn pack<T: Copy>(source: Source<T>, to: *mut T, width: usize) {
    match source {
        Source { lane_stride: 1, lanes: 32, .. } if width == 32 => {
            // SAFETY: as promised.
            unsafe { copy_rows::<T, 32>(source, to) }
        }
        Source { lane_stride: 1, lanes: 16, .. } if width == 16 => {
            // SAFETY: as promised.
            unsafe { copy_rows::<T, 16>(source, to) }
        }
        Source { lane_stride: 1, lanes: 14, .. } if width == 14 => {
            // SAFETY: as promised.
            unsafe { copy_rows::<T, 14>(source, to) }
        }
        Source { depth_stride: 1, .. } => {
            // SAFETY: as promised.
            unsafe { transpose(source, to, width) }
        }
        _ => {
            // SAFETY: as promised.
            unsafe { copy_any(source, to, width, 0) }
        }
    }
}

/// # Safety
/// As for [`pack`], with `WIDTH` adjacent lanes.
unsafe fn copy_rows<T: Copy, const WIDTH: usize>(source: Source<T>, to: *mut T) {
    for depth in 0..source.depth {
        let from = source.first.wrapping_offset(depth as isize * source.depth_stride);
        // SAFETY: `WIDTH` adjacent lanes.
        let row = unsafe { from.cast::<[T; WIDTH]>().read_unaligned() };
        // SAFETY: there is room for `depth` rows.
        unsafe { to.wrapping_add(depth * WIDTH).cast::<[T; WIDTH]>().write_unaligned(row) };
    }
}

/// # Safety
/// As for [`pack`], where the elements of a lane are adjacent.
unsafe fn transpose<T: Copy>(source: Source<T>, to: *mut T, width: usize) {
    const STEP: usize = 4;
    let whole = source.depth - source.depth % STEP;
    let blocks = source.lanes - source.lanes % STEP;
    for depth in (0..whole).step_by(STEP) {
        let column = |lane: usize| {
            let from = source.first.wrapping_offset(lane as isize * source.lane_stride + depth as isize);
            // SAFETY: `STEP` adjacent elements of the lane.
            unsafe { from.cast::<[T; STEP]>().read_unaligned() }
        };
        for lane in (0..blocks).step_by(STEP) {
            let block: [[T; STEP]; STEP] = std::array::from_fn(|index| column(lane + index));
            #[expect(clippy::needless_range_loop, reason = "it indexes the columns of the block")]
            for step in 0..STEP {
                let row: [T; STEP] = std::array::from_fn(|index| block[index][step]);
                let to = to.wrapping_add((depth + step) * width + lane);
                // SAFETY: there is room for `depth` rows.
                unsafe { to.cast::<[T; STEP]>().write_unaligned(row) };
            }
        }
        for lane in blocks..source.lanes {
            for (step, value) in column(lane).into_iter().enumerate() {
                // SAFETY: there is room for `depth` rows.
                unsafe { *to.wrapping_add((depth + step) * width + lane) = value };
            }
        }
    }
    // SAFETY: as promised.
    unsafe { copy_any(source, to, width, whole) };
}

/// # Safety
/// As for [`pack`].
unsafe fn copy_any<T: Copy>(source: Source<T>, to: *mut T, width: usize, begin: usize) {
    for depth in begin..source.depth {
        let from = source.first.wrapping_offset(depth as isize * source.depth_stride);
        for lane in 0..source.lanes {
            // SAFETY: an element of the source.
            let value = unsafe { *from.wrapping_offset(lane as isize * source.lane_stride) };
            // SAFETY: there is room for `depth` rows.
            unsafe { *to.wrapping_add(depth * width + lane) = value };
        }
    }
}
