//! Random traces.

use super::conf::Conf;
use super::random::Random;
use super::sizes::Palette;
use super::trace::{Op, Trace};

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

const FRACTIONS: &[f64] = &[0.0, 0.0001, 0.1, 0.25, 0.333, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

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
pub(crate) fn trace(seed: u64, fixed: &Fixed) -> Trace {
    let mut random = Random::new(seed);
    let drawn_conf = Conf::draw(&mut random);
    let conf = fixed.conf.as_deref().map_or(drawn_conf, Conf::read);
    let mut drawn_memory = random.one_of(DEVICE_MEMORIES);
    if let Some(limit) = conf.max_split_mb.filter(|_| random.percent(60)) {
        // Room for a few blocks that may not be split.
        drawn_memory = limit * MIB * random.between(3, 12);
    }
    let device_memory = fixed.device_memory.unwrap_or(drawn_memory);
    let drawn_ops = random.between(30, 400) as usize;
    let count = fixed.ops.unwrap_or(drawn_ops);

    let mut program = Program::draw(&conf, device_memory, random);
    if conf.garbage_collection_threshold.is_some() && program.random.percent(90) {
        let fraction = program.random.index(4);
        program.set_fraction([0.5, 0.75, 0.9, 0.99][fraction]);
    }
    while program.ops.len() < count {
        program.step();
    }
    let conf = fixed.conf.clone().unwrap_or_else(|| conf.settings().join(","));
    Trace { conf, device_memory, ops: program.ops }
}

/// A trace in the making: what it has so far, and the habits that its seed gave it.
#[derive(Debug)]
struct Program {
    random: Random,
    ops: Vec<Op>,
    palette: Palette,
    /// Blocks asked for and not freed, with the bytes asked for. Some may have been refused.
    live: Vec<(u32, u64)>,
    live_bytes: u64,
    next_id: u32,
    device_memory: u64,
    /// The live bytes that it hovers about.
    fill: u64,
    streams: u64,
    free_newest_percent: u64,
    /// Weights of `r`, of `s` and `S`, of `e`, of `m` and of `p`, beside 100 for `a` and `f` together.
    weights: [u64; 5],
}

impl Program {
    fn draw(conf: &Conf, device_memory: u64, mut random: Random) -> Program {
        let palette = Palette::draw(conf, device_memory, &mut random);
        let streams = random.one_of(&[1, 1, 2, 2, 3, 6]);
        let records = if streams == 1 { 0 } else { random.one_of(&[0, 10, 30, 60]) };
        Program {
            ops: Vec::new(),
            palette,
            live: Vec::new(),
            live_bytes: 0,
            next_id: 1,
            device_memory,
            fill: device_memory / 100 * random.one_of(&[20, 50, 70, 80, 90, 100, 130]),
            streams,
            free_newest_percent: random.one_of(&[0, 20, 80]),
            weights: [
                records,
                if records == 0 { 1 } else { random.one_of(&[0, 5, 20]) },
                random.one_of(&[0, 0, 1, 4]),
                random.one_of(&[0, 0, 0, 1, 3]),
                random.one_of(&[0, 1, 2]),
            ],
            random,
        }
    }

    fn step(&mut self) {
        let total = 100 + self.weights.iter().sum::<u64>();
        let mut draw = self.random.below(total);
        let chosen = self.weights.iter().position(|weight| match draw.checked_sub(*weight) {
            Some(rest) => {
                draw = rest;
                false
            }
            None => true,
        });
        match chosen {
            Some(0) => self.record_stream(),
            Some(1) => self.complete(),
            Some(2) => self.ops.push(Op::EmptyCache),
            Some(3) => {
                let fraction = FRACTIONS[self.random.index(FRACTIONS.len())];
                self.set_fraction(fraction);
            }
            Some(4) => self.ops.push(Op::Statistics),
            _ if self.frees_next() => self.free(),
            _ => self.allocate(),
        }
    }

    fn frees_next(&mut self) -> bool {
        // Far below the fill it mostly allocates, far above it mostly frees.
        let allocate_percent = if self.live_bytes < self.fill / 2 {
            75
        } else if self.live_bytes < self.fill {
            55
        } else {
            30
        };
        !self.live.is_empty() && !self.random.percent(allocate_percent)
    }

    fn allocate(&mut self) {
        let (id, bytes) = (self.next_id, self.palette.size(&mut self.random));
        let stream = self.stream();
        self.ops.push(Op::Allocate { id, bytes, stream });
        self.next_id += 1;
        self.live.push((id, bytes));
        // What cannot have been served does not count.
        if bytes <= self.device_memory {
            self.live_bytes += bytes;
        }
    }

    fn free(&mut self) {
        let newest = self.random.percent(self.free_newest_percent);
        let place = if newest { self.live.len() - 1 } else { self.random.index(self.live.len()) };
        let (id, bytes) = self.live.swap_remove(place);
        if bytes <= self.device_memory {
            self.live_bytes -= bytes;
        }
        self.ops.push(Op::Free { id });
    }

    fn record_stream(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let (id, _) = self.live[self.random.index(self.live.len())];
        for _ in 0..self.random.one_of(&[1, 1, 2, 3]) {
            let stream = self.random.below(self.streams) as u32;
            self.ops.push(Op::RecordStream { id, stream });
        }
    }

    fn complete(&mut self) {
        let all = self.random.percent(15);
        let stream = self.random.below(self.streams) as u32;
        self.ops.push(if all { Op::CompleteAll } else { Op::CompleteStream { stream } });
    }

    fn set_fraction(&mut self, fraction: f64) {
        self.ops.push(Op::MemoryFraction(fraction));
    }

    /// Half of all requests are the default stream's.
    fn stream(&mut self) -> u32 {
        if self.random.percent(50) { 0 } else { self.random.below(self.streams) as u32 }
    }
}

#[cfg(test)]
mod tests;
