//! [`Geometry`]: where in which storage the elements of a tensor are. [`Snapshot`]: as it was at one moment.

use std::ops::Deref;

use c10_core::{MemoryFormat, ScalarType, Storage, bytes};

use super::Dims;
use crate::error::{Error, Result};
use crate::shape;
use crate::view::Strided;

/// Sizes, strides and offset, the storage they are of, and what follows from them.
///
/// Invariants, which every constructor checks:
/// - G1 there are as many strides as sizes, and no size, stride or offset is negative;
/// - G2 `numel` is the product of the sizes, and `end_bytes` the end of the last element in the storage (0
///   without elements), and neither overflows;
/// - G3 `flags` are what `shape::contiguity` says of the sizes and strides.
///
/// That the storage has `end_bytes` bytes is checked when a view is made, and again by whoever takes access,
/// since others may shrink the storage between the two.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) storage: Storage,
    pub(crate) strided: Strided,
    pub(crate) numel: i64,
    pub(crate) end_bytes: usize,
    pub(crate) flags: Flags,
}

impl Geometry {
    /// Whether copies of it are [of few moves](Self::inline_copy).
    #[inline]
    pub(super) fn is_inline(&self) -> bool {
        self.sizes.is_inline() && self.strides.is_inline()
    }

    /// A copy, of one whose dimensions are inline. It is always part of its caller, so that it is made where it stays.
    #[inline(always)]
    pub(super) fn inline_copy(&self) -> Self {
        Self {
            storage: self.storage.clone(),
            strided: Strided {
                sizes: self.sizes.inline_copy(),
                strides: self.strides.inline_copy(),
                storage_offset: self.storage_offset,
            },
            ..*self
        }
    }

    /// Makes it elements that lie, from the storage's beginning on, as those of `like` do, which are dense. Both have
    /// their dimensions inline.
    #[inline(always)]
    pub(super) fn fill_dense_as(&mut self, like: &Self, end_bytes: usize) {
        let Strided { sizes, strides, storage_offset } = &mut self.strided;
        sizes.assign_inline(&like.sizes);
        strides.assign_inline(&like.strides);
        *storage_offset = 0;
        (self.numel, self.end_bytes, self.flags) = (like.numel, end_bytes, like.flags);
    }

    /// Elements that lie, from the beginning of `storage` on, as these do, which are dense.
    #[cold]
    pub(super) fn dense_on(&self, storage: Storage, end_bytes: usize) -> Self {
        let (sizes, strides) = (self.sizes.clone(), self.strides.clone());
        let strided = Strided { sizes, strides, storage_offset: 0 };
        Self { storage, strided, numel: self.numel, end_bytes, flags: self.flags }
    }
}

impl Deref for Geometry {
    type Target = Strided;

    #[inline]
    fn deref(&self) -> &Strided {
        &self.strided
    }
}

/// The geometry of a tensor as it was at one moment, in little room: almost none ever changes, so that it
/// is a reference.
#[derive(Debug)]
pub(crate) enum Snapshot<'a> {
    Unchanged(&'a Geometry),
    Copied(Box<Geometry>),
}

impl Snapshot<'_> {
    pub(crate) fn into_owned(self) -> Geometry {
        match self {
            Self::Unchanged(geometry) => geometry.clone(),
            Self::Copied(geometry) => *geometry,
        }
    }
}

impl Deref for Snapshot<'_> {
    type Target = Geometry;

    #[inline]
    fn deref(&self) -> &Geometry {
        match self {
            Self::Unchanged(geometry) => geometry,
            Self::Copied(geometry) => geometry,
        }
    }
}

/// How many elements there are, and where the last one ends in the storage, in bytes (G2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) numel: i64,
    pub(crate) end_bytes: usize,
}

impl Extent {
    /// # Errors
    /// For unequal numbers of sizes and strides, negative numbers, and what overflows.
    #[inline]
    pub(crate) fn of(sizes: &[i64], strides: &[i64], storage_offset: i64, dtype: ScalarType) -> Result<Self> {
        let element_size = dtype.element_size() as i64;
        // One pass over both, with what is wrong looked at in the end.
        let (mut numel, mut last) = (1_i64, storage_offset);
        let mut signs = storage_offset;
        let mut is_wrong = sizes.len() != strides.len();
        for (&size, &stride) in sizes.iter().zip(strides) {
            signs |= size | stride;
            let (product, of_product) = numel.overflowing_mul(size);
            let (way, of_way) = size.wrapping_sub(1).overflowing_mul(stride);
            let (sum, of_sum) = last.overflowing_add(way);
            (numel, last) = (product, sum);
            is_wrong |= of_product | of_way | of_sum;
        }
        let end = last.checked_add(1).and_then(|elements| elements.checked_mul(element_size));
        match end {
            Some(end_bytes) if signs >= 0 && !is_wrong && numel > 0 => {
                Ok(Self { numel, end_bytes: end_bytes as usize })
            }
            _ => Self::of_unusual(sizes, strides, storage_offset, dtype),
        }
    }

    /// That of row-major elements from a storage's beginning on.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    #[inline]
    pub(crate) fn of_row_major(sizes: &[i64], dtype: ScalarType) -> Result<Self> {
        let (mut numel, mut is_usual) = (1_i64, true);
        for &size in sizes {
            let (product, overflowed) = numel.overflowing_mul(size);
            is_usual &= size > 0 && !overflowed;
            numel = product;
        }
        match numel.checked_mul(dtype.element_size() as i64) {
            Some(end_bytes) if is_usual => Ok(Self { numel, end_bytes: end_bytes as usize }),
            _ => Self::of_unusual(sizes, &shape::contiguous_strides(sizes)?, 0, dtype),
        }
    }

    /// Without elements, or wrong.
    #[cold]
    fn of_unusual(sizes: &[i64], strides: &[i64], storage_offset: i64, dtype: ScalarType) -> Result<Self> {
        let end_bytes = bytes::strided_bytes(sizes, strides, dtype.element_size(), storage_offset)?;
        Ok(Self { numel: bytes::numel(sizes)?, end_bytes })
    }

    /// As [`of`](Self::of), of elements that are all in `storage`.
    #[inline]
    pub(crate) fn within(
        storage: &Storage,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
        dtype: ScalarType,
    ) -> Result<Self> {
        let extent = Self::of(sizes, strides, storage_offset, dtype)?;
        if extent.end_bytes > storage.nbytes() {
            return Err(out_of_bounds(extent.end_bytes, storage, sizes, strides, storage_offset, dtype));
        }
        Ok(extent)
    }
}

#[cold]
fn out_of_bounds(
    end_bytes: usize,
    storage: &Storage,
    sizes: &[i64],
    strides: &[i64],
    storage_offset: i64,
    dtype: ScalarType,
) -> Error {
    // PyTorch's text.
    Error::shape(format!(
        "setStorage: sizes {sizes:?}, strides {strides:?}, storage offset {storage_offset}, and itemsize {} \
         requiring a storage size of {end_bytes} are out of bounds for storage of size {}",
        dtype.element_size(),
        storage.nbytes()
    ))
}

/// What is known of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Flags {
    const CONTIGUOUS: u8 = 1;
    const DENSE: u8 = 1 << 1;
    const CHANNELS_LAST_CONTIGUOUS: u8 = 1 << 2;
    const CHANNELS_LAST_3D_CONTIGUOUS: u8 = 1 << 3;
    const PREFERS_CHANNELS_LAST: u8 = 1 << 4;
    const PREFERS_CHANNELS_LAST_3D: u8 = 1 << 5;
    /// The strides are those of a new row-major tensor, of dimensions of size 1 too.
    const CANONICAL: u8 = 1 << 6;

    /// Those of row-major strides, of few dimensions.
    const ROW_MAJOR: Self = Self(Self::CONTIGUOUS | Self::CANONICAL | Self::DENSE);

    #[inline]
    fn of(sizes: &[i64], strides: &[i64], numel: i64) -> Self {
        let mut flags = Self::in_order(sizes, strides, numel);
        if matches!(sizes.len(), 4 | 5) {
            flags |= Self::of_rank_4_or_5(sizes, strides);
        }
        let any_contiguous =
            Self::CONTIGUOUS | Self::CHANNELS_LAST_CONTIGUOUS | Self::CHANNELS_LAST_3D_CONTIGUOUS;
        if flags & any_contiguous != 0 || shape::is_non_overlapping_and_dense(sizes, strides) {
            flags |= Self::DENSE;
        }
        Self(flags)
    }

    /// Row-major, whatever the strides of dimensions of size 1, without elements always; and whether the strides are
    /// the canonical ones. `numel` is the product of the sizes.
    #[inline]
    fn in_order(sizes: &[i64], strides: &[i64], numel: i64) -> u8 {
        if numel == 0 {
            return if shape::is_canonical(sizes, strides) {
                Self::CONTIGUOUS | Self::CANONICAL
            } else {
                Self::CONTIGUOUS
            };
        }
        let (mut flags, mut expected) = (Self::CONTIGUOUS | Self::CANONICAL, 1_i64);
        for (&size, &stride) in sizes.iter().zip(strides).rev() {
            if stride != expected {
                if size != 1 {
                    return 0;
                }
                flags = Self::CONTIGUOUS;
            }
            // It is a part of `numel`.
            expected = expected.wrapping_mul(size);
        }
        flags
    }

    fn of_rank_4_or_5(sizes: &[i64], strides: &[i64]) -> u8 {
        let mut flags = 0;
        for (format, contiguous, prefers) in [
            (MemoryFormat::ChannelsLast, Self::CHANNELS_LAST_CONTIGUOUS, Self::PREFERS_CHANNELS_LAST),
            (MemoryFormat::ChannelsLast3d, Self::CHANNELS_LAST_3D_CONTIGUOUS, Self::PREFERS_CHANNELS_LAST_3D),
        ] {
            if shape::is_channels_last_contiguous(sizes, strides, format) {
                flags |= contiguous;
            }
            if shape::prefers_channels_last(sizes, strides, format) {
                flags |= prefers;
            }
        }
        flags
    }

    /// Those of row-major strides.
    #[inline]
    fn of_row_major(sizes: &[i64], strides: &[i64]) -> Self {
        match sizes.len() {
            4 | 5 => Self(Self::ROW_MAJOR.0 | Self::of_rank_4_or_5(sizes, strides)),
            _ => Self::ROW_MAJOR,
        }
    }

    /// Those of the same elements in other dimensions, or in another order of them: whether they lie densely stays.
    #[inline]
    pub(crate) fn rearranged(self, sizes: &[i64], strides: &[i64], numel: i64) -> Self {
        let mut flags = self.0 & Self::DENSE | Self::in_order(sizes, strides, numel);
        if matches!(sizes.len(), 4 | 5) {
            flags |= Self::of_rank_4_or_5(sizes, strides);
        }
        Self(flags)
    }

    #[inline]
    pub(crate) fn is_contiguous(self, format: MemoryFormat) -> bool {
        let flag = match format {
            MemoryFormat::Contiguous => Self::CONTIGUOUS,
            MemoryFormat::ChannelsLast => Self::CHANNELS_LAST_CONTIGUOUS,
            MemoryFormat::ChannelsLast3d => Self::CHANNELS_LAST_3D_CONTIGUOUS,
            _ => return false,
        };
        self.0 & flag != 0
    }

    /// The strides are those of a new row-major tensor, of dimensions of size 1 too.
    #[inline]
    pub(crate) fn is_canonical(self) -> bool {
        self.0 & Self::CANONICAL != 0
    }

    #[inline]
    pub(crate) fn is_non_overlapping_and_dense(self) -> bool {
        self.0 & Self::DENSE != 0
    }

    /// `suggest_memory_format`.
    pub(crate) fn suggested_format(self) -> MemoryFormat {
        if self.0 & Self::PREFERS_CHANNELS_LAST != 0 {
            MemoryFormat::ChannelsLast
        } else if self.0 & Self::PREFERS_CHANNELS_LAST_3D != 0 {
            MemoryFormat::ChannelsLast3d
        } else {
            MemoryFormat::Contiguous
        }
    }
}

impl Geometry {
    /// Elements in a storage, within its bounds.
    #[inline]
    pub(crate) fn new(
        storage: Storage,
        sizes: Dims,
        strides: Dims,
        storage_offset: i64,
        dtype: ScalarType,
    ) -> Result<Self> {
        let extent = Extent::within(&storage, &sizes, &strides, storage_offset, dtype)?;
        Ok(Self::of_extent(storage, sizes, strides, storage_offset, extent))
    }

    /// As [`new`](Self::new), though the storage may be smaller: for one that is resized next.
    #[inline]
    pub(crate) fn unbounded(
        storage: Storage,
        sizes: Dims,
        strides: Dims,
        storage_offset: i64,
        dtype: ScalarType,
    ) -> Result<Self> {
        let extent = Extent::of(&sizes, &strides, storage_offset, dtype)?;
        Ok(Self::of_extent(storage, sizes, strides, storage_offset, extent))
    }

    /// Of one element of no size at the storage's beginning: to be filled where it stays.
    #[inline(always)]
    pub(super) fn unfilled(storage: Storage) -> Self {
        let strided = Strided { sizes: Dims::new(), strides: Dims::new(), storage_offset: 0 };
        Self { storage, strided, numel: 1, end_bytes: 0, flags: Flags::ROW_MAJOR }
    }

    /// Fills it with elements of that extent in row-major order, from the storage's beginning on.
    #[inline(always)]
    pub(super) fn fill_row_major(&mut self, sizes: &[i64], extent: Extent) {
        let Strided { sizes: own, strides, .. } = &mut self.strided;
        Dims::fill_row_major(own, strides, sizes);
        self.strided.storage_offset = 0;
        (self.numel, self.end_bytes) = (extent.numel, extent.end_bytes);
        self.flags = Flags::of_row_major(&self.sizes, &self.strides);
    }

    /// Elements of that extent. It is always part of its caller, so that nothing is moved twice.
    #[inline(always)]
    pub(crate) fn of_extent(
        storage: Storage,
        sizes: Dims,
        strides: Dims,
        storage_offset: i64,
        extent: Extent,
    ) -> Self {
        let flags = Flags::of(&sizes, &strides, extent.numel);
        let Extent { numel, end_bytes } = extent;
        Self { storage, strided: Strided { sizes, strides, storage_offset }, numel, end_bytes, flags }
    }

    /// Whether the storage has the elements still.
    ///
    /// # Errors
    /// When it has shrunk.
    #[inline]
    pub(crate) fn check_within(&self, dtype: ScalarType) -> Result<()> {
        if self.end_bytes > self.storage.nbytes() {
            let Strided { sizes, strides, storage_offset } = &self.strided;
            return Err(out_of_bounds(self.end_bytes, &self.storage, sizes, strides, *storage_offset, dtype));
        }
        Ok(())
    }

    /// After the places changed: makes what follows from them, if they are within the storage.
    #[inline]
    pub(super) fn settle(&mut self, dtype: ScalarType) -> Result<()> {
        let Strided { sizes, strides, storage_offset } = &self.strided;
        let extent = Extent::within(&self.storage, sizes, strides, *storage_offset, dtype)?;
        self.flags = Flags::of(sizes, strides, extent.numel);
        (self.numel, self.end_bytes) = (extent.numel, extent.end_bytes);
        Ok(())
    }

    /// As [`settle`](Self::settle), after the places became some of those that there were: no sum or product overflows
    /// that did not before.
    #[inline(always)]
    pub(super) fn settle_part(&mut self, dtype: ScalarType) -> Result<()> {
        let Strided { sizes, strides, storage_offset } = &self.strided;
        let (mut numel, mut last) = (1_i64, *storage_offset);
        for (&size, &stride) in sizes.iter().zip(strides) {
            numel = numel.wrapping_mul(size);
            last = last.wrapping_add(size.wrapping_sub(1).wrapping_mul(stride));
        }
        let end_bytes = last.wrapping_add(1).wrapping_mul(dtype.element_size() as i64) as usize;
        // What is not as it should be is looked at again.
        if numel == 0 || end_bytes > self.storage.nbytes() {
            return self.settle(dtype);
        }
        debug_assert!(
            Extent::of(sizes, strides, *storage_offset, dtype)
                .is_ok_and(|extent| (extent.numel, extent.end_bytes) == (numel, end_bytes)),
            "{:?} is no part of what there was",
            self.strided
        );
        self.flags = Flags::of(sizes, strides, numel);
        (self.numel, self.end_bytes) = (numel, end_bytes);
        Ok(())
    }

    /// After the places changed, and are those of the same elements: how many there are and where they end needs no
    /// second look.
    #[inline(always)]
    pub(crate) fn settle_rearranged(&mut self, dtype: ScalarType) {
        let Strided { sizes, strides, storage_offset } = &self.strided;
        debug_assert!(
            Extent::of(sizes, strides, *storage_offset, dtype)
                .is_ok_and(|here| (here.numel, here.end_bytes) == (self.numel, self.end_bytes)),
            "{:?} is of other elements than before",
            self.strided
        );
        self.flags = self.flags.rearranged(sizes, strides, self.numel);
    }

    /// Gives elements that lie in row-major order another shape, if that holds just so many and leaves nothing open; it
    /// says whether it does, and the places are left in some state if not.
    #[inline(always)]
    pub(crate) fn take_row_major(&mut self, shape: &[i64]) -> bool {
        let Strided { sizes, strides, .. } = &mut self.strided;
        if Dims::fill_row_major(sizes, strides, shape) != Some(self.numel) {
            return false;
        }
        self.flags = Flags::of_row_major(&self.sizes, &self.strides);
        debug_assert_eq!(self.flags, Flags::of(&self.sizes, &self.strides, self.numel), "{:?}", self.strided);
        true
    }
}
