#![expect(unsafe_code, reason = "hands the promise about a mapped file on to who maps it")]
//! [`SafeTensors`] of a file on disk: read into memory, or mapped.

use std::sync::Arc;

use c10_core::allocator::mapped::read_file;
use c10_core::allocator::{ConfinedRoot, MapMode, MappedFile, get_allocator};
use c10_core::{DeviceType, Storage};

use super::SafeTensors;
use crate::error::Result;

impl SafeTensors {
    /// Reads the file that `name` stands for in `root` into memory, which its tensors share.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes) and [`read_file`].
    pub fn open(root: &ConfinedRoot, name: &str) -> Result<Self> {
        let file = read_file(root, name, &**get_allocator(DeviceType::Cpu)?)?;
        Self::from_storage(&Storage::from_mapped(file, None)?)
    }

    /// Maps the file that `name` stands for in `root`: nothing of it is read before its tensors are. Those
    /// that are written refuse it when the mapping is [`MapMode::ReadOnly`], stay in memory when it is
    /// private, and reach the file when it is shared.
    ///
    /// # Safety
    /// As [`MappedFile::open`], for as long as a tensor of the file lives.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes) and [`MappedFile::open`].
    pub unsafe fn map(root: &ConfinedRoot, name: &str, mode: MapMode) -> Result<Self> {
        // SAFETY: the caller's promise is the same.
        let file = unsafe { MappedFile::open(root, name, mode) }?;
        let allocator = (mode != MapMode::ReadOnly).then(|| get_allocator(DeviceType::Cpu)).transpose()?;
        Self::from_storage(&Storage::from_mapped(file.into_mapped(), allocator.map(Arc::clone))?)
    }
}
