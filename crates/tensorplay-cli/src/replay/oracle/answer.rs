//! [`Answer`]: what a command is answered with.

use super::Stop;
use super::checkpoints::Spot;
use super::machine::Machine;
use crate::replay::ops::{Command, Op};

pub(super) enum Answer {
    /// A line.
    Line(String),
    /// The command with this behind it.
    Echo(String),
    /// The command names what is not there.
    Skip,
    /// The allocator refuses it, for this reason.
    Refused(String),
    /// All statistics.
    Statistics,
}

impl Answer {
    /// The command, and nothing behind it.
    pub(super) const DONE: Answer = Answer::Echo(String::new());
}

impl Machine {
    pub(super) fn answer(&mut self, op: &Op<'_>) -> Result<Answer, Stop> {
        let line = op.line;
        match &op.command {
            Command::Allocate { id, bytes, stream } => self.allocate(line, *id, *bytes, *stream),
            Command::Free { id } => Ok(self.free(*id, op.told)),
            Command::RecordStream { id, stream } => self.record_stream(line, *id, *stream, op.told),
            Command::CompleteStream { stream } => self.complete_stream(line, *stream),
            Command::CompleteAll => {
                self.driver.complete_all();
                Ok(Answer::Line("complete all".into()))
            }
            Command::EmptyCache => {
                self.allocator.empty_cache()?;
                Ok(Answer::Line("empty_cache".into()))
            }
            Command::MemoryFraction { fraction } => self.set_fraction(*fraction),
            Command::PrintStats => Ok(Answer::Statistics),
            Command::SetDevice { device } => self.set_device(line, *device),
            Command::SetStream { stream } => self.set_stream(line, *stream),
            Command::Kernel { stream } => self.kernel(line, *stream),
            Command::Wait { waiting, waited } => self.wait(line, *waiting, *waited),
            Command::PoolCreate { pool } => self.pool_create(*pool),
            Command::PoolBegin { pool, filter } => self.pool_begin(line, *pool, *filter),
            Command::PoolEnd { pool } => self.pool_end(*pool),
            Command::PoolRelease { pool } => self.pool_release(*pool),
            Command::PoolUseOnOom { pool, on } => self.pool_use_on_oom(*pool, *on),
            Command::PoolNoSplit { pool } => self.pool_no_split(*pool),
            Command::PoolEmpty { pool } => self.pool_empty(*pool),
            Command::PoolCount { pool } => self.pool_count(*pool),
            Command::PoolLive { pool, ids } => self.pool_live(*pool, ids),
            Command::MemPool { pool, own, use_on_oom, no_split } => {
                self.mempool(*pool, *own, *use_on_oom, *no_split)
            }
            Command::MemPoolDelete { pool } => self.mempool_delete(*pool),
            Command::Use { pool } => self.use_mempool(*pool),
            Command::Unuse { pool } => self.unuse(*pool),
            Command::CaptureBegin { stream, pool, mode } => self.capture_begin(line, *stream, *pool, *mode),
            Command::CaptureEnd { stream } => self.capture_end(line, *stream),
            Command::Snapshot { pool } => self.snapshot(*pool),
            Command::History { entries, skip } => self.history(*entries, skip),
            Command::CacheInfo => {
                let device = self.runtime.current_device();
                Ok(Answer::Echo(format!(" {}", self.allocator.cache_info(device)?)))
            }
            Command::Base { id } => self.base(*id),
            Command::Fraction => self.fraction(),
            Command::ResetPeak => {
                self.allocator.reset_peak_stats(self.runtime.current_device())?;
                Ok(Answer::DONE)
            }
            Command::ResetAccumulated => {
                self.allocator.reset_accumulated_stats(self.runtime.current_device())?;
                Ok(Answer::DONE)
            }
            Command::Enable { caching } => {
                self.allocator.enable(*caching);
                Ok(Answer::DONE)
            }
            Command::Checkpoint { name, pool } => self.checkpoint(name, *pool),
            Command::Restore { name, first } => self.restore(line, name, *first),
            Command::AllocateAt { id, bytes, stream, live, offset } => {
                let spot = Spot { live: *live, offset: *offset };
                self.allocate_at(line, *id, *bytes, *stream, spot)
            }
        }
    }
}
