//! Makes a trace that shows a difference as small as it gets.

use super::trace::{Command, Op, Stream, Trace};
use crate::Result;

/// The most trials that one shrinking may take.
const TRIALS: usize = 4000;

const MIB: u64 = 1 << 20;

/// Sizes that read well, tried in place of others.
const PLAIN_SIZES: &[u64] = &[1, 512, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 32 * MIB, 64 * MIB];

/// The smallest trace found for which `differs` still holds. It holds for `trace`.
///
/// # Errors
/// What `differs` gives.
pub(crate) fn shrink(trace: Trace, differs: impl FnMut(&Trace) -> Result<bool>) -> Result<Trace> {
    let mut search = Search { best: trace, differs, trials: 0 };
    loop {
        let before = search.best.clone();
        search.drop_settings()?;
        search.drop_commands()?;
        search.simplify_commands()?;
        search.drop_devices()?;
        if search.best == before || search.trials >= TRIALS {
            return Ok(search.best);
        }
    }
}

struct Search<F> {
    best: Trace,
    differs: F,
    trials: usize,
}

impl<F: FnMut(&Trace) -> Result<bool>> Search<F> {
    /// Takes the candidate when it still differs.
    fn take(&mut self, candidate: Trace) -> Result<bool> {
        if self.trials >= TRIALS || candidate == self.best {
            return Ok(false);
        }
        self.trials += 1;
        let taken = (self.differs)(&candidate)?;
        if taken {
            self.best = candidate;
        }
        Ok(taken)
    }

    fn drop_settings(&mut self) -> Result<()> {
        let mut place = 0;
        while place < self.best.settings().len() {
            if !self.take(self.best.without_setting(place))? {
                place += 1;
            }
        }
        Ok(())
    }

    /// Drops runs of commands, long ones first: half of all, a quarter, … one; later ones first, as what comes
    /// after the difference is not needed.
    fn drop_commands(&mut self) -> Result<()> {
        let mut length = self.best.ops.len().div_ceil(2);
        while length > 0 {
            let mut end = self.best.ops.len();
            while end > 0 {
                let start = end.saturating_sub(length);
                let kept = self.best.ops[..start].iter().chain(&self.best.ops[end..]);
                self.take(self.best.with_ops(kept.cloned()))?;
                end = start.min(self.best.ops.len());
            }
            length /= 2;
        }
        Ok(())
    }

    /// Moves commands to the main thread and the default stream, and gives requests plainer or smaller sizes.
    fn simplify_commands(&mut self) -> Result<()> {
        for place in 0..self.best.ops.len() {
            for simpler in simpler(&self.best.ops[place]) {
                let mut ops = self.best.ops.clone();
                ops[place] = simpler;
                if self.take(self.best.with_ops(ops))? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn drop_devices(&mut self) -> Result<()> {
        while self.best.devices > 1
            && self.take(Trace { devices: self.best.devices - 1, ..self.best.clone() })?
        {}
        Ok(())
    }
}

/// Commands that read more easily than this one, the simplest first.
fn simpler(op: &Op) -> Vec<Op> {
    let mut all = Vec::new();
    if op.thread != 0 {
        all.push(Op { thread: 0, ..op.clone() });
    }
    if let Command::Allocate { id, bytes, stream } = op.command {
        let with = |bytes, stream| Op { command: Command::Allocate { id, bytes, stream }, ..op.clone() };
        let default = Stream { device: None, number: 0 };
        all.extend((stream != default).then(|| with(bytes, default)));
        all.extend(stream.device.map(|_| with(bytes, Stream { device: None, ..stream })));
        let halves =
            [bytes / 2, bytes - bytes % MIB, bytes - bytes % 512].into_iter().filter(|half| *half > 0);
        let sizes = PLAIN_SIZES.iter().copied().filter(|plain| *plain < bytes).chain(halves);
        all.extend(sizes.map(|bytes| with(bytes, stream)));
    }
    all
}

#[cfg(test)]
mod tests;
