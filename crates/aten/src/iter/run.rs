#![expect(unsafe_code, reason = "moves pointers over operands that are locked and within bounds")]
//! Walking the elements: access to the storages, then rows of the innermost dimension, shared among threads
//! where there are many.
//!
//! Each element is computed alone, so that the result does not depend on how the walk is cut. It is cut only
//! if no two threads can meet: see [`apart`](super::apart).

use std::mem::MaybeUninit;
use std::ops::Range;

use c10_core::Storage;
use c10_core::storage::{Access, AccessOptions};
use smallvec::SmallVec;

use super::TensorIter;
use super::apart;
use super::operand::{Operand, Source};
use super::plan::General;
use crate::error::{Error, Result};
use crate::parallel::parallel_for;
use crate::tensor::{Geometry, check_end};

/// How many elements are worth a thread (`at::internal::GRAIN_SIZE`).
pub(crate) const GRAIN_SIZE: usize = 32_768;

/// A pointer and a byte stride for each of `N` operands, and how many elements there are in the row.
///
/// # Safety
/// For whoever calls it: each pointer, moved by its stride up to `n - 1` times, is valid for an element of its
/// operand's dtype; those of outputs for writes, and nobody else writes there or reads there meanwhile but
/// the row itself.
pub(super) type Row<'a, const N: usize> = &'a (dyn Fn(&[*mut u8; N], &[i64; N], i64) + Sync);

/// As [`Row`], of a row and those that [`Further`] says of.
pub(super) type Rows<'a, const N: usize> = &'a (dyn Fn(&[*mut u8; N], &[i64; N], i64, Further<'_, N>) + Sync);

/// The rows that follow a first one, each so many bytes from the one before it.
#[derive(Clone, Copy)]
pub(super) struct Further<'r, const N: usize> {
    pub(super) steps: &'r [i64; N],
    pub(super) rows: usize,
}

impl<const N: usize> Further<'_, N> {
    /// Calls `row` with where each row begins; the first begins at `first`.
    #[inline(always)]
    pub(super) fn with(self, first: &[*mut u8; N], mut row: impl FnMut(&[*mut u8; N])) {
        let (mut pointers, mut left) = (*first, self.rows);
        loop {
            row(&pointers);
            if left == 0 {
                return;
            }
            left -= 1;
            pointers
                .iter_mut()
                .zip(self.steps)
                .for_each(|(at, &step)| *at = at.wrapping_offset(step as isize));
        }
    }
}

/// Calls `row` with every row of the innermost dimension, with access to all operands, of which there are `N`.
#[inline]
pub(super) fn for_each_row<const N: usize>(iter: &TensorIter<'_>, row: Row<'_, N>) -> Result<()> {
    for_each_rows(iter, &|first, strides, n, further| {
        further.with(first, |pointers| row(pointers, strides, n))
    })
}

/// As [`for_each_row`], with rows that follow each other in the next dimension at once.
///
/// It is one function for each number of operands: what has to be done for few elements is done in it.
#[inline(never)]
pub(super) fn for_each_rows<const N: usize>(iter: &TensorIter<'_>, row: Rows<'_, N>) -> Result<()> {
    if iter.numel == 0 {
        return Ok(());
    }
    match &iter.general {
        None => iter.flat.walk(iter.counts_writes, row),
        Some(general) => for_each_row_of(iter, general, row),
    }
}

#[inline(never)]
fn for_each_row_of<const N: usize>(
    iter: &TensorIter<'_>,
    general: &General<'_>,
    row: Rows<'_, N>,
) -> Result<()> {
    let (written, read) = general.operands.split_at(iter.outputs);
    if iter.outputs > 0 && written.iter().all(|operand| borrowed(operand).is_none()) {
        let read: [_; N] = std::array::from_fn(|i| {
            general.operands.get(i).and_then(borrowed).map(|geometry| &geometry.storage)
        });
        if let Some(walked) = Access::with_few(read, false, || rows(iter, general, row)) {
            return walked;
        }
    }
    let written: SmallVec<[_; 2]> = written.iter().filter_map(borrowed).map(|g| &g.storage).collect();
    let read: SmallVec<[_; 4]> = read.iter().filter_map(borrowed).map(|g| &g.storage).collect();
    // Held until the walk is over. Fresh tensors and cast copies are this thread's alone.
    let _access = Access::acquire_with(
        &read,
        &written,
        AccessOptions { bump_version: iter.counts_writes, host: true },
    )?;
    rows(iter, general, row)
}

/// [`for_each_row`], of storages that are locked.
#[inline(never)]
fn rows<const N: usize>(iter: &TensorIter<'_>, general: &General<'_>, row: Rows<'_, N>) -> Result<()> {
    let mut first = First([std::ptr::null_mut(); N]);
    let mut inner_strides = [0; N];
    assert_eq!(general.operands.len(), N, "a row has all operands");
    for (i, operand) in general.operands.iter().enumerate() {
        first.0[i] = first_element(operand)?;
        inner_strides[i] = operand.strides.first().copied().unwrap_or(0);
    }
    let numel = iter.numel as usize;
    if numel < 2 * GRAIN_SIZE || !apart::threads_stay_apart(general, iter.outputs) {
        walk(general, &first, &inner_strides, 0..numel, row);
    } else if is_crosswise(general) {
        let (first, inner) = (&first, general.sizes[0] as usize);
        let grain = (GRAIN_SIZE / inner).max(TILE_ROWS);
        parallel_for(0..general.sizes[1] as usize, grain, |rows| {
            walk_tiles(general, iter.outputs, first, &inner_strides, rows, row);
        });
    } else {
        let first = &first;
        parallel_for(0..numel, GRAIN_SIZE, |range| walk(general, first, &inner_strides, range, row));
    }
    Ok(())
}

/// Where the operands begin.
pub(super) struct First<const N: usize>(pub(super) [*mut u8; N]);

// SAFETY: pointers are only numbers here; whoever follows them answers for that.
unsafe impl<const N: usize> Sync for First<N> {}

/// The geometry of an operand whose storage others may have.
fn borrowed<'s>(operand: &'s Operand<'_>) -> Option<&'s Geometry> {
    match &operand.source {
        Source::Borrowed(geometry) => Some(geometry),
        _ => None,
    }
}

/// Where the first element is. The storage, if others may have it, is locked.
#[inline]
fn first_element(operand: &Operand<'_>) -> Result<*mut u8> {
    match &operand.source {
        Source::Number(bytes) => Ok(bytes.0.as_ptr().cast_mut()),
        Source::Borrowed(geometry) => first_in(&geometry.storage, operand.begin_bytes, operand.end_bytes),
        Source::Fresh(tensor) | Source::Cast(tensor) => {
            first_in(&tensor.geometry().storage, operand.begin_bytes, operand.end_bytes)
        }
    }
}

/// Where an element is that begins so many bytes into a storage of the host, which is locked and must have
/// `end_bytes`.
#[inline]
pub(super) fn first_in(storage: &Storage, begin_bytes: usize, end_bytes: usize) -> Result<*mut u8> {
    if !storage.device().is_cpu() {
        return Err(not_of_the_host(storage.device()));
    }
    check_end(end_bytes, storage.nbytes())?;
    // SAFETY: the element is within the storage, whose bytes end at or after `end_bytes`.
    Ok(unsafe { storage.data_ptr().cast_mut().add(begin_bytes) })
}

#[cold]
fn not_of_the_host(device: c10_core::Device) -> Error {
    Error::not_implemented(format!("a loop of the host over elements on {device}"))
}

/// The elements of a range in the order of the walk, row by row.
fn walk<const N: usize>(
    general: &General<'_>,
    first: &First<N>,
    inner_strides: &[i64; N],
    range: Range<usize>,
    row: Rows<'_, N>,
) {
    let inner = general.sizes.first().map_or(1, |&size| size as usize);
    let outer = general.sizes.get(1..).unwrap_or(&[]);
    let mut index: SmallVec<[i64; 6]> = SmallVec::new();
    let mut rest = range.start / inner;
    let mut pointers = first.0;
    for (dim, &size) in outer.iter().enumerate() {
        let at = (rest % size as usize) as i64;
        rest /= size as usize;
        index.push(at);
        advance(&mut pointers, general, dim + 1, at);
    }
    // Rows follow each other in the second dimension.
    let steps: [i64; N] = std::array::from_fn(|i| general.operands[i].strides.get(1).copied().unwrap_or(0));
    let mut at = range.start;
    let mut within = range.start % inner;
    advance(&mut pointers, general, 0, within as i64);
    while at < range.end {
        let n = (inner - within).min(range.end - at);
        // Whole rows up to the end of the second dimension, or a part of one.
        let left = outer.first().zip(index.first()).map_or(1, |(&size, &index)| (size - index) as usize);
        let rows = if n == inner { left.min((range.end - at) / inner) } else { 1 };
        row(&pointers, inner_strides, n as i64, Further { steps: &steps, rows: rows - 1 });
        at += n * rows;
        if within > 0 {
            advance(&mut pointers, general, 0, -(within as i64));
            within = 0;
        }
        let mut moved = rows as i64;
        for dim in 0..outer.len() {
            index[dim] += moved;
            if index[dim] < outer[dim] {
                advance(&mut pointers, general, dim + 1, moved);
                break;
            }
            advance(&mut pointers, general, dim + 1, moved - index[dim]);
            (index[dim], moved) = (0, 1);
        }
    }
}

/// The sides of the tiles of a walk that is crosswise to an operand.
const TILE_ROWS: usize = 16;
const TILE_COLUMNS: usize = 256;

/// Whether a walk over two dimensions takes long steps in an operand whose neighbours are in the next row: then each
/// element is on a line of its own, and a row has more of them than caches hold until the next row needs them.
fn is_crosswise(general: &General<'_>) -> bool {
    let [inner, outer] = general.sizes[..] else { return false };
    inner as usize > TILE_COLUMNS / 4
        && outer as usize >= TILE_ROWS
        && general.operands.iter().any(|operand| crosses(&operand.strides))
}

fn crosses(strides: &[i64]) -> bool {
    const LONG: i64 = 512;
    matches!(*strides, [long, short] if long >= LONG && short < long && short > 0)
}

/// A tile of an input that is walked crosswise, laid out row by row. Each line of the input is read once, from end to
/// end, and needs not stay in a cache until the next row; where steps are powers of two it would not.
struct Tile {
    operand: usize,
    /// In bytes.
    element: usize,
    long: i64,
    short: i64,
    /// Room for the widest elements.
    room: Box<[MaybeUninit<u128>; TILE_ROWS * TILE_COLUMNS]>,
}

impl Tile {
    /// Those of a walk: inputs that are crossed.
    fn all_of(general: &General<'_>, outputs: usize) -> SmallVec<[Self; 2]> {
        let inputs = general.operands.iter().enumerate().skip(outputs);
        let crossed = inputs.filter(|(_, operand)| crosses(&operand.strides));
        let tile = |(at, operand): (usize, &Operand<'_>)| Self {
            operand: at,
            element: operand.dtype.element_size(),
            long: operand.strides[0],
            short: operand.strides[1],
            room: Box::new([const { MaybeUninit::uninit() }; TILE_ROWS * TILE_COLUMNS]),
        };
        crossed.map(tile).collect()
    }

    /// Copies `rows` times `columns` elements from where the tile begins.
    ///
    /// # Safety
    /// They are within the operand, which nobody writes meanwhile.
    unsafe fn fill(&mut self, from: *const u8, rows: usize, columns: usize) {
        let fill: unsafe fn(&mut Self, *const u8, usize, usize) = match self.element {
            1 => Self::fill_with::<u8>,
            2 => Self::fill_with::<u16>,
            4 => Self::fill_with::<u32>,
            8 => Self::fill_with::<u64>,
            _ => Self::fill_with::<u128>,
        };
        // SAFETY: the caller's; the element is as large as the operand's.
        unsafe { fill(self, from, rows, columns) };
    }

    /// # Safety
    /// As for [`fill`](Self::fill), of elements as large as `T`.
    unsafe fn fill_with<T: Copy>(&mut self, from: *const u8, rows: usize, columns: usize) {
        let room = self.room.as_mut_ptr().cast::<T>();
        for column in 0..columns {
            let line = from.wrapping_offset(column as isize * self.long as isize);
            for row in 0..rows {
                let element = line.wrapping_offset(row as isize * self.short as isize).cast::<T>();
                // SAFETY: the element is within the operand. It need not be aligned.
                let value = unsafe { element.read_unaligned() };
                // SAFETY: the room is for as many rows and columns of elements at least as large.
                unsafe { room.wrapping_add(row * TILE_COLUMNS + column).write(value) };
            }
        }
    }

    /// Where its first row begins. There are as many columns to the next one as fit.
    fn first(&mut self) -> *mut u8 {
        self.room.as_mut_ptr().cast::<u8>()
    }
}

/// Rows of a walk over two dimensions, tile by tile. No element depends on another.
fn walk_tiles<const N: usize>(
    general: &General<'_>,
    outputs: usize,
    first: &First<N>,
    inner_strides: &[i64; N],
    rows: Range<usize>,
    row: Rows<'_, N>,
) {
    let inner = general.sizes[0] as usize;
    let mut tiles = Tile::all_of(general, outputs);
    let mut strides = *inner_strides;
    let mut steps: [i64; N] = std::array::from_fn(|i| general.operands[i].strides[1]);
    for tile in &tiles {
        strides[tile.operand] = tile.element as i64;
        steps[tile.operand] = (TILE_COLUMNS * tile.element) as i64;
    }
    for top in rows.clone().step_by(TILE_ROWS) {
        let height = TILE_ROWS.min(rows.end - top);
        for left in (0..inner).step_by(TILE_COLUMNS) {
            let width = TILE_COLUMNS.min(inner - left);
            let mut corner = first.0;
            advance(&mut corner, general, 0, left as i64);
            advance(&mut corner, general, 1, top as i64);
            for tile in &mut tiles {
                // SAFETY: the tile is within the walk, and its elements are written after this, by itself, if at all.
                unsafe { tile.fill(corner[tile.operand], height, width) };
            }
            tiles.iter_mut().for_each(|tile| corner[tile.operand] = tile.first());
            row(&corner, &strides, width as i64, Further { steps: &steps, rows: height - 1 });
        }
    }
}

fn advance(pointers: &mut [*mut u8], general: &General<'_>, dim: usize, steps: i64) {
    for (pointer, operand) in pointers.iter_mut().zip(&general.operands) {
        let stride = operand.strides.get(dim).copied().unwrap_or(0);
        // Wrapping, since after the last row there is nothing to point to.
        *pointer = pointer.wrapping_offset((stride * steps) as isize);
    }
}
