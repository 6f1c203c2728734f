#![expect(unsafe_code, reason = "keeps the contract of allocators: memory is valid until it is freed")]
//! The toy's memory: blocks in a map, by addresses that no mapping has, so that a host that follows one faults.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use c10_core::allocator::Allocator;
use c10_core::data_ptr::DeleterEntry;
use c10_core::{DataPtr, Device, Error, ErrorKind, Result};

use crate::{device, hooks};

/// Bytes of one device.
const CAPACITY: u64 = 1 << 30;
/// Blocks begin at multiples of this.
const ALIGNMENT: usize = 512;

#[derive(Debug)]
struct Blocks {
    /// By the address at which each begins.
    blocks: BTreeMap<usize, Vec<u8>>,
    next_address: usize,
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { blocks: BTreeMap::new(), next_address: 1 << 52 });

static FREE: DeleterEntry = DeleterEntry::new("custom_device", free);

fn blocks() -> MutexGuard<'static, Blocks> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The deleter of all blocks.
///
/// # Safety
/// `context` is the address of a block that nobody uses any more.
unsafe fn free(context: *mut c_void) {
    let block = blocks().blocks.remove(&context.addr());
    debug_assert!(block.is_some(), "a block is freed once");
}

impl Blocks {
    /// `bytes` bytes at `address`, which are within one block.
    fn find(&mut self, address: usize, bytes: usize) -> Result<&mut [u8]> {
        let block = self.blocks.range_mut(..=address).next_back();
        block.and_then(|(start, block)| block.get_mut(address - start..)?.get_mut(..bytes)).ok_or_else(|| {
            Error::new(ErrorKind::Driver, format!("{bytes} bytes at {address:#x} are no memory"))
        })
    }
}

/// A copy of `bytes` bytes of the device.
pub(crate) fn read(address: usize, bytes: usize) -> Result<Vec<u8>> {
    if bytes == 0 {
        return Ok(Vec::new());
    }
    blocks().find(address, bytes).map(|block| block.to_vec())
}

/// Writes bytes of the device.
pub(crate) fn write(address: usize, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    blocks().find(address, bytes.len()).map(|block| block.copy_from_slice(bytes))
}

/// The allocator.
#[derive(Debug)]
pub(crate) struct ToyMemory;

// SAFETY: a block is of the current device, zeroed, in the map from here to `free`, and nobody else's.
unsafe impl Allocator for ToyMemory {
    fn device(&self) -> Device {
        device(hooks::current_device())
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        let device = self.device();
        if bytes == 0 {
            return Ok(DataPtr::null(device));
        }
        if bytes as u64 > CAPACITY {
            return Err(Error::out_of_memory(bytes as u64, format!("{device} has {CAPACITY} bytes"))
                .with_limit_bytes(CAPACITY));
        }
        let mut blocks = blocks();
        let address = blocks.next_address;
        blocks.next_address += bytes.next_multiple_of(ALIGNMENT);
        blocks.blocks.insert(address, vec![0; bytes]);
        let data = ptr::without_provenance_mut::<u8>(address);
        // SAFETY: the map has `bytes` bytes for this address until `free` takes them out.
        Ok(unsafe { DataPtr::new(data, data.cast(), &FREE, device) })
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        write(dst.addr(), &read(src.addr(), bytes)?)
    }
}
