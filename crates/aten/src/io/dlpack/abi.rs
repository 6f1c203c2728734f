//! The C structures of DLPack 1.x, field by field, and its numbers.

use std::ffi::c_void;

use c10_core::{Device, DeviceIndex, DeviceType, ScalarType};

/// The version that exports are marked with.
pub const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 3 };

/// The memory must not be written.
pub const FLAG_READ_ONLY: u64 = 1;
/// The memory is a copy that nobody else has.
pub const FLAG_IS_COPIED: u64 = 2;

/// Which layout [`DLManagedTensorVersioned`] has: of another major version only what stands up to the flags.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Another one has other layouts.
    pub major: u32,
    /// Another one has other numbers and flags.
    pub minor: u32,
}

/// A kind of device and which of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// 1 for the host, 2 for CUDA, 3 for page-locked memory of the host.
    pub device_type: i32,
    /// From 0.
    pub device_id: i32,
}

/// The type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// Integer, float and so on.
    pub code: u8,
    /// Its size.
    pub bits: u8,
    /// 1, unless elements are vectors.
    pub lanes: u16,
}

/// A strided array in memory that something else owns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// The memory; null without elements.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// The sizes; may be null without dimensions.
    pub shape: *mut i64,
    /// The strides, in elements; null for row-major.
    pub strides: *mut i64,
    /// From `data` to the first element.
    pub byte_offset: u64,
}

/// An array and its owner, without a version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The array.
    pub dl_tensor: DLTensor,
    /// The owner's own.
    pub manager_ctx: *mut c_void,
    /// Frees the memory and this structure.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// An array and its owner.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// Which layout this is.
    pub version: DLPackVersion,
    /// The owner's own.
    pub manager_ctx: *mut c_void,
    /// Frees the memory and this structure.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// What may be done with the memory.
    pub flags: u64,
    /// The array. It is this in all versions of the major number 1.
    pub dl_tensor: DLTensor,
}

const _: () = assert!(size_of::<DLTensor>() == 48 || size_of::<usize>() != 8);
const _: () = assert!(size_of::<DLManagedTensorVersioned>() == 80 || size_of::<usize>() != 8);

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;
const FLOAT8_E4M3FN: u8 = 10;
const FLOAT8_E5M2: u8 = 12;

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;

impl DLDataType {
    /// DLPack's name of a type, if it has one: for `bcomplex32` it does not.
    pub const fn of(dtype: ScalarType) -> Option<Self> {
        let code = match dtype {
            ScalarType::Bool => BOOL,
            ScalarType::UInt8 | ScalarType::UInt16 | ScalarType::UInt32 | ScalarType::UInt64 => UINT,
            ScalarType::Int8 | ScalarType::Int16 | ScalarType::Int32 | ScalarType::Int64 => INT,
            ScalarType::Float16 | ScalarType::Float32 | ScalarType::Float64 => FLOAT,
            ScalarType::BFloat16 => BFLOAT,
            ScalarType::Complex32 | ScalarType::Complex64 | ScalarType::Complex128 => COMPLEX,
            ScalarType::Float8E4M3Fn => FLOAT8_E4M3FN,
            ScalarType::Float8E5M2 => FLOAT8_E5M2,
            ScalarType::BComplex32 => return None,
        };
        Some(Self { code, bits: 8 * dtype.element_size() as u8, lanes: 1 })
    }

    /// The type, if tensors here have it.
    pub fn scalar_type(self) -> Option<ScalarType> {
        ScalarType::ALL.into_iter().find(|&dtype| Self::of(dtype) == Some(self))
    }
}

impl DLDevice {
    /// DLPack's name of a device, if it has one.
    pub fn of(device: Device) -> Option<Self> {
        let device_type = match device.device_type() {
            DeviceType::Cpu => CPU,
            DeviceType::Cuda => CUDA,
            _ => return None,
        };
        Some(Self { device_type, device_id: device.index().map_or(0, Into::into) })
    }

    /// The device, if tensors here can be on it. Page-locked memory of the host is the host's.
    pub fn device(self) -> Option<Device> {
        match self.device_type {
            CPU | CUDA_HOST => Some(Device::CPU),
            CUDA => Some(Device::new(DeviceType::Cuda, DeviceIndex::try_from(self.device_id).ok()?)),
            _ => None,
        }
    }
}
