//! [`Timeline`]: memory over the events of a history, as a picture of characters.

use crate::size::ByteSize;

/// Columns and rows of the picture.
const COLUMNS: usize = 72;
const ROWS: usize = 8;
/// Eighths of a character, from the bottom.
const EIGHTHS: [char; 8] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇'];

/// The largest values of each stretch of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    events: usize,
    /// Allocated and reserved bytes, by column.
    columns: Vec<(u64, u64)>,
}

impl Timeline {
    /// The timeline of a history of `events` events.
    pub(super) fn new(events: usize) -> Self {
        Self { events, columns: Vec::new() }
    }

    /// Notes the allocated and the reserved bytes after an event.
    pub(super) fn note(&mut self, event: usize, (allocated, reserved): (u64, u64)) {
        let column = event * COLUMNS.min(self.events) / self.events.max(1);
        if self.columns.len() <= column {
            // Stretches without an event of their own repeat the last.
            let last = self.columns.last().copied().unwrap_or_default();
            self.columns.resize(column + 1, last);
            self.columns[column] = (allocated, reserved);
        }
        let (most_allocated, most_reserved) = &mut self.columns[column];
        *most_allocated = allocated.max(*most_allocated);
        *most_reserved = reserved.max(*most_reserved);
    }

    /// The picture: allocated bytes in full blocks, reserved bytes above them in dots. Empty where nothing was
    /// ever reserved.
    pub(super) fn picture(&self) -> Vec<String> {
        let top = self.columns.iter().map(|(allocated, reserved)| (*allocated).max(*reserved)).max();
        let Some(top) = top.filter(|top| *top > 0) else { return Vec::new() };
        let mut lines: Vec<_> = (0..ROWS).rev().map(|row| self.row(row, top)).collect();
        lines.push(format!("{:>12} └{}", "0", "─".repeat(self.columns.len())));
        lines
    }

    fn row(&self, row: usize, top: u64) -> String {
        let label = if row == ROWS - 1 { ByteSize(top).to_string() } else { String::new() };
        let cells = self.columns.iter().map(|(allocated, reserved)| {
            let eighths = |bytes: u64| scaled(bytes, top).saturating_sub(row * 8).min(8);
            match (eighths(*allocated), eighths(*reserved)) {
                (8, _) => '█',
                (0, 0) => ' ',
                (0, _) => '·',
                (part, _) => EIGHTHS[part],
            }
        });
        let cells: String = cells.collect();
        format!("{label:>12} │{}", cells.trim_end())
    }
}

/// `bytes` in eighths of rows; anything above 0 shows.
fn scaled(bytes: u64, top: u64) -> usize {
    let eighths = u128::from(bytes) * (ROWS * 8) as u128 / u128::from(top);
    (eighths as usize).max(usize::from(bytes > 0))
}
