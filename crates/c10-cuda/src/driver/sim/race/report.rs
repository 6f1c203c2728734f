//! [`Race`]: two uses of memory that nothing orders, or one of memory that is not there.

use std::fmt;
use std::sync::Arc;

use super::super::log::Number;
use super::super::report::{AccessFault, Touched};
use super::frame::Origin;
use crate::driver::{DevicePtr, StreamHandle};

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RaceKind {
    /// Two uses, of which one writes, may run in either order or at once.
    Unordered,
    /// As [`Unordered`](Self::Unordered), and between them the memory was taken back by its allocator and handed
    /// out anew: it was not told of the first one's stream (`record_stream`).
    Reused,
    /// Memory is used that was freed before the use was issued.
    UseAfterFree,
    /// Memory is given back to the driver while a use of it may be under way.
    FreedUnderUse,
    /// Memory is given back to the driver while an allocator has handed it out.
    FreedWhileHeld,
    /// A use leaves the block in which it begins.
    OutOfBounds,
    /// Memory is used that is not the program's, for this reason.
    Foreign(AccessFault),
    /// Two blocks that are handed out overlap.
    HandedOutTwice,
    /// The ends of one copy have bytes in common.
    Overlap,
}

/// One of the two sides of a [`Race`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The kernel's name, `copy`, `fill`, the driver's call, `access` of the host to its memory, or `hand out` and `take back` of an allocator.
    pub name: &'static str,
    /// The stream and its place there, from 1; `None` for what the host does.
    pub stream: Option<(StreamHandle, u64)>,
    /// The how manyth call of the driver it was issued by, from 1.
    pub call: u64,
    /// What it uses. Host memory has its address of the host.
    pub range: Touched,
    pub(super) origin: Origin,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Touched { ptr, bytes, write } = self.range;
        f.write_str(self.name)?;
        match self.stream {
            None => f.write_str(" by the host")?,
            Some((stream, place)) => {
                write!(f, " on device {} stream {} #{place}", stream.device, Number(stream.raw))?;
            }
        }
        const LIVES: [&str; 9] = [
            "hand out",
            "take back",
            "free",
            "free_range",
            "unmap",
            "host_free",
            "malloc_async",
            "free_async",
            "mem_pool_trim",
        ];
        let verb = match write {
            _ if LIVES.contains(&self.name) => "of",
            true => "writes",
            false => "reads",
        };
        write!(f, " {verb} {bytes} bytes at {ptr} (call {}{})", self.call, self.origin)
    }
}

/// What the detector found: what is wrong, with which bytes, and both places. Its text is of two or three lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// What is wrong.
    pub kind: RaceKind,
    /// The earlier use, or what it collides with: the block that it leaves, the free that came before. `None` where
    /// memory is nobody's.
    pub first: Option<Arc<Use>>,
    /// The use that was issued when it was found.
    pub second: Arc<Use>,
}

impl Race {
    /// The bytes that both use: where they begin, and how many.
    pub fn overlap(&self) -> (DevicePtr, u64) {
        let second = self.second.range;
        let Some(first) = self.first.as_ref().map(|first| first.range) else {
            return (second.ptr, second.bytes);
        };
        let from = first.ptr.max(second.ptr);
        let end = |t: Touched| t.ptr.0.saturating_add(t.bytes);
        // Two mappings of one memory have no address in common.
        match end(first).min(end(second)).checked_sub(from.0) {
            Some(bytes) if bytes > 0 => (from, bytes),
            _ => (second.ptr, second.bytes),
        }
    }
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ptr, bytes) = self.overlap();
        match &self.kind {
            RaceKind::Unordered => write!(f, "race: nothing orders two uses of {bytes} bytes at {ptr}")?,
            RaceKind::Reused => write!(
                f,
                "race: {bytes} bytes at {ptr} were handed out anew, and nothing orders the new use after the old \
                 one: record_stream was not called for its stream"
            )?,
            RaceKind::UseAfterFree => write!(f, "use after free: of {bytes} bytes at {ptr}")?,
            RaceKind::FreedUnderUse => {
                write!(f, "freed under use: nothing orders this after a use of {bytes} bytes at {ptr}")?;
            }
            RaceKind::FreedWhileHeld => {
                write!(f, "freed while held: {bytes} bytes at {ptr} are handed out")?;
            }
            RaceKind::OutOfBounds => {
                f.write_str("out of bounds: a use leaves the block that it begins in")?
            }
            RaceKind::Foreign(fault) => write!(f, "foreign memory: {fault}")?,
            RaceKind::Overlap => write!(f, "overlap: a copy reads and writes {bytes} bytes at {ptr}")?,
            RaceKind::HandedOutTwice => write!(f, "handed out twice: {bytes} bytes at {ptr}")?,
        }
        match &self.first {
            Some(first) => write!(f, "\n   first: {first}\n  second: {}", self.second),
            None => write!(f, "\n     use: {}", self.second),
        }
    }
}
