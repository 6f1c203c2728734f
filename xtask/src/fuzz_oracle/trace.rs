//! A trace: a configuration, a device's memory, and commands in the grammar of `torch_replay.cpp`.

use std::collections::BTreeSet;
use std::fmt;

/// One command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Op {
    Allocate { id: u32, bytes: u64, stream: u32 },
    Free { id: u32 },
    RecordStream { id: u32, stream: u32 },
    CompleteStream { stream: u32 },
    CompleteAll,
    EmptyCache,
    MemoryFraction(f64),
    Statistics,
}

/// Commands, and under what they run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trace {
    /// The value of `PYTORCH_ALLOC_CONF`; empty for the defaults.
    pub(crate) conf: String,
    /// The device's memory in bytes.
    pub(crate) device_memory: u64,
    pub(crate) ops: Vec<Op>,
}

impl Trace {
    /// The settings of the configuration, as `key:value`: split at commas that stand in no list.
    pub(crate) fn settings(&self) -> Vec<String> {
        let mut settings = vec![String::new()];
        let mut in_list = false;
        for c in self.conf.chars() {
            match c {
                ',' if !in_list => settings.push(String::new()),
                _ => {
                    in_list = c == '[' || (in_list && c != ']');
                    settings.last_mut().expect("never empty").push(c);
                }
            }
        }
        settings.retain(|setting| !setting.is_empty());
        settings
    }

    /// The trace less the setting at this place.
    pub(crate) fn without_setting(&self, place: usize) -> Trace {
        let mut settings = self.settings();
        settings.remove(place);
        Trace { conf: settings.join(","), ..self.clone() }
    }

    /// The trace with other commands, less those whose block is no longer allocated.
    pub(crate) fn with_ops(&self, ops: impl IntoIterator<Item = Op>) -> Trace {
        let mut allocated = BTreeSet::new();
        let ops = ops.into_iter().filter(|op| match op {
            Op::Allocate { id, .. } => allocated.insert(*id),
            Op::Free { id } | Op::RecordStream { id, .. } => allocated.contains(id),
            _ => true,
        });
        Trace { conf: self.conf.clone(), device_memory: self.device_memory, ops: ops.collect() }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Allocate { id, bytes, stream } => write!(f, "a {id} {bytes} {stream}"),
            Op::Free { id } => write!(f, "f {id}"),
            Op::RecordStream { id, stream } => write!(f, "r {id} {stream}"),
            Op::CompleteStream { stream } => write!(f, "s {stream}"),
            Op::CompleteAll => write!(f, "S"),
            Op::EmptyCache => write!(f, "e"),
            Op::MemoryFraction(fraction) => write!(f, "m {fraction}"),
            Op::Statistics => write!(f, "p"),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# conf: {}", self.conf)?;
        writeln!(f, "# device-memory: {}", self.device_memory)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}
