//! Random traces.

mod program;
mod state;
mod blocks;
mod streams;
mod pools;
mod captures;
mod checkpoints;
mod queries;

use super::conf::Conf;
use super::family::Family;
use super::random::Random;
use super::trace::Trace;

use program::Program;

const MIB: u64 = 1 << 20;

/// Device memories: some no multiple of the driver's 2 MiB, most small enough to run out.
const DEVICE_MEMORIES: &[u64] = &[
    64 * MIB,
    64 * MIB + 1,
    96 * MIB,
    101 * MIB,
    128 * MIB,
    200 * MIB,
    256 * MIB,
    512 * MIB,
    1000 * MIB,
    4096 * MIB,
    16 * 1024 * MIB,
    80 * 1024 * MIB,
];

/// What the caller fixes; the seed decides the rest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fixed {
    /// The number of commands.
    pub(crate) ops: Option<usize>,
    /// The configuration.
    pub(crate) conf: Option<String>,
    /// The device's memory in bytes.
    pub(crate) device_memory: Option<u64>,
}

/// The trace of a seed.
pub(crate) fn trace(family: Family, seed: u64, fixed: &Fixed) -> Trace {
    let mut random = Random::new(seed);
    let drawn_conf = family.conf(&mut random);
    let conf = fixed.conf.as_deref().map_or(drawn_conf, Conf::read);
    let mut drawn_memory = random.one_of(DEVICE_MEMORIES);
    if let Some(limit) = conf.max_split_mb.filter(|_| random.percent(60)) {
        // Room for a few blocks that may not be split.
        drawn_memory = limit * MIB * random.between(3, 12);
    }
    let device_memory = fixed.device_memory.unwrap_or(drawn_memory);
    let most = random.one_of(&[200, 300, 500, 1000, 2000]);
    let drawn_ops = random.between(200, most) as usize;
    let count = fixed.ops.unwrap_or(drawn_ops);

    let habits = family.habits(&mut random);
    let devices = habits.devices;
    let mut program = Program::new(&conf, device_memory, habits, random);
    while program.len() < count {
        program.step();
    }
    let conf = fixed.conf.clone().unwrap_or_else(|| conf.settings().join(","));
    Trace { conf, device_memory, devices, ops: program.into_ops() }
}

#[cfg(test)]
mod tests;
