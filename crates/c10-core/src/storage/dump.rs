//! [`StorageDump`]: what a person who hunts a leak reads of a storage; and, with the feature `leak-tracking`,
//! where each live storage was made.

use std::fmt;

use super::Storage;
use super::storage_impl::{COW, PENDING_READ, PENDING_WRITE, READ_ONLY, RELEASED, RESIZABLE};
use crate::data_ptr::DataPtr;
use crate::device::Device;
use crate::sync::lock;

#[cfg_attr(feature = "leak-tracking", path = "origin_tracked.rs")]
#[cfg_attr(not(feature = "leak-tracking"), path = "origin_untracked.rs")]
mod origin;

pub(super) use origin::Origin;
#[cfg(feature = "leak-tracking")]
pub use origin::{capture_backtraces, live_storages};

/// A storage as it was at a moment. Its parts may be of slightly different moments when others change it
/// meanwhile.
#[derive(Clone, Debug)]
pub struct StorageDump {
    /// The address of the memory.
    pub address: usize,
    /// The device that it is on.
    pub device: Device,
    /// The size, in bytes.
    pub nbytes: usize,
    /// How far it can be resized in place, in bytes.
    pub capacity: usize,
    /// Who frees the memory, the outermost first.
    pub owners: Vec<Layer>,
    /// The allocator, as it prints for debugging.
    pub allocator: Option<String>,
    /// Handles that keep the memory alive.
    pub use_count: usize,
    /// Handles that do not.
    pub weak_use_count: usize,
    /// How often it was written.
    pub version: u32,
    /// What is special: `resizable`, `read-only`, `copy-on-write`, `released`, `device reads`,
    /// `device writes`.
    pub flags: Vec<&'static str>,
    /// Where it was made, with the feature `leak-tracking`: a place in a source file, and a backtrace if one
    /// was captured.
    pub made_at: Option<String>,
}

/// One owner of memory, which may own another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of its deleter.
    pub deleter: &'static str,
    /// The context that the deleter will be run on; 0 when it owns nothing.
    pub context: usize,
}

const FLAG_NAMES: [(u32, &str); 6] = [
    (RESIZABLE, "resizable"),
    (READ_ONLY, "read-only"),
    (COW, "copy-on-write"),
    (RELEASED, "released"),
    (PENDING_READ, "device reads"),
    (PENDING_WRITE, "device writes"),
];

impl Storage {
    /// What a person who hunts a leak reads. It waits for nobody.
    pub fn dump(&self) -> StorageDump {
        let storage = self.as_impl();
        let flags = storage.flags();
        StorageDump {
            address: self.data_ptr().addr(),
            device: self.device(),
            nbytes: self.nbytes(),
            capacity: self.capacity(),
            owners: self.owners(),
            allocator: self.allocator().map(|allocator| format!("{allocator:?}")),
            use_count: self.use_count(),
            weak_use_count: self.weak_use_count(),
            version: self.version(),
            flags: FLAG_NAMES.iter().filter(|(flag, _)| flags & flag != 0).map(|&(_, name)| name).collect(),
            made_at: storage.origin.made_at(),
        }
    }

    fn owners(&self) -> Vec<Layer> {
        let outer = {
            let owner = lock(&self.as_impl().owner);
            layer(&owner.data_ptr)
        };
        // Finding what is inside calls foreign functions: on pinned memory, with nothing locked.
        let pin = self.as_impl().pin_owner();
        let inner = std::iter::successors(Some(pin.original()), |ptr| ptr.inner()).map(layer);
        let mut owners: Vec<_> = inner.collect();
        if owners.first() != Some(&outer) {
            owners.insert(0, outer);
        }
        owners
    }
}

fn layer(ptr: &DataPtr) -> Layer {
    Layer { deleter: ptr.deleter().name, context: ptr.context().addr() }
}

impl fmt::Display for StorageDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "storage of {} bytes (capacity {}) at {:#x} on {}",
            self.nbytes, self.capacity, self.address, self.device
        )?;
        writeln!(
            f,
            "  handles:   {} strong, {} weak; version {}",
            self.use_count, self.weak_use_count, self.version
        )?;
        for (depth, layer) in self.owners.iter().enumerate() {
            let label = if depth == 0 { "owner:" } else { "around:" };
            writeln!(f, "  {label:<10} {} with context {:#x}", layer.deleter, layer.context)?;
        }
        writeln!(f, "  allocator: {}", self.allocator.as_deref().unwrap_or("none"))?;
        if !self.flags.is_empty() {
            writeln!(f, "  flags:     {}", self.flags.join(", "))?;
        }
        if let Some(made_at) = &self.made_at {
            writeln!(f, "  made at:   {made_at}")?;
        }
        Ok(())
    }
}
