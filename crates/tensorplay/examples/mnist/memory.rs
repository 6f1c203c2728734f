//! [`Memory`]: who watches what the program takes of the host's memory.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tensorplay::c10_core::DeviceType;
use tensorplay::c10_core::allocator::{CachingCpuAllocator, CachingCpuConfig, set_allocator};
use tensorplay::c10_core::reporting::{Attached, MemoryEvent, MemoryObserver, attach};
use tensorplay::c10_core::stat::StatArray;

/// Takes memory from an allocator that counts, and notes the live bytes at each request.
pub(crate) struct Memory {
    allocator: Arc<CachingCpuAllocator>,
    notes: Arc<Notes>,
    _attached: Attached,
}

/// Seconds since the start, and live bytes.
pub(crate) type Point = (f64, u64);

struct Notes {
    started: Instant,
    points: Mutex<Vec<Point>>,
}

impl MemoryObserver for Notes {
    fn on_memory(&self, event: &MemoryEvent) {
        let point = (self.started.elapsed().as_secs_f64(), event.total_allocated);
        self.points.lock().unwrap_or_else(PoisonError::into_inner).push(point);
    }
}

impl Memory {
    /// From here on.
    pub(crate) fn watch() -> Self {
        let allocator = Arc::new(CachingCpuAllocator::new(CachingCpuConfig::default()));
        set_allocator(DeviceType::Cpu, allocator.clone(), 1);
        let notes = Arc::new(Notes { started: Instant::now(), points: Mutex::new(Vec::new()) });
        Self { allocator, notes: notes.clone(), _attached: attach(notes) }
    }

    /// The live bytes at each request so far.
    pub(crate) fn points(&self) -> Vec<Point> {
        self.notes.points.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the allocator counted, as a table.
    pub(crate) fn summary(&self) -> String {
        let stats = self.allocator.stats();
        let mut table = String::from("memory of the host       now        peak   allocated       freed\n");
        for (title, array, is_bytes) in [
            ("allocated", &stats.allocated_bytes, true),
            ("requested", &stats.requested_bytes, true),
            ("reserved", &stats.reserved_bytes, true),
            ("allocations", &stats.allocation, false),
            ("segments", &stats.segment, false),
        ] {
            rows(&mut table, title, array, is_bytes);
        }
        let _ = write!(
            table,
            "{} of {} requests were served from the cache",
            stats.cache_hits, stats.allocation.all.allocated
        );
        table
    }
}

/// A row for all blocks, and one each for large and small ones.
fn rows(table: &mut String, title: &str, array: &StatArray, is_bytes: bool) {
    let rows = [(title, &array.all), ("  large blocks", &array.large), ("  small blocks", &array.small)];
    for (title, stat) in rows {
        let cell = |number: i64| if is_bytes { bytes(number) } else { number.to_string() };
        let [now, peak, allocated, freed] = [stat.current, stat.peak, stat.allocated, stat.freed].map(cell);
        let _ = writeln!(table, "{title:16}{now:>12}{peak:>12}{allocated:>12}{freed:>12}");
    }
}

/// In the largest unit that leaves a whole part.
pub(crate) fn bytes(number: i64) -> String {
    let mut value = number as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value.abs() < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{number} B") } else { format!("{value:.1} {unit}") }
}
