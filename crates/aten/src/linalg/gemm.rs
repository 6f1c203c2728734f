//! `C = beta·C + alpha·A·B` for batches of strided matrices, shared among threads.
//!
//! The product is cut along `k` into blocks that are always the same, and along rows and columns in whatever way
//! suits the threads: each element of `C` is the sum of the same blocks in the same order, so that results
//! do not depend on threads. `A` and `B` are copied into panels where that pays for itself, and read in place
//! where they are small.

#![expect(unsafe_code, reason = "threads write disjoint tiles of one matrix through a pointer")]

use std::ops::Range;

use super::matrices::{Matrices, MatricesMut};
use super::microkernel::{Before, KernelElement, Microkernel, Tile};
use super::pack::{PanelBuffer, Source, pack};
use crate::parallel::{in_parallel_region, num_threads, parallel_for};

/// The length of a block of `k`: a panel of `B` of this depth stays in the first-level cache.
const DEPTH_BLOCK: usize = 384;
/// Rows of `A` that are packed at a time, to stay in the second-level cache.
const ROW_BLOCK: usize = 168;
/// Columns of `B` that are packed at a time.
const COL_BLOCK: usize = 4096;
/// Up to so many rows of `C`, `B` is read in place: a copy would not be used often enough.
const ROWS_TO_PACK_B: usize = 256;
/// Up to so many columns of `C`, `A` is read in place.
const COLS_TO_PACK_A: usize = 256;
/// Multiplications that are worth waking a thread for.
const GRAIN: usize = 64 * 64 * 64;

/// `c = beta·c + alpha·a·b`, for each matrix of the batch. Where `beta` is zero, `c` is not read.
///
/// # Panics
/// When the sizes do not fit each other.
pub(crate) fn gemm<T: KernelElement>(
    alpha: T,
    a: Matrices<'_, T>,
    b: Matrices<'_, T>,
    beta: T,
    mut c: MatricesMut<'_, T>,
) {
    let (size_a, size_b, size_c) = (a.layout(), b.layout(), c.layout());
    let batch = size_c.batch;
    assert!(size_a.batch == batch && size_b.batch == batch, "a batch of products of {batch}");
    assert!(size_a.rows == size_c.rows && size_b.cols == size_c.cols && size_a.cols == size_b.rows);
    if batch == 1 {
        return product(alpha, a, b, beta, c);
    }
    let work = (size_c.rows * size_c.cols).saturating_mul(size_a.cols).max(1);
    let c = c.reborrow();
    let one = |index| {
        // SAFETY: each index is taken once.
        let c = unsafe { c.matrix_unchecked(index) };
        product(alpha, a.matrix(index), b.matrix(index), beta, c);
    };
    if batch >= 2 * num_threads() || work < GRAIN {
        parallel_for(0..batch, GRAIN.div_ceil(work), |indices| indices.for_each(&one));
    } else {
        (0..batch).for_each(one);
    }
}

/// One product of the batch.
fn product<T: KernelElement>(
    alpha: T,
    a: Matrices<'_, T>,
    b: Matrices<'_, T>,
    beta: T,
    c: MatricesMut<'_, T>,
) {
    if !c.layout().rows_are_contiguous() && c.layout().transposed().rows_are_contiguous() {
        return product_into_rows(alpha, b.transposed(), a.transposed(), beta, c.transposed());
    }
    product_into_rows(alpha, a, b, beta, c);
}

/// The numbers of a product that all its tiles share.
struct Product<T> {
    kernel: Microkernel<T>,
    rows: usize,
    a: Operand<T>,
    b: Operand<T>,
    c: *mut T,
    c_row_stride: isize,
    c_col_stride: isize,
    alpha: T,
    pack_a: bool,
    pack_b: bool,
}

// SAFETY: the pointers are those of operands that live as long as the product; tiles of `c` are disjoint.
unsafe impl<T: Send + Sync> Sync for Product<T> {}

#[derive(Clone, Copy)]
struct Operand<T> {
    first: *const T,
    row_stride: isize,
    col_stride: isize,
}

impl<T> Operand<T> {
    fn of(matrix: &Matrices<'_, T>) -> Self {
        let layout = matrix.layout();
        Self { first: matrix.as_ptr(), row_stride: layout.row_stride, col_stride: layout.col_stride }
    }

    fn at(&self, row: usize, col: usize) -> *const T {
        self.first.wrapping_offset(row as isize * self.row_stride + col as isize * self.col_stride)
    }
}

/// A block of `k` and of columns, with the rows of `B` in it as the microkernel finds them.
struct Block<'a, T> {
    depth: Range<usize>,
    cols: Range<usize>,
    b_panels: *const T,
    b_offsets: &'a [isize],
    before: Before<T>,
}

// SAFETY: the panels are only read while the block is shared.
unsafe impl<T: Send + Sync> Sync for Block<'_, T> {}

fn product_into_rows<T: KernelElement>(
    alpha: T,
    a: Matrices<'_, T>,
    b: Matrices<'_, T>,
    beta: T,
    c: MatricesMut<'_, T>,
) {
    let (rows, cols, depth) = (c.layout().rows, c.layout().cols, a.layout().cols);
    if rows == 0 || cols == 0 {
        return;
    }
    let product = Product {
        kernel: T::microkernel(),
        rows,
        a: Operand::of(&a),
        b: Operand::of(&b),
        c: c.as_mut_ptr(),
        c_row_stride: c.layout().row_stride,
        c_col_stride: if c.layout().rows_are_contiguous() { 1 } else { c.layout().col_stride },
        alpha,
        pack_a: cols > COLS_TO_PACK_A,
        pack_b: rows > ROWS_TO_PACK_B || !b.layout().rows_are_contiguous(),
    };
    let width = product.kernel.cols;
    let step = if product.pack_b { width as isize } else { product.b.row_stride };
    let b_offsets: Vec<isize> = (0..depth.min(DEPTH_BLOCK) as isize).map(|row| row * step).collect();
    let mut buffer = product
        .pack_b
        .then(|| PanelBuffer::new(b_offsets.len() * width * cols.min(COL_BLOCK).div_ceil(width)));
    let mut before = Before::times(beta);
    // Even where `k` is zero, one empty block scales `C`.
    for depth_begin in (0..depth.max(1)).step_by(DEPTH_BLOCK) {
        let depth_block = depth_begin..depth.min(depth_begin + DEPTH_BLOCK);
        for col_begin in (0..cols).step_by(COL_BLOCK) {
            let col_block = col_begin..cols.min(col_begin + COL_BLOCK);
            let b_panels: *const T = match &mut buffer {
                Some(buffer) => product.pack_b(&depth_block, &col_block, buffer),
                None => product.b.at(depth_begin, col_begin),
            };
            product.block(&Block {
                depth: depth_block.clone(),
                cols: col_block,
                b_panels,
                b_offsets: &b_offsets,
                before,
            });
        }
        before = Before::Kept;
    }
}

impl<T: KernelElement> Product<T> {
    fn pack_b(&self, depth: &Range<usize>, cols: &Range<usize>, buffer: &mut PanelBuffer<T>) -> *const T {
        struct Shared<T>(*mut T);
        // SAFETY: each panel is written by one thread.
        unsafe impl<T: Send> Sync for Shared<T> {}

        let width = self.kernel.cols;
        let to = Shared(buffer.as_mut_ptr());
        let to = &to;
        let grain = (1 << 15) / (depth.len() * width).max(1);
        parallel_for(0..cols.len().div_ceil(width), grain, |panels| {
            for panel in panels {
                let col = cols.start + panel * width;
                let source = Source {
                    first: self.b.at(depth.start, col),
                    lanes: width.min(cols.end - col),
                    depth: depth.len(),
                    lane_stride: self.b.col_stride,
                    depth_stride: self.b.row_stride,
                };
                // SAFETY: a part of `b`; the buffer has room for all panels of a block.
                unsafe { pack(source, to.0.wrapping_add(panel * width * depth.len()), width) };
            }
        });
        to.0
    }

    /// Shares a block among the threads: by rows, or by columns where there are few rows.
    fn block(&self, block: &Block<'_, T>) {
        let Microkernel { rows: height, cols: width, .. } = self.kernel;
        let row_panels = self.rows.div_ceil(height);
        let col_panels = block.cols.len().div_ceil(width);
        let work = block.depth.len().max(1) * height * width;
        let threads = if in_parallel_region() { 1 } else { num_threads() };
        if row_panels >= 2 * threads || row_panels >= col_panels {
            parallel_for(0..row_panels, GRAIN.div_ceil(work * col_panels), |panels| {
                self.tiles(block, panels, 0..col_panels);
            });
        } else {
            parallel_for(0..col_panels, GRAIN.div_ceil(work * row_panels), |panels| {
                self.tiles(block, 0..row_panels, panels);
            });
        }
    }

    /// Some of the tiles of a block, by panels of rows and of columns.
    fn tiles(&self, block: &Block<'_, T>, row_panels: Range<usize>, col_panels: Range<usize>) {
        let height = self.kernel.rows;
        let depth = block.depth.len();
        let chunk = (ROW_BLOCK / height).max(1).min(row_panels.len());
        let mut buffer = self.pack_a.then(|| PanelBuffer::new(chunk * height * depth));
        for first in row_panels.clone().step_by(chunk) {
            let rows = first * height..self.rows.min((first + chunk).min(row_panels.end) * height);
            let packed = buffer.as_mut().map(|buffer| self.pack_a(&block.depth, &rows, buffer));
            for col_panel in col_panels.clone() {
                for row in rows.clone().step_by(height) {
                    let tile = self.tile(block, row..rows.end.min(row + height), col_panel);
                    let tile = match packed {
                        Some(panels) => Tile {
                            a: panels.wrapping_add((row - rows.start) * depth),
                            a_row_stride: 1,
                            a_depth_stride: height as isize,
                            ..tile
                        },
                        None => tile,
                    };
                    // SAFETY: the tile is one of this product's, and each is computed by one thread.
                    unsafe { self.store(&tile) };
                }
            }
        }
    }

    /// The tile, with `A` in place.
    fn tile(&self, block: &Block<'_, T>, rows: Range<usize>, col_panel: usize) -> Tile<T> {
        let width = self.kernel.cols;
        let col = col_panel * width;
        let depth = block.depth.len();
        let b = if self.pack_b { col * depth } else { col };
        let (row, col) = (rows.start as isize, (block.cols.start + col) as isize);
        Tile {
            rows: rows.len(),
            cols: width.min(block.cols.end - col as usize),
            depth,
            a: self.a.at(rows.start, block.depth.start),
            a_row_stride: self.a.row_stride,
            a_depth_stride: self.a.col_stride,
            b: block.b_panels.wrapping_add(b),
            b_offsets: block.b_offsets.as_ptr(),
            c: self.c.wrapping_offset(row * self.c_row_stride + col * self.c_col_stride),
            c_row_stride: self.c_row_stride,
            alpha: self.alpha,
            before: block.before,
        }
    }

    fn pack_a(&self, depth: &Range<usize>, rows: &Range<usize>, buffer: &mut PanelBuffer<T>) -> *const T {
        let height = self.kernel.rows;
        let to = buffer.as_mut_ptr();
        for row in rows.clone().step_by(height) {
            let source = Source {
                first: self.a.at(row, depth.start),
                lanes: height.min(rows.end - row),
                depth: depth.len(),
                lane_stride: self.a.row_stride,
                depth_stride: self.a.col_stride,
            };
            // SAFETY: a part of `a`; the buffer has room for all panels of a chunk.
            unsafe { pack(source, to.wrapping_add((row - rows.start) * depth.len()), height) };
        }
        to
    }

    /// Computes a tile, by way of a buffer where the columns of `C` are not adjacent.
    ///
    /// # Safety
    /// No other thread works on the tile.
    unsafe fn store(&self, tile: &Tile<T>) {
        if self.c_col_stride == 1 {
            // SAFETY: all operands are in bounds by the sizes of the product.
            return unsafe { self.kernel.run(tile) };
        }
        const LARGEST: usize = 14 * 32;
        let mut values = [T::ZERO; LARGEST];
        let apart = Tile {
            c: values.as_mut_ptr(),
            c_row_stride: tile.cols as isize,
            before: Before::Dropped,
            ..*tile
        };
        // SAFETY: as above; the buffer has room for the largest tile.
        unsafe { self.kernel.run(&apart) };
        for (index, &value) in values[..tile.rows * tile.cols].iter().enumerate() {
            let (row, col) = ((index / tile.cols) as isize, (index % tile.cols) as isize);
            let place = tile.c.wrapping_offset(row * self.c_row_stride + col * self.c_col_stride);
            let value = match tile.before {
                Before::Dropped => value,
                Before::Kept => {
                    // SAFETY: an element of `C`.
                    unsafe { *place }.ring_add(value)
                }
                Before::Scaled(beta) => {
                    // SAFETY: an element of `C`.
                    beta.ring_mul(unsafe { *place }).ring_add(value)
                }
            };
            // SAFETY: an element of `C`.
            unsafe { *place = value };
        }
    }
}

#[cfg(test)]
mod tests;
