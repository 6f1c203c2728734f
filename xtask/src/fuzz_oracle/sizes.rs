//! Random request sizes, on both sides of every threshold that decides how the allocator serves one.

use super::conf::Conf;
use super::random::Random;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What a trace asks for: few sizes, mostly, so that freed blocks are found again.
#[derive(Debug)]
pub(crate) struct Palette {
    sizes: Vec<u64>,
    thresholds: Vec<u64>,
    largest: u64,
}

impl Palette {
    /// Draws the sizes of one trace.
    pub(crate) fn draw(conf: &Conf, device_memory: u64, random: &mut Random) -> Palette {
        let thresholds = thresholds(conf, device_memory);
        // Small requests only, those about the thresholds, those that fill the device, or all of them.
        let kind = if conf.max_split_mb.is_some() && random.percent(60) { 1 } else { random.below(4) };
        let largest = if kind == 0 { MIB } else { device_memory / random.one_of(&[1, 2, 4, 8]) };
        let mut palette = Palette { sizes: Vec::new(), thresholds, largest };
        for _ in 0..random.between(2, 12) {
            let size = match if kind == 3 { random.below(3) } else { kind } {
                0 => below_power(MIB, random),
                1 => palette.near_threshold(random),
                _ => device_memory / random.between(2, 40),
            };
            palette.sizes.push(size);
        }
        palette
    }

    /// The size of one request, in bytes.
    pub(crate) fn size(&self, random: &mut Random) -> u64 {
        match random.below(100) {
            0..70 => self.sizes[random.index(self.sizes.len())],
            70..85 => nudge(self.sizes[random.index(self.sizes.len())], random),
            85..92 => self.near_threshold(random),
            92..99 => below_power(self.largest, random),
            _ => random.one_of(&[0, (1 << 60) - 1, 1 << 60, (1 << 60) + 1, u64::MAX]),
        }
    }

    fn near_threshold(&self, random: &mut Random) -> u64 {
        let threshold = self.thresholds[random.index(self.thresholds.len())];
        if random.percent(40) { threshold } else { nudge(threshold, random) }
    }
}

/// Sizes at which the allocator's answer changes.
fn thresholds(conf: &Conf, device_memory: u64) -> Vec<u64> {
    let large_segment = conf.large_segment_mb.unwrap_or(20) * MIB;
    let mut all = vec![512, KIB, MIB, 2 * MIB, 10 * MIB, large_segment, device_memory, device_memory / 2];
    // A remainder of 1 MiB or less is not split off.
    all.extend([MIB - 512, 9 * MIB, large_segment - MIB]);
    all.extend([3, 4, 6, 11, 12].map(|count| count * 2 * MIB));
    if let Some(limit) = conf.max_split_mb {
        all.extend([limit, limit + 2, 2 * limit].map(|count| count * MIB));
        // Blocks that a request of about the limit may take whole, and blocks that are too large for it.
        for rounding in [Some(large_segment / MIB), conf.max_non_split_rounding_mb].into_iter().flatten() {
            all.extend([rounding - 2, rounding, rounding + 2].map(|more| (limit + more) * MIB));
        }
    }
    if conf.roundup_divisions.is_some() {
        for power in [1200, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB] {
            all.extend([power, power + power / 4, power + power / 2, power + power / 16]);
        }
    }
    all.retain(|size| *size <= device_memory);
    all
}

/// The size, or one close by.
fn nudge(size: u64, random: &mut Random) -> u64 {
    let by = random.one_of(&[1, 1, 511, 512, 513, MIB, 2 * MIB]);
    if random.percent(50) { size + by } else { size.saturating_sub(by).max(1) }
}

/// A size up to `largest`, each power of two as likely as the next.
fn below_power(largest: u64, random: &mut Random) -> u64 {
    let largest = largest >> random.below(u64::from(largest.max(2).ilog2()));
    random.between(1, largest.max(1))
}
