//! [`AddressMap`]: from the addresses that the raw calls gave out to their blocks.
//!
//! Memory in a `DataPtr` is not here: its context leads to its block, and the raw calls may not free it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::ids::BlockId;
use crate::sync::{Mutex, lock};

/// PyTorch's number of shards.
const SHARDS: usize = 67;

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A block of a device.
    Block { device: u8, id: BlockId },
    /// Memory of a device straight from the driver.
    Uncached { device: u8 },
}

/// Addresses are mixed before they choose a shard and a bucket.
#[derive(Debug)]
pub(crate) struct AddressMap {
    shards: Vec<Mutex<HashMap<u64, Place, BuildHasherDefault<Mixed>>>>,
}

impl AddressMap {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn insert(&self, address: u64, place: Place) {
        let before = lock(self.shard(address)).insert(address, place);
        debug_assert!(before.is_none(), "live blocks have different addresses");
    }

    pub(crate) fn remove(&self, address: u64) -> Option<Place> {
        lock(self.shard(address)).remove(&address)
    }

    pub(crate) fn find(&self, address: u64) -> Option<Place> {
        lock(self.shard(address)).get(&address).copied()
    }

    fn shard(&self, address: u64) -> &Mutex<HashMap<u64, Place, BuildHasherDefault<Mixed>>> {
        &self.shards[(mix(address) % SHARDS as u64) as usize]
    }
}

/// The finaliser of SplitMix64: every bit of the address moves every bit of the result.
fn mix(address: u64) -> u64 {
    let x = (address ^ (address >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Hashes one `u64`.
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, address: u64) {
        self.0 = mix(address);
    }
}
