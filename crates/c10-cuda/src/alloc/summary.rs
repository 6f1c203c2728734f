//! [`memory_summary`]: the table that `torch.cuda.memory_summary` prints, to the character.

use c10_core::stat::{Stat, StatArray};

use super::DeviceStats;

/// Characters between the outer bars.
const WIDTH: usize = 75;

/// How a row's numbers are shown.
#[derive(Clone, Copy)]
enum Unit {
    /// Binary prefixes from 768 of the smaller unit on.
    Bytes,
    /// Decimal prefixes from 750 of the smaller unit on.
    Count,
}

/// The statistics of a device as a table (`torch.cuda.memory_summary`); without the rows of the two pools when
/// `abbreviated`. Every line has 77 characters; the text ends with a line feed.
///
/// ```
/// let summary = c10_cuda::alloc::memory_summary(&Default::default(), 0, true);
/// assert!(summary.contains("| Allocated memory      |      0 B   |      0 B   |      0 B   |      0 B   |"));
/// ```
pub fn memory_summary(stats: &DeviceStats, device: u8, abbreviated: bool) -> String {
    let mut lines = vec![
        "=".repeat(WIDTH),
        format!(" {:16} PyTorch CUDA memory summary, device ID {device:<17} ", ""),
        "-".repeat(WIDTH),
        format!(
            "  {:9} CUDA OOMs: {:<12} | {:6} cudaMalloc retries: {:<8}  ",
            "", stats.num_ooms, "", stats.num_alloc_retries
        ),
        "=".repeat(WIDTH),
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ".to_owned(),
    ];
    for (title, array, unit) in metrics(stats) {
        lines.push("-".repeat(WIDTH));
        lines.push(row(title, &array.all, &array.all, unit));
        if !abbreviated {
            lines.push(row("      from large pool", &array.large, &array.all, unit));
            lines.push(row("      from small pool", &array.small, &array.all, unit));
        }
    }
    for (title, stat) in [
        ("Oversize allocations", &stats.oversize_allocations),
        ("Oversize GPU segments", &stats.oversize_segments),
    ] {
        lines.push("-".repeat(WIDTH));
        lines.push(row(title, stat, stat, Unit::Count));
    }
    lines.push("=".repeat(WIDTH));
    lines.iter().map(|line| format!("|{line}|\n")).collect()
}

fn metrics(stats: &DeviceStats) -> [(&'static str, &StatArray, Unit); 9] {
    [
        ("Allocated memory", &stats.allocated_bytes, Unit::Bytes),
        ("Active memory", &stats.active_bytes, Unit::Bytes),
        ("Requested memory", &stats.requested_bytes, Unit::Bytes),
        ("GPU reserved memory", &stats.reserved_bytes, Unit::Bytes),
        ("Non-releasable memory", &stats.inactive_split_bytes, Unit::Bytes),
        ("Allocations", &stats.allocation, Unit::Count),
        ("Active allocs", &stats.active, Unit::Count),
        ("GPU reserved segments", &stats.segment, Unit::Count),
        ("Non-releasable allocs", &stats.inactive_split, Unit::Count),
    ]
}

/// One row; `all` is the metric's first row, whose numbers choose each column's unit.
fn row(title: &str, stat: &Stat, all: &Stat, unit: Unit) -> String {
    let columns = [
        (stat.current, all.current),
        (stat.peak, all.peak),
        (stat.allocated, all.allocated),
        (stat.freed, all.freed),
    ];
    let [current, peak, allocated, freed] = columns.map(|(value, all)| cell(value, all, unit));
    format!(" {title:<21} | {current} | {peak} | {allocated} | {freed} ")
}

/// Ten characters: `value` in the unit that suits `all`.
fn cell(mut value: i64, all: i64, unit: Unit) -> String {
    // Python divides it as a floating-point number, and `value` as a whole one.
    let mut all = all as f64;
    let (prefixes, keep_below, step): (&[&str], f64, i64) = match unit {
        Unit::Bytes => (&["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"], 768.0 * 1024.0, 1024),
        Unit::Count => (&[" ", "K", "M"], 750.0 * 1000.0, 1000),
    };
    let mut prefix = 0;
    while all >= keep_below && prefix + 1 < prefixes.len() {
        prefix += 1;
        all /= step as f64;
        // Rounds down.
        value = value.div_euclid(step);
    }
    match unit {
        Unit::Bytes => format!("{value:6} {}", prefixes[prefix]),
        Unit::Count => format!("{value:7} {} ", prefixes[prefix]),
    }
}
