//! Checkpoints of a pool, and allocations at an address.

use super::program::Program;
use super::state::Checkpoint;

impl Program {
    pub(super) fn checkpoint_command(&mut self) -> bool {
        if self.random.percent(50) { self.checkpoint() } else { self.restore() }
    }

    fn checkpoint(&mut self) -> bool {
        let Some(pool) = self.any_pool() else { return false };
        let here = self.here();
        if self.any_capture() || self.has_history || self.devices[here].checkpoints.len() > 5 {
            return false;
        }
        self.device().has_checkpoints = true;
        let in_pool = self.live.iter().filter(|b| b.device == here && b.pool.as_ref() == Some(&pool.name));
        let blocks: Vec<_> = in_pool.cloned().collect();
        if !pool.has_own_allocator
            && blocks.iter().any(|block| !block.users.is_empty())
            && self.random.percent(95)
        {
            return false;
        }
        let name = format!("C{}", self.next_pool);
        self.next_pool += 1;
        let op = self.say(format!("checkpoint {name} {}", pool.name), &[pool.op]);
        self.device().checkpoints.push(Checkpoint { name, op, pool: pool.name, blocks });
        true
    }

    fn restore(&mut self) -> bool {
        let here = self.here();
        let count = self.devices[here].checkpoints.len();
        if count == 0 || self.any_capture() {
            return false;
        }
        let at = self.random.index(count);
        let checkpoint = self.devices[here].checkpoints[at].clone();
        if self.device().pool(&checkpoint.pool).is_none() {
            self.device().checkpoints.remove(at);
            return false;
        }
        if self.random.percent(20) {
            self.device().checkpoints.remove(at);
        }
        let in_pool = |block: &super::state::Block| {
            block.device == here && block.pool.as_ref() == Some(&checkpoint.pool)
        };
        // Memory that streams still use cannot be taken back.
        if self.live.iter().any(|block| in_pool(block) && !block.users.is_empty()) && self.random.percent(95)
        {
            return false;
        }
        let first = self.next_id;
        let op = self.say(format!("restore {} {first}", checkpoint.name), &[checkpoint.op]);
        while let Some(place) = self.live.iter().position(in_pool) {
            self.forget(place);
        }
        // More may come back than this program knows of.
        self.next_id += 1000;
        for (id, block) in (first..).zip(checkpoint.blocks) {
            self.live_bytes += block.bytes.min(self.device_memory);
            self.live.push(super::state::Block { id, op, users: Vec::new(), ..block });
        }
        true
    }

    /// Behind a block, inside it, or before it.
    pub(super) fn allocate_at(&mut self) -> bool {
        let here = self.here();
        if self.live.is_empty() || self.any_capture() {
            return false;
        }
        let near = &self.live[self.random.index(self.live.len())];
        if near.device != here {
            return false;
        }
        let (near_id, near_op, near_stream) = (near.id, near.op, near.stream);
        let size = near.bytes.min(self.device_memory).next_multiple_of(512) as i64;
        let steps = self.random.below(8) as i64 * self.random.one_of(&[512, 4096, 1 << 20]) as i64;
        let offset = match self.random.below(20) {
            0 => 0,
            1 => -steps,
            2 => size + 100,
            3..8 => size,
            _ => size + steps,
        };
        let stream = if self.random.percent(80) { near_stream } else { self.any_stream() };
        let (id, bytes) = (self.new_id(), self.palette.size(&mut self.random));
        let bytes = if self.random.percent(60) { 1 + self.random.below(100_000) } else { bytes };
        // At an address PyTorch rounds 2^64 - 1 bytes to none, and hands them out (a defect).
        let bytes = bytes.min(1 << 60);
        let op = self.say(format!("at {id} {bytes} {stream} {near_id} {offset}"), &[near_op]);
        self.is_current(here, stream, op);
        self.add_block(id, bytes, stream, op);
        true
    }
}
