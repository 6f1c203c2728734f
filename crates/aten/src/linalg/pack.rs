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

/// Rows and columns of the blocks that [`transpose`] moves.
const STEP: usize = 4;

/// # Safety
/// As for [`pack`], where the elements of a lane are adjacent.
unsafe fn transpose<T: Copy>(source: Source<T>, to: *mut T, width: usize) {
    let whole = source.depth - source.depth % STEP;
    let blocks = source.lanes - source.lanes % STEP;
    for depth in (0..whole).step_by(STEP) {
        let from =
            |lane: usize| source.first.wrapping_offset(lane as isize * source.lane_stride + depth as isize);
        for lane in (0..blocks).step_by(STEP) {
            let rows: [*const T; STEP] = std::array::from_fn(|index| from(lane + index));
            let to = to.wrapping_add(depth * width + lane);
            // SAFETY: `STEP` adjacent elements of each lane; there is room for `depth` rows.
            unsafe { transpose_block(rows, std::array::from_fn(|step| to.wrapping_add(step * width))) };
        }
        for lane in blocks..source.lanes {
            // SAFETY: `STEP` adjacent elements of the lane.
            let values = unsafe { from(lane).cast::<[T; STEP]>().read_unaligned() };
            for (step, value) in values.into_iter().enumerate() {
                // SAFETY: there is room for `depth` rows.
                unsafe { *to.wrapping_add((depth + step) * width + lane) = value };
            }
        }
    }
    // SAFETY: as promised.
    unsafe { copy_any(source, to, width, whole) };
}

/// Writes the columns of a block as rows.
///
/// # Safety
/// There are `STEP` elements to read at each pointer of `from`, and as many to write at each of `to`.
#[inline]
unsafe fn transpose_block<T: Copy>(from: [*const T; STEP], to: [*mut T; STEP]) {
    // The compiler would move one element at a time.
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == size_of::<f32>() {
        // SAFETY: as promised: vectors are moved bit by bit, whatever the elements of this size are.
        return unsafe { transpose_words(from.map(|from| from.cast()), to.map(|to| to.cast())) };
    }
    let block = from.map(|row| {
        // SAFETY: as promised.
        unsafe { row.cast::<[T; STEP]>().read_unaligned() }
    });
    for (step, to) in to.into_iter().enumerate() {
        let row: [T; STEP] = std::array::from_fn(|index| block[index][step]);
        // SAFETY: as promised.
        unsafe { to.cast::<[T; STEP]>().write_unaligned(row) };
    }
}

/// # Safety
/// As for [`transpose_block`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
unsafe fn transpose_words(from: [*const f32; STEP], to: [*mut f32; STEP]) {
    use std::arch::x86_64::{
        _mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_storeu_ps, _mm_unpackhi_ps, _mm_unpacklo_ps,
    };
    let [a, b, c, d] = from.map(|row| {
        // SAFETY: as promised.
        unsafe { _mm_loadu_ps(row) }
    });
    let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
    let (ab_high, cd_high) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
    let columns = [
        _mm_movelh_ps(ab, cd),
        _mm_movehl_ps(cd, ab),
        _mm_movelh_ps(ab_high, cd_high),
        _mm_movehl_ps(cd_high, ab_high),
    ];
    for (to, column) in to.into_iter().zip(columns) {
        // SAFETY: as promised.
        unsafe { _mm_storeu_ps(to, column) };
    }
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
