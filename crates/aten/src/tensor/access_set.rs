#![expect(unsafe_code, reason = "lends elements of storages that the set has locked")]
//! [`Access::acquire`] and [`AccessSet`]: the elements of several tensors at once, for kernels of others.

use std::marker::PhantomData;

use c10_core::ScalarType;
use c10_core::storage::{self, AccessOptions};
use smallvec::SmallVec;

use super::Tensor;
use super::access::{check_contiguous, check_end, span};
use super::access_element::AccessElement;
use super::access_slice::{cast_valid, cast_valid_mut};
use super::access_view::{ElementCells, ElementCellsMut};
use super::geometry::Geometry;
use crate::error::{Error, Result};

/// The way to the elements of tensors.
///
/// ```
/// use aten::Tensor;
/// use aten::tensor::Access;
///
/// let (a, out) = (Tensor::from_elements(&[1.0_f32, 2.0])?, Tensor::from_elements(&[0.0_f32, 0.0])?);
/// let mut set = Access::acquire(&[&a], &[&out])?;
/// let ([read], [written]) = set.slices::<f32, 1, 1>()?;
/// written.iter_mut().zip(read).for_each(|(out, a)| *out = 2.0 * a);
/// drop(set);
/// assert_eq!(out.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), aten::Error>(())
/// ```
#[derive(Debug)]
pub enum Access {}

/// Access to the elements of several tensors, until the set is dropped. Each storage is locked once, in its
/// strongest mode.
///
/// Operands are numbered as they were given to [`Access::acquire`]. Elements are lent as slices, `&mut` only
/// where the storage is no other operand; or else as cells, which may alias. It stays on its thread:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<aten::tensor::AccessSet>();
/// ```
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<aten::tensor::AccessSet>();
/// ```
/// Cells that are written, and a slice of the same set to write, cannot be there at one time:
/// ```compile_fail,E0502
/// let tensor = aten::Tensor::from_elements(&[1.0_f32])?;
/// let mut set = aten::tensor::Access::acquire(&[], &[&tensor])?;
/// let cells = set.write_cells::<f32>(0)?;
/// let slice = set.write_slice::<f32>(0)?;
/// cells.update(|x| x + slice[0]);
/// # Ok::<(), aten::Error>(())
/// ```
#[must_use = "access ends as soon as the set is dropped"]
#[derive(Debug)]
pub struct AccessSet {
    set: storage::AccessSet<'static>,
    /// As they were when the storages were locked; reads first.
    operands: SmallVec<[Operand; 4]>,
    reads: usize,
    /// Cells are lent by a shared borrow, which must not be another thread's.
    _thread: PhantomData<*const ()>,
}

#[derive(Debug)]
struct Operand {
    geometry: Geometry,
    dtype: ScalarType,
}

impl Access {
    /// Locks the storages of tensors to read and to write, as the host, and counts a write of each that is
    /// written. The thread waits, unless it holds access already.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a tensor with the conjugate or the
    /// negative bit, whose bytes are not its elements,
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) where the thread may not wait,
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) when a storage was shrunk below its tensor; else as
    /// [`c10_core::storage::Access::acquire`]. Nothing is locked then.
    pub fn acquire(reads: &[&Tensor], writes: &[&Tensor]) -> Result<AccessSet> {
        Self::acquire_with(reads, writes, AccessOptions::default())
    }

    /// [`acquire`](Self::acquire), with options: as for a device, which gives addresses alone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_with(reads: &[&Tensor], writes: &[&Tensor], options: AccessOptions) -> Result<AccessSet> {
        reads.iter().chain(writes).try_for_each(|tensor| tensor.check_as_stored())?;
        let operands: SmallVec<[Operand; 4]> = reads
            .iter()
            .chain(writes)
            .map(|tensor| Operand { geometry: tensor.geometry().into_owned(), dtype: tensor.dtype() })
            .collect();
        let handles = operands.iter().map(|operand| operand.geometry.storage.clone()).collect();
        let set = storage::Access::acquire_owned(handles, reads.len(), options)?;
        for Operand { geometry, .. } in &operands {
            check_end(geometry.end_bytes, geometry.storage.nbytes())?;
        }
        Ok(AccessSet { set, operands, reads: reads.len(), _thread: PhantomData })
    }
}

impl AccessSet {
    /// The elements of the read operand `i`, as cells, whatever the strides.
    ///
    /// # Errors
    /// [`ErrorKind::Dtype`](crate::ErrorKind::Dtype) when they are no `T`s;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand;
    /// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when the host cannot reach them.
    pub fn read_cells<T: AccessElement>(&self, i: usize) -> Result<ElementCells<'_, T>> {
        let (address, _) = self.set.read_ptr(i)?;
        let geometry = self.host_operand::<T>(i)?;
        // SAFETY: locked by the set, with its end checked under the lock. A `&mut` to its bytes takes the set
        // exclusively, which this borrows.
        Ok(unsafe { ElementCells::new(address.cast_mut(), geometry) })
    }

    /// The elements of the write operand `i`, as cells, whatever the strides and whatever else its storage is.
    ///
    /// # Errors
    /// As [`read_cells`](Self::read_cells).
    pub fn write_cells<T: AccessElement>(&self, i: usize) -> Result<ElementCellsMut<'_, T>> {
        let address = self.set.write_address(i)?;
        let geometry = self.host_operand::<T>(self.reads + i)?;
        // SAFETY: as in `read_cells`; locked exclusively, and a shared slice of a storage that is written is
        // refused by the storage's set.
        Ok(unsafe { ElementCellsMut::new(address, geometry) })
    }

    /// The elements of the read operand `i`.
    ///
    /// # Errors
    /// As [`read_cells`](Self::read_cells), and
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when they are not contiguous or not
    /// aligned, the set also writes their storage, or bytes of a `bool` tensor are neither 0 nor 1.
    pub fn read_slice<T: AccessElement>(&self, i: usize) -> Result<&[T]> {
        let bytes = self.set.read(i)?;
        let range = self.contiguous::<T>(i, bytes.len())?;
        cast_valid(&bytes[range])
    }

    /// The elements of the write operand `i`.
    ///
    /// # Errors
    /// As [`read_slice`](Self::read_slice), also when the storage is another operand of the set.
    pub fn write_slice<T: AccessElement>(&mut self, i: usize) -> Result<&mut [T]> {
        let (_, nbytes) = self.set.write_ptr(i)?;
        let range = self.contiguous::<T>(self.reads + i, nbytes)?;
        cast_valid_mut(&mut self.set.write(i)?[range])
    }

    /// The elements of all operands, `R` reads and `W` writes, all of one type.
    ///
    /// # Errors
    /// As [`read_slice`](Self::read_slice) and [`write_slice`](Self::write_slice), and
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there are other numbers of them.
    #[expect(clippy::type_complexity, reason = "two arrays, to be taken apart at once")]
    pub fn slices<T: AccessElement, const R: usize, const W: usize>(
        &mut self,
    ) -> Result<([&[T]; R], [&mut [T]; W])> {
        let mut ranges: SmallVec<[_; 4]> = SmallVec::new();
        for (i, operand) in self.operands.iter().enumerate() {
            ranges.push(self.contiguous::<T>(i, operand.geometry.storage.nbytes())?);
        }
        let (read, written) = self.set.slices::<R, W>()?;
        let mut reads: [&[T]; R] = [&[]; R];
        for ((slice, bytes), range) in reads.iter_mut().zip(read).zip(&ranges) {
            *slice = cast_valid(&bytes[range.clone()])?;
        }
        let mut writes: [&mut [T]; W] = std::array::from_fn(|_| &mut [][..]);
        for ((slice, bytes), range) in writes.iter_mut().zip(written).zip(&ranges[R..]) {
            *slice = cast_valid_mut(&mut bytes[range.clone()])?;
        }
        Ok((reads, writes))
    }

    /// The address of the first element of the read operand `i`, on its device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such operand.
    pub fn read_ptr(&self, i: usize) -> Result<*const u8> {
        let (address, _) = self.set.read_ptr(i)?;
        Ok(address.wrapping_add(self.begin(i)))
    }

    /// The address of the first element of the write operand `i`, on its device.
    ///
    /// # Errors
    /// As [`read_ptr`](Self::read_ptr).
    pub fn write_ptr(&mut self, i: usize) -> Result<*mut u8> {
        let (address, _) = self.set.write_ptr(i)?;
        Ok(address.wrapping_add(self.begin(self.reads + i)))
    }

    fn begin(&self, operand: usize) -> usize {
        let Operand { geometry, dtype } = &self.operands[operand];
        geometry.storage_offset as usize * dtype.element_size()
    }

    fn host_operand<T: AccessElement>(&self, operand: usize) -> Result<&Geometry> {
        let Operand { geometry, dtype } = &self.operands[operand];
        if !self.set.is_for_host() {
            return Err(Error::invalid_argument("the access was acquired for a device and not for the host"));
        }
        if !geometry.storage.device().is_cpu() {
            return Err(Error::not_implemented(format!(
                "the host cannot reach the elements of a tensor on {}",
                geometry.storage.device()
            )));
        }
        check_dtype::<T>(*dtype)?;
        Ok(geometry)
    }

    /// The bytes of an operand whose elements are a slice.
    fn contiguous<T: AccessElement>(&self, operand: usize, nbytes: usize) -> Result<std::ops::Range<usize>> {
        let Operand { geometry, dtype } = &self.operands[operand];
        check_contiguous(geometry)?;
        check_dtype::<T>(*dtype)?;
        span(geometry, *dtype, *dtype, nbytes)
    }
}

fn check_dtype<T: AccessElement>(dtype: ScalarType) -> Result<()> {
    // The bytes of `bool`s may also be had as they are.
    if dtype == T::SCALAR_TYPE || (dtype == ScalarType::Bool && T::SCALAR_TYPE == ScalarType::UInt8) {
        return Ok(());
    }
    Err(Error::dtype(format!("expected elements of {}, found {}", T::SCALAR_TYPE.name(), dtype.name())))
}
