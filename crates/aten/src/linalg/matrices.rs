//! [`Matrices`] and [`MatricesMut`]: a batch of strided matrices in borrowed memory.

#![expect(unsafe_code, reason = "pointers with extents, shared by the threads that work on one product")]

use std::marker::PhantomData;

/// The place of a batch of matrices: how many, of which size, and the step of each dimension in elements.
///
/// Steps may be zero or negative, and the step of a dimension of one element means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixLayout {
    pub(crate) batch: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) batch_stride: isize,
    pub(crate) row_stride: isize,
    pub(crate) col_stride: isize,
}

impl MatrixLayout {
    /// One matrix.
    pub(crate) fn matrix(rows: usize, cols: usize, row_stride: isize, col_stride: isize) -> Self {
        Self { batch: 1, rows, cols, batch_stride: 0, row_stride, col_stride }
    }

    /// One matrix whose rows follow each other without gaps.
    pub(crate) fn row_major(rows: usize, cols: usize) -> Self {
        Self::matrix(rows, cols, cols as isize, 1)
    }

    /// The same elements with rows and columns exchanged.
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// Whether the elements of a row are adjacent.
    pub(crate) fn rows_are_contiguous(&self) -> bool {
        self.cols <= 1 || self.col_stride == 1
    }

    /// The batch as row-major matrices, one after the other.
    pub(crate) fn dense(self) -> Self {
        let (row_stride, col_stride) = (self.cols as isize, 1);
        Self { batch_stride: self.rows as isize * row_stride, row_stride, col_stride, ..self }
    }

    /// Where a row begins.
    fn place(&self, matrix: usize, row: usize) -> isize {
        matrix as isize * self.batch_stride + row as isize * self.row_stride
    }

    fn is_empty(&self) -> bool {
        self.batch == 0 || self.rows == 0 || self.cols == 0
    }

    /// The lowest and the highest place of an element, or none where the numbers overflow or there is none.
    fn extent(&self) -> Option<(isize, isize)> {
        let dims =
            [(self.batch, self.batch_stride), (self.rows, self.row_stride), (self.cols, self.col_stride)];
        let (mut low, mut high) = (0_isize, 0_isize);
        for (size, stride) in dims {
            let last = isize::try_from(size.checked_sub(1)?).ok()?.checked_mul(stride)?;
            low = low.checked_add(last.min(0))?;
            high = high.checked_add(last.max(0))?;
        }
        Some((low, high))
    }

    /// Whether all elements lie in a slice of `len` when the first stands at `offset`.
    fn fits(&self, offset: usize, len: usize) -> bool {
        if self.is_empty() {
            return true;
        }
        let Some((low, high)) = self.extent() else { return false };
        let Some(low) = offset.checked_add_signed(low) else { return false };
        let Some(high) = offset.checked_add_signed(high) else { return false };
        low <= high && high < len
    }

    /// Whether no two elements share a place; may say no where they do not.
    fn is_disjoint(&self) -> bool {
        if self.batch == 0 || self.rows == 0 || self.cols == 0 {
            return true;
        }
        let mut dims =
            [(self.batch, self.batch_stride), (self.rows, self.row_stride), (self.cols, self.col_stride)];
        dims.sort_by_key(|(_, stride)| stride.unsigned_abs());
        let mut span = 0_usize;
        for (size, stride) in dims {
            if size > 1 {
                if stride.unsigned_abs() <= span {
                    return false;
                }
                span += (size - 1) * stride.unsigned_abs();
            }
        }
        true
    }
}

/// Matrices to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrices<'a, T> {
    first: *const T,
    layout: MatrixLayout,
    memory: PhantomData<&'a [T]>,
}

// SAFETY: as a shared slice, which it stands for.
unsafe impl<T: Sync> Send for Matrices<'_, T> {}
// SAFETY: as a shared slice, which it stands for.
unsafe impl<T: Sync> Sync for Matrices<'_, T> {}

impl<'a, T> Matrices<'a, T> {
    /// The matrices whose first element is `data[offset]`.
    ///
    /// # Panics
    /// When an element lies outside of `data`.
    pub(crate) fn new(data: &'a [T], offset: usize, layout: MatrixLayout) -> Self {
        assert!(layout.fits(offset, data.len()), "{layout:?} at {offset} in {} elements", data.len());
        let first = data.as_ptr().wrapping_add(offset);
        // SAFETY: all elements lie in `data`, borrowed for `'a`.
        unsafe { Self::from_raw_parts(first, layout) }
    }

    /// The matrices whose first element is at `first`.
    ///
    /// # Safety
    /// All elements are readable for `'a`, and nobody writes them meanwhile.
    pub(crate) unsafe fn from_raw_parts(first: *const T, layout: MatrixLayout) -> Self {
        Self { first, layout, memory: PhantomData }
    }

    pub(crate) fn layout(&self) -> MatrixLayout {
        self.layout
    }

    pub(crate) fn as_ptr(&self) -> *const T {
        self.first
    }

    pub(crate) fn transposed(self) -> Self {
        Self { layout: self.layout.transposed(), ..self }
    }

    /// One matrix of as many rows and no column, or of no row and as many columns, whose product is all zeros.
    pub(crate) fn without_depth(&self, rows: usize, cols: usize) -> Self {
        Self { layout: MatrixLayout::matrix(rows, cols, 0, 0), ..*self }
    }

    /// The matrix `index` alone.
    pub(crate) fn matrix(&self, index: usize) -> Self {
        assert!(index < self.layout.batch);
        let first = self.first.wrapping_offset(index as isize * self.layout.batch_stride);
        Self { first, layout: MatrixLayout { batch: 1, batch_stride: 0, ..self.layout }, memory: PhantomData }
    }

    /// A converted copy of all elements, each matrix row-major, one after the other.
    pub(crate) fn to_dense<U: Send>(self, convert: impl Fn(T) -> U + Sync) -> Vec<U>
    where
        T: Copy + Sync,
    {
        let MatrixLayout { batch, rows, cols, .. } = self.layout;
        let mut dense = Vec::with_capacity(batch * rows * cols);
        for matrix in 0..batch {
            for row in 0..rows {
                let first = self.layout.place(matrix, row);
                dense.extend((0..cols).map(|col| {
                    // SAFETY: an element of the matrix.
                    convert(unsafe {
                        *self.first.wrapping_offset(first + col as isize * self.layout.col_stride)
                    })
                }));
            }
        }
        dense
    }
}

/// Matrices to write. No two elements share a place.
#[derive(Debug)]
pub(crate) struct MatricesMut<'a, T> {
    first: *mut T,
    layout: MatrixLayout,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: as an exclusive slice, which it stands for.
unsafe impl<T: Send> Send for MatricesMut<'_, T> {}
// SAFETY: through a shared reference nothing is read or written but by the unsafe code of this folder.
unsafe impl<T: Send + Sync> Sync for MatricesMut<'_, T> {}

impl<'a, T> MatricesMut<'a, T> {
    /// The matrices whose first element is `data[offset]`.
    ///
    /// # Panics
    /// When an element lies outside of `data`, or two at the same place.
    pub(crate) fn new(data: &'a mut [T], offset: usize, layout: MatrixLayout) -> Self {
        assert!(layout.fits(offset, data.len()), "{layout:?} at {offset} in {} elements", data.len());
        assert!(layout.is_disjoint(), "{layout:?} has elements that share a place");
        let first = data.as_mut_ptr().wrapping_add(offset);
        // SAFETY: all elements lie in `data`, borrowed for `'a`, and are apart.
        unsafe { Self::from_raw_parts(first, layout) }
    }

    /// The matrices whose first element is at `first`.
    ///
    /// # Safety
    /// All elements are readable and writable for `'a`, by nobody else meanwhile, and no two share a place.
    pub(crate) unsafe fn from_raw_parts(first: *mut T, layout: MatrixLayout) -> Self {
        Self { first, layout, memory: PhantomData }
    }

    pub(crate) fn layout(&self) -> MatrixLayout {
        self.layout
    }

    pub(crate) fn as_mut_ptr(&self) -> *mut T {
        self.first
    }

    pub(crate) fn transposed(self) -> Self {
        Self { layout: self.layout.transposed(), ..self }
    }

    /// The same matrices for a shorter time.
    pub(crate) fn reborrow(&mut self) -> MatricesMut<'_, T> {
        MatricesMut { first: self.first, layout: self.layout, memory: PhantomData }
    }

    /// The matrix `index` alone.
    ///
    /// # Safety
    /// No other use of that matrix lives at the same time.
    pub(crate) unsafe fn matrix_unchecked(&self, index: usize) -> MatricesMut<'_, T> {
        debug_assert!(index < self.layout.batch);
        let first = self.first.wrapping_offset(index as isize * self.layout.batch_stride);
        let layout = MatrixLayout { batch: 1, batch_stride: 0, ..self.layout };
        MatricesMut { first, layout, memory: PhantomData }
    }

    /// Replaces each element by what `update` makes of it and of its fellow in a dense batch of this size.
    pub(crate) fn update<U: Copy>(&mut self, dense: &[U], update: impl Fn(&mut T, U)) {
        let MatrixLayout { batch, rows, cols, col_stride, .. } = self.layout;
        assert_eq!(dense.len(), batch * rows * cols);
        if cols == 0 {
            return;
        }
        for (index, values) in dense.chunks_exact(cols).enumerate() {
            let first = self.layout.place(index / rows, index % rows);
            for (col, &value) in values.iter().enumerate() {
                let place = self.first.wrapping_offset(first + col as isize * col_stride);
                // SAFETY: an element of the matrix, which is borrowed exclusively.
                update(unsafe { &mut *place }, value);
            }
        }
    }
}
