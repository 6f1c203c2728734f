//! [`Places`]: the ranges that the driver has handed out, and the lines of its calls.

use std::collections::BTreeMap;

use c10_core::DeviceIndex;
use c10_cuda::alloc::MempoolId;
use c10_cuda::driver::sim::Call;

/// The stand-in's unit: it hands out and takes back whole 2 MiB.
const UNIT: u64 = 2 << 20;

/// The ranges, by first address: their numbers and lengths.
#[derive(Default)]
pub(super) struct Places {
    live: BTreeMap<u64, (usize, u64)>,
    count: usize,
}

impl Places {
    /// The oracle's line for a driver call; `None` for calls that it does not print.
    pub(super) fn driver_line(&mut self, call: &Call) -> Option<String> {
        let (base, bytes) = (call.ptr.0, call.bytes);
        let (name, bytes, place) = match (call.name, call.status) {
            ("malloc", None) => ("segment_alloc", bytes, self.add(base, bytes)),
            ("malloc", Some(_)) => ("segment_alloc_failed", bytes, "-".into()),
            ("free", None) => {
                let place = self.place(base);
                let (_, bytes) = self.live.remove(&base)?;
                ("segment_free", bytes.next_multiple_of(UNIT), place)
            }
            ("reserve", None) => ("va_reserve", bytes, self.add(base, bytes)),
            ("free_range", None) => ("va_free", bytes, self.remove(base)?),
            ("create", None) => ("phys_alloc", bytes, "-".into()),
            ("create", Some(_)) => ("phys_alloc_failed", bytes, "-".into()),
            ("release", None) => ("phys_free", bytes, "-".into()),
            ("mem_pool_reserve", None) => ("async_reserve", bytes, self.add(base, bytes)),
            ("mem_pool_reserve", Some(_)) => ("async_reserve_failed", bytes, "-".into()),
            ("mem_pool_release", None) => ("async_release", bytes, self.remove(base)?),
            ("graph_malloc", None) => ("graph_alloc", bytes, self.add(base, bytes)),
            ("graph_free", None) => (call.name, bytes, self.remove(base)?),
            ("map" | "unmap", None) => (call.name, bytes, self.place(base)),
            _ => return None,
        };
        Some(format!("driver {name} {bytes} {place}{}", on_device(call.device)))
    }

    fn add(&mut self, base: u64, bytes: u64) -> String {
        self.live.insert(base, (self.count, bytes));
        self.count += 1;
        self.place(base)
    }

    /// The place of a range that goes.
    fn remove(&mut self, base: u64) -> Option<String> {
        let place = self.place(base);
        self.live.remove(&base)?;
        Some(place)
    }

    pub(super) fn place(&self, address: u64) -> String {
        match self.live.range(..=address).next_back() {
            Some((base, (number, bytes))) if address - base < *bytes => {
                format!("seg{number}+{}", address - base)
            }
            _ => "-".into(),
        }
    }
}

/// What stands behind a line of a device other than the first.
pub(super) fn on_device(device: DeviceIndex) -> String {
    if device == 0 { String::new() } else { format!(" device {device}") }
}

/// What stands behind a line about a private pool.
pub(super) fn in_pool(pool: MempoolId) -> String {
    if pool == MempoolId::DEFAULT { String::new() } else { format!(" pool {}", pool_name(pool)) }
}

/// A pool as traces name it.
pub(super) fn pool_name(MempoolId { first, second }: MempoolId) -> String {
    if first == 0 { second.to_string() } else { format!("{first}.{second}") }
}

/// What the stand-in has for an address of the simulator. Both hand out the same places: the simulator from 2^52 on,
/// 2^47 for each device, the upper half for reservations; the stand-in from 2^44 on, 2^42 for each of eight
/// devices, and behind them as much again for reservations.
pub(super) fn stand_in(address: u64) -> u64 {
    let Some(offset) = address.checked_sub(1 << 52) else { return address };
    let (device, offset) = (offset >> 47, offset & ((1 << 47) - 1));
    let (is_reserved, offset) = (offset >> 46, offset & ((1 << 46) - 1));
    (1 << 44) + ((8 * is_reserved + device) << 42) + offset
}
