//! [`AddressMap`]: what is known of the addresses that the raw calls gave out.
//!
//! Memory in a `DataPtr` is not in one: its context leads to its block, and the raw calls may not free it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Values by address. Its order is never looked at.
pub(crate) type AddressMap<T> = HashMap<u64, T, BuildHasherDefault<Mixed>>;

/// Hashes one `u64`.
#[derive(Debug, Default)]
pub(crate) struct Mixed(u64);

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

/// The finaliser of SplitMix64: every bit of the address moves every bit of the result.
fn mix(address: u64) -> u64 {
    let x = (address ^ (address >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
