#![expect(unsafe_code, reason = "reads and writes single elements of storages that a set has locked")]
//! [`ElementCells`] and [`ElementCellsMut`]: elements of a tensor by their indices, one at a time.
//!
//! They are to elements what `Cell` is to one value: views of the same bytes may be there at one time, since
//! none gives out a reference, and none leaves its thread.

use std::fmt;
use std::marker::PhantomData;

use super::access_element::AccessElement;
use super::geometry::Geometry;
use crate::error::{Error, Result};

/// Where the elements of an operand are, in a storage that is locked for `'a` and as large as they need.
#[derive(Clone, Copy)]
struct Place<'a, T> {
    first: *mut u8,
    geometry: &'a Geometry,
    element: PhantomData<*mut T>,
}

/// The elements of a tensor that is read.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<aten::tensor::ElementCells<'static, f32>>();
/// ```
#[derive(Clone, Copy)]
pub struct ElementCells<'a, T>(Place<'a, T>);

/// The elements of a tensor that is written.
///
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<aten::tensor::ElementCellsMut<'static, f32>>();
/// ```
#[derive(Clone, Copy)]
pub struct ElementCellsMut<'a, T>(Place<'a, T>);

impl<'a, T: AccessElement> Place<'a, T> {
    /// The offset of an element in bytes, if there is one at that index.
    fn offset(&self, index: &[i64]) -> Option<usize> {
        let (sizes, strides) = (&self.geometry.sizes, &self.geometry.strides);
        if index.len() != sizes.len() || index.iter().zip(sizes).any(|(&at, &size)| at < 0 || at >= size) {
            return None;
        }
        let elements: i64 = index.iter().zip(strides).map(|(at, stride)| at * stride).sum();
        Some(elements as usize * size_of::<T>())
    }

    fn load(&self, offset: usize) -> T {
        // SAFETY: an element's offset, and the elements are within the locked storage (G2).
        let from = unsafe { self.first.add(offset) };
        // SAFETY: the storage is locked for `'a`; what else the set lends of its bytes are cells too, on this
        // thread, since it lends references only to storages that it does not lend as cells to be written.
        unsafe { T::load(from) }
    }

    fn store(&self, offset: usize, value: T) {
        // SAFETY: as in `load`.
        let to = unsafe { self.first.add(offset) };
        // SAFETY: as in `load`, and the storage is locked exclusively. No element is read by reference.
        unsafe { to.cast::<T>().write_unaligned(value) };
    }

    fn offsets(&self) -> impl Iterator<Item = usize> + use<'a, T> {
        let geometry = self.geometry;
        let mut index = geometry.sizes.clone();
        index.fill(0);
        let mut offset = 0_i64;
        (0..geometry.numel).map(move |_| {
            let here = offset as usize * size_of::<T>();
            for dim in (0..index.len()).rev() {
                index[dim] += 1;
                offset += geometry.strides[dim];
                if index[dim] < geometry.sizes[dim] {
                    break;
                }
                offset -= geometry.strides[dim] * index[dim];
                index[dim] = 0;
            }
            here
        })
    }
}

macro_rules! views {
    ($($view:ident),*) => {$(
        impl<'a, T: AccessElement> $view<'a, T> {
            /// # Safety
            /// For `'a`, the storage of `geometry` is locked, exclusively to write, has the elements at
            /// `storage_offset`, and nobody has a reference to bytes that may be written.
            pub(super) unsafe fn new(storage: *mut u8, geometry: &'a Geometry) -> Self {
                let begin = geometry.storage_offset as usize * size_of::<T>();
                // Wrapping: without elements there may be nothing there.
                Self(Place { first: storage.wrapping_add(begin), geometry, element: PhantomData })
            }

            /// The size of each dimension.
            pub fn sizes(&self) -> &'a [i64] {
                &self.0.geometry.sizes
            }

            /// The stride of each dimension, in elements.
            pub fn strides(&self) -> &'a [i64] {
                &self.0.geometry.strides
            }

            /// The element at an index, one number a dimension; `None` where there is none.
            pub fn get(&self, index: &[i64]) -> Option<T> {
                self.0.offset(index).map(|offset| self.0.load(offset))
            }

            /// The elements in row-major order.
            pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
                let place = self.0;
                place.offsets().map(move |offset| place.load(offset))
            }
        }

        impl<T> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($view))
                    .field("sizes", &self.0.geometry.sizes)
                    .field("strides", &self.0.geometry.strides)
                    .finish_non_exhaustive()
            }
        }
    )*};
}
views!(ElementCells, ElementCellsMut);

impl<T: AccessElement> ElementCellsMut<'_, T> {
    /// Writes the element at an index.
    ///
    /// # Errors
    /// [`ErrorKind::Index`](crate::ErrorKind::Index) where there is none.
    pub fn set(&self, index: &[i64], value: T) -> Result<()> {
        let offset = self.0.offset(index).ok_or_else(|| {
            Error::index(format!("no element at {index:?} of sizes {:?}", self.0.geometry.sizes))
        })?;
        self.0.store(offset, value);
        Ok(())
    }

    /// Writes `values`, in row-major order, for as long as both last.
    pub fn write(&self, values: impl IntoIterator<Item = T>) {
        self.0.offsets().zip(values).for_each(|(offset, value)| self.0.store(offset, value));
    }

    /// Writes to each element what `f` makes of it, in row-major order.
    pub fn update(&self, mut f: impl FnMut(T) -> T) {
        self.0.offsets().for_each(|offset| self.0.store(offset, f(self.0.load(offset))));
    }
}
