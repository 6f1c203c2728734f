//! A trace: a configuration, a machine, and commands in the grammar of `torch_replay.cpp`.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

/// One command, and the commands before it without which it means nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Op {
    /// Tells it from the others of its trace, in the smaller traces made of it too.
    pub(crate) serial: u32,
    /// The serials of those that it needs: the allocation of its block, the beginning of the scope that it ends, …
    pub(crate) needs: Rc<[u32]>,
    /// The thread that runs it; 0 is the main one.
    pub(crate) thread: u32,
    pub(crate) command: Command,
}

/// What a command says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Command {
    Allocate {
        id: u32,
        bytes: u64,
        stream: Stream,
    },
    /// Any other, as it is written.
    Text(Rc<str>),
}

/// A stream as a trace writes it: of the current device where none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) device: Option<u32>,
    pub(crate) number: u32,
}

/// Commands, and under what they run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trace {
    /// The value of `PYTORCH_ALLOC_CONF`; empty for the defaults.
    pub(crate) conf: String,
    /// Each device's memory in bytes.
    pub(crate) device_memory: u64,
    /// How many devices there are.
    pub(crate) devices: u32,
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

    /// The trace with other commands, less those that need one that is not among them.
    pub(crate) fn with_ops(&self, ops: impl IntoIterator<Item = Op>) -> Trace {
        let mut kept = BTreeSet::new();
        let ops = ops
            .into_iter()
            .filter(|op| op.needs.iter().all(|need| kept.contains(need)) && kept.insert(op.serial));
        let ops = ops.collect();
        Trace { conf: self.conf.clone(), device_memory: self.device_memory, devices: self.devices, ops }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(device) = self.device {
            write!(f, "{device}:")?;
        }
        write!(f, "{}", self.number)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.thread != 0 {
            write!(f, "t {} ", self.thread)?;
        }
        match &self.command {
            Command::Allocate { id, bytes, stream } => write!(f, "a {id} {bytes} {stream}"),
            Command::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# conf: {}", self.conf)?;
        writeln!(f, "# device-memory: {}", self.device_memory)?;
        if self.devices != 1 {
            writeln!(f, "# devices: {}", self.devices)?;
        }
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}
