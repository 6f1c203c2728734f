//! New tensors of a given geometry, and their memory.

use std::sync::Arc;

use c10_core::allocator::get_allocator;
use c10_core::guard::OptionalDeviceGuard;
use c10_core::hooks::require_hooks;
use c10_core::shared::Shared;
use c10_core::{Device, DeviceType, MemoryFormat, Scalar, ScalarType, Storage};

use super::geometry::{Extent, Geometry};
use super::tensor_impl::TensorImpl;
use super::{Dims, Tensor, kept};
use crate::dispatch::local::is_inference_mode;
use crate::dispatch::{Backend, DispatchKey, DispatchKeySet, Functionality};
use crate::error::{Error, ErrorKind, Result};
use crate::view::Strided;

/// The dtype of a tensor made of numbers with a point: `float32`.
///
/// Differs from PyTorch: it cannot be set, so that no library changes the results of another.
pub(crate) const fn default_dtype() -> ScalarType {
    ScalarType::Float32
}

/// What a new tensor is: sizes, strides if they are not the contiguous ones, dtype and device.
#[derive(Clone, Debug)]
pub(crate) struct New {
    pub(crate) sizes: Dims,
    /// Dense, or such that the storage is as large as they need.
    pub(crate) strides: Option<Dims>,
    pub(crate) dtype: ScalarType,
    pub(crate) device: Device,
}

impl New {
    /// Row-major.
    #[inline]
    pub(crate) fn contiguous(sizes: impl Into<Dims>, dtype: ScalarType, device: Device) -> Self {
        Self { sizes: sizes.into(), strides: None, dtype, device }
    }

    /// With those strides.
    pub(crate) fn strided(sizes: impl Into<Dims>, strides: Dims, dtype: ScalarType, device: Device) -> Self {
        Self { sizes: sizes.into(), strides: Some(strides), dtype, device }
    }

    /// A tensor with unspecified values.
    #[inline]
    pub(crate) fn make(self) -> Result<Tensor> {
        let Some(strides) = self.strides else {
            return Tensor::row_major(&self.sizes, self.dtype, self.device);
        };
        let device = concrete(self.device)?;
        let keys = Tensor::keys_of(device);
        let extent = Extent::of(&self.sizes, &strides, 0, self.dtype)?;
        let storage = new_storage(extent.end_bytes, device)?;
        let geometry = || Geometry::of_extent(storage, self.sizes, strides, 0, extent);
        Ok(Tensor::made_of(geometry, self.dtype, device, keys))
    }
}

/// A tensor with unspecified values, with the sizes and strides of one that is dense. The strides of a
/// contiguous one are the canonical ones.
pub(crate) fn dense_like(like: &Geometry, dtype: ScalarType, device: Device) -> Result<Tensor> {
    if like.flags.is_contiguous(MemoryFormat::Contiguous) && !like.flags.is_canonical() {
        return New::contiguous(like.sizes.clone(), dtype, device).make();
    }
    let bytes = usize::try_from(like.numel).ok().and_then(|n| n.checked_mul(dtype.element_size()));
    let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::Overflow, "a tensor larger than memory can be"))?;
    if !like.is_inline() {
        let (storage, keys) = (new_storage(bytes, device)?, Tensor::keys_of(device));
        return Ok(Tensor::from_geometry(like.dense_on(storage, bytes), dtype, device, keys));
    }
    Tensor::filled(bytes, dtype, device, |geometry| geometry.fill_dense_as(like, bytes))
}

/// The device with its index, where the type has several.
#[inline]
fn concrete(device: Device) -> Result<Device> {
    match (device.device_type(), device.index()) {
        (DeviceType::Cpu | DeviceType::Meta, _) | (_, Some(_)) => Ok(device),
        (device_type, None) => Ok(Device::new(device_type, require_hooks(device_type)?.current_device()?)),
    }
}

/// Memory on a device.
#[inline]
pub(crate) fn new_storage(bytes: usize, device: Device) -> Result<Storage> {
    let device_type = device.device_type();
    if matches!(device_type, DeviceType::Cpu | DeviceType::Meta) {
        return Ok(Storage::of_type(bytes, device_type)?);
    }
    let _guard = OptionalDeviceGuard::new(Some(device))?;
    let allocator = match get_allocator(device_type) {
        Ok(allocator) => Arc::clone(allocator),
        Err(_) => require_hooks(device_type)?.allocator(),
    };
    Ok(Storage::new(bytes, allocator)?)
}

const fn keys_of_backend(backend: Backend) -> DispatchKeySet {
    DispatchKeySet::new(DispatchKey::new(Functionality::Dense, backend))
        .union(DispatchKeySet::autograd_related(backend))
}

/// The keys on other devices than the host, or of tensors that autograd does not follow.
#[cold]
fn other_keys(device: Device, is_inference: bool) -> DispatchKeySet {
    let backend = Backend::of(device.device_type());
    if is_inference {
        return DispatchKeySet::new(DispatchKey::new(Functionality::Dense, backend));
    }
    keys_of_backend(backend)
}

impl Tensor {
    /// The keys of a plain dense tensor on a device.
    #[inline]
    pub(crate) fn keys_of(device: Device) -> DispatchKeySet {
        const CPU: DispatchKeySet = keys_of_backend(Backend::Cpu);
        let is_inference = is_inference_mode();
        if device.is_cpu() && !is_inference { CPU } else { other_keys(device, is_inference) }
    }

    pub(crate) fn from_geometry(
        geometry: Geometry,
        dtype: ScalarType,
        device: Device,
        keys: DispatchKeySet,
    ) -> Self {
        Self::made_of(|| geometry, dtype, device, keys)
    }

    /// A tensor of what `geometry` makes, in the place where it stays: see Note [Made in place] in
    /// `c10_core::shared`.
    #[inline(always)]
    pub(crate) fn made_of(
        geometry: impl FnOnce() -> Geometry,
        dtype: ScalarType,
        device: Device,
        keys: DispatchKeySet,
    ) -> Self {
        Self(Shared::new(|| TensorImpl::new(geometry(), dtype, device, keys)).into())
    }

    /// A new row-major tensor with unspecified values.
    ///
    /// # Errors
    /// For negative sizes and what overflows; when there is no such device, or no memory.
    #[inline]
    pub(crate) fn row_major(sizes: &[i64], dtype: ScalarType, device: Device) -> Result<Self> {
        let device = concrete(device)?;
        let extent = Extent::of_row_major(sizes, dtype)?;
        Self::filled(extent.end_bytes, dtype, device, |geometry| geometry.fill_row_major(sizes, extent))
    }

    /// A plain tensor with unspecified values on a storage of `bytes` bytes of its own, whose geometry `fill` makes: of
    /// one of its elements, or of any other with inline sizes and strides, in the place where it stays.
    ///
    /// # Errors
    /// When there is no such device, or no memory.
    #[inline(always)]
    fn filled(bytes: usize, dtype: ScalarType, device: Device, fill: impl Fn(&mut Geometry)) -> Result<Self> {
        let keys = Self::keys_of(device);
        let begin = |tensor: &mut TensorImpl| {
            tensor.begin_anew(dtype, device, keys);
            fill(tensor.first_mut());
        };
        let kept = if device.is_cpu() { kept::take(bytes, begin) } else { None };
        match kept {
            Some(kept) => Ok(kept),
            None => Self::new_filled(bytes, (dtype, device, keys), &fill),
        }
    }

    #[inline(never)]
    fn new_filled(
        bytes: usize,
        (dtype, device, keys): (ScalarType, Device, DispatchKeySet),
        fill: &dyn Fn(&mut Geometry),
    ) -> Result<Self> {
        let storage = new_storage(bytes, device)?;
        let make = || TensorImpl::new(Geometry::unfilled(storage), dtype, device, keys);
        Ok(Self(Shared::new_with(make, |tensor| fill(tensor.first_mut())).0.into()))
    }

    /// Another tensor on the storage of this one, with its dtype and keys: a view. It must be within the
    /// storage.
    #[inline]
    pub(crate) fn view_of(&self, sizes: Dims, strides: Dims, storage_offset: i64) -> Result<Self> {
        let own = self.geometry();
        let extent = Extent::within(&own.storage, &sizes, &strides, storage_offset, self.dtype())?;
        let geometry = || Geometry::of_extent(own.storage.clone(), sizes, strides, storage_offset, extent);
        Ok(Self::made_of(geometry, self.dtype(), self.device(), self.key_set()))
    }

    /// The view with the places that `change` makes of this tensor's own. They must be within the storage.
    #[inline(always)]
    pub(crate) fn viewed(&self, change: impl FnOnce(&mut Strided) -> Result<()>) -> Result<Self> {
        self.changed_copy(|geometry, _| {
            change(&mut geometry.strided)?;
            geometry.settle(self.dtype())
        })
    }

    /// As [`viewed`](Self::viewed), of some of the tensor's places.
    #[inline(always)]
    pub(crate) fn part(&self, change: impl FnOnce(&mut Strided) -> Result<()>) -> Result<Self> {
        self.changed_copy(|geometry, _| {
            change(&mut geometry.strided)?;
            geometry.settle_part(self.dtype())
        })
    }

    /// The view with what `change` makes of this tensor's geometry, which it is given too: one of the same elements.
    #[inline(always)]
    pub(crate) fn rearranged(
        &self,
        change: impl FnOnce(&mut Geometry, &Geometry) -> Result<()>,
    ) -> Result<Self> {
        self.changed_copy(|geometry, own| {
            own.check_within(self.dtype())?;
            change(geometry, own)
        })
    }

    /// As [`rearranged`](Self::rearranged), of what `change` makes of the places.
    #[inline(always)]
    pub(crate) fn reordered(&self, change: impl FnOnce(&mut Strided) -> Result<()>) -> Result<Self> {
        self.rearranged(|geometry, _| {
            change(&mut geometry.strided)?;
            geometry.settle_rearranged(self.dtype());
            Ok(())
        })
    }

    #[inline(always)]
    fn changed_copy(&self, change: impl FnOnce(&mut Geometry, &Geometry) -> Result<()>) -> Result<Self> {
        match self.as_impl().unchanged() {
            Some(own) if own.is_inline() => self.copy_of(own, || own.inline_copy(), change),
            _ => self.copy_of_unusual(change),
        }
    }

    #[cold]
    fn copy_of_unusual(&self, change: impl FnOnce(&mut Geometry, &Geometry) -> Result<()>) -> Result<Self> {
        let own = self.geometry();
        self.copy_of(&own, || own.clone(), change)
    }

    /// Another tensor with a copy of the geometry, changed in the place where it stays: see Note \[Made in place\] in
    /// `c10_core::shared`.
    #[inline(always)]
    fn copy_of(
        &self,
        own: &Geometry,
        copy: impl FnOnce() -> Geometry,
        change: impl FnOnce(&mut Geometry, &Geometry) -> Result<()>,
    ) -> Result<Self> {
        let (copy, result) = Shared::new_with(
            || TensorImpl::new(copy(), self.dtype(), self.device(), self.key_set()),
            |copy| change(copy.first_mut(), own),
        );
        result.map(|()| Self(copy.into()))
    }

    /// A number as a tensor, of the widest dtype of its kind, that gives way to others in type promotion
    /// (`wrapped_scalar_tensor`). As in PyTorch a float is a double.
    pub(crate) fn wrapped_number(number: Scalar) -> Result<Self> {
        match number {
            Scalar::Bool(value) => Self::from_slice(&[value], &[]),
            Scalar::Int(value) => Self::from_slice(&[value], &[]),
            Scalar::UInt(value) => Self::from_slice(&[value], &[]),
            Scalar::Double(value) => Self::from_slice(&[value], &[]),
            Scalar::Complex(value) => Self::from_slice(&[value], &[]),
        }?
        .into_wrapped_number()
    }

    /// The same tensor, counted as a number in type promotion.
    fn into_wrapped_number(mut self) -> Result<Self> {
        let tensor = Shared::get_mut(&mut self.0)
            .ok_or_else(|| Error::invalid_argument("the tensor is in use by others"))?;
        tensor.is_wrapped_number = true;
        Ok(self)
    }
}
