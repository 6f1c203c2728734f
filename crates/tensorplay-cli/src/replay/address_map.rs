//! [`AddressMap`]: values by address, looked up at every event of a history.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Values by address. Its order is never looked at.
pub(super) type AddressMap<T> = HashMap<u64, T, Keyed>;

/// Hashes one number with few steps. The key is of the process, so that no file can be made whose addresses all
/// meet in one place.
#[derive(Clone, Debug)]
pub(super) struct Keyed(u64);

impl Default for Keyed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Keyed {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed(self.0)
    }
}

/// The state of a hash.
#[derive(Debug)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The halves of a product of 128 bits, so that each bit of the number and the key moves many.
        let product =
            u128::from(self.0 ^ number) * u128::from(0x9e37_79b9_7f4a_7c15_u64 ^ self.0.rotate_left(32) | 1);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}
