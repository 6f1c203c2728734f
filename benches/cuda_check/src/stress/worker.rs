//! [`Worker`]: one thread of the stress.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use c10_core::{DataPtr, Stream};
use c10_cuda::alloc::{MemPool, MemPoolOptions};
use c10_cuda::driver::DriverError;
use c10_cuda::{CachingAllocator, CudaEvent, ErrorKind, PinnedAllocator};
use cuda_alone::Kernels;

use super::Counts;
use super::contents::Block;
use super::random::Random;

/// What all threads use.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pinned: PinnedAllocator,
    pub(super) kernels: Kernels,
    pub(super) counts: Counts,
    pub(super) until: Instant,
    /// The most bytes that a thread holds.
    pub(super) most: u64,
    /// Whether the allocator is told of no other stream's use: then contents are wrong where work is late.
    pub(super) forgets: bool,
    /// Whether the allocator has private pools.
    pub(super) pools: bool,
    pub(super) cuda: CachingAllocator,
}

/// Why a thread stopped.
#[derive(Debug)]
pub(super) enum Failure {
    /// The allocator refused a call.
    Refused(c10_cuda::Error),
    /// A block does not hold what was written.
    Contents(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Contents(what) => f.write_str(what),
        }
    }
}

impl From<c10_cuda::Error> for Failure {
    fn from(error: c10_cuda::Error) -> Self {
        Self::Refused(error)
    }
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        Self::Refused(error.into())
    }
}

/// A block on its way to another thread, and the place after what was issued on it.
pub(super) type Handed = (Block, CudaEvent);

/// A thread's blocks, streams and chance.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    shared: &'a Shared,
    random: Random,
    streams: [Stream; 2],
    held: Vec<Block>,
    bytes: u64,
    pool: Option<MemPool>,
    received: Receiver<Handed>,
    next: Sender<Handed>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        seed: u64,
        received: Receiver<Handed>,
        next: Sender<Handed>,
    ) -> Result<Self, Failure> {
        let stream = || shared.cuda.runtime().stream_from_pool(0, 0);
        let pool = || MemPool::new(&shared.cuda, 0, MemPoolOptions::default());
        Ok(Self {
            streams: [stream()?, stream()?],
            pool: shared.pools.then(pool).transpose()?,
            held: Vec::new(),
            bytes: 0,
            random: Random(seed),
            shared,
            received,
            next,
        })
    }

    /// Works until the time is over, then checks and frees all that is left.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        while Instant::now() < self.shared.until {
            self.receive()?;
            match self.random.below(100) {
                _ if self.bytes > self.shared.most => self.check_one()?,
                0..40 => self.allocate(false)?,
                40..45 => self.allocate(true)?,
                45..70 => self.check_one()?,
                70..88 => self.use_elsewhere()?,
                88..99 => self.hand_on()?,
                _ => self.shared.cuda.empty_cache()?,
            }
        }
        while !self.held.is_empty() {
            self.check_one()?;
        }
        // Others may send until they have seen the end, too.
        drop(self.next);
        while let Ok((block, written)) = self.received.recv() {
            written.wait(block.stream)?;
            block.check(self.shared)?;
        }
        Ok(())
    }

    fn new_block(&mut self, bytes: u64, tag: u64, stream: Stream, pooled: bool) -> Result<Block, Failure> {
        let memory = match self.memory(bytes, stream, pooled) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                self.make_room()?;
                self.memory(bytes, stream, pooled)
            }
            other => other,
        }?;
        self.shared.counts.blocks.fetch_add(1, Ordering::Relaxed);
        Ok(Block { memory, bytes, tag, stream })
    }

    fn memory(&self, bytes: u64, stream: Stream, pooled: bool) -> c10_cuda::Result<DataPtr> {
        let cuda = &self.shared.cuda;
        match &self.pool {
            Some(pool) if pooled => {
                self.shared.counts.in_pools.fetch_add(1, Ordering::Relaxed);
                pool.with(|| cuda.allocate_on(bytes, stream))?
            }
            _ => cuda.allocate_on(bytes, stream),
        }
    }

    /// Checks and frees most of what is held, as a program does that has met the end of memory.
    fn make_room(&mut self) -> Result<(), Failure> {
        self.shared.counts.refused.fetch_add(1, Ordering::Relaxed);
        while self.bytes > self.shared.most / 8 {
            self.check_one()?;
        }
        Ok(self.shared.cuda.empty_cache()?)
    }

    fn keep(&mut self, block: Block) {
        self.bytes += block.bytes;
        self.held.push(block);
    }

    /// Takes one of the held blocks.
    fn take_one(&mut self) -> Option<Block> {
        let count = self.held.len() as u64;
        let at = (count > 0).then(|| self.random.below(count) as usize)?;
        let block = self.held.swap_remove(at);
        self.bytes -= block.bytes;
        Some(block)
    }

    fn allocate(&mut self, pooled: bool) -> Result<(), Failure> {
        let (bytes, tag, stream) =
            (self.random.size(), self.random.next(), self.streams[self.random.below(2) as usize]);
        let block = self.new_block(bytes, tag, stream, pooled)?;
        block.write(self.shared)?;
        self.keep(block);
        Ok(())
    }

    fn check_one(&mut self) -> Result<(), Failure> {
        let Some(block) = self.take_one() else { return Ok(()) };
        block.check(self.shared)?;
        self.shared.counts.bytes_checked.fetch_add(block.bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The other stream copies a block, late, and the block is freed before that.
    fn use_elsewhere(&mut self) -> Result<(), Failure> {
        let Some(block) = self.take_one() else { return Ok(()) };
        let other = if block.stream == self.streams[0] { self.streams[1] } else { self.streams[0] };
        let cycles = self.random.below(200_000);
        self.shared.kernels.spin(self.shared.cuda.runtime().handle(other)?, cycles)?;
        self.place_after(block.stream)?.wait(other)?;
        let copy = self.copy_on(other, &block)?;
        self.shared.counts.other_stream.fetch_add(1, Ordering::Relaxed);
        drop(block);
        self.keep(copy);
        Ok(())
    }

    /// A copy on a stream of another block, of whose use the allocator is told.
    fn copy_on(&mut self, stream: Stream, block: &Block) -> Result<Block, Failure> {
        let copy = self.new_block(block.bytes, block.tag, stream, false)?;
        copy.copy_from(block, self.shared)?;
        if !self.shared.forgets {
            self.shared.cuda.record_stream(&block.memory, stream)?;
        }
        Ok(copy)
    }

    /// Gives a block to the next thread, which frees it.
    fn hand_on(&mut self) -> Result<(), Failure> {
        let Some(block) = self.take_one() else { return Ok(()) };
        let written = self.place_after(block.stream)?;
        self.shared.counts.other_thread.fetch_add(1, Ordering::Relaxed);
        if let Err(back) = self.next.send((block, written)) {
            self.keep(back.0.0);
        }
        Ok(())
    }

    /// Copies what other threads have handed here, and frees it.
    fn receive(&mut self) -> Result<(), Failure> {
        while let Ok((block, written)) = self.received.try_recv() {
            let stream = self.streams[self.random.below(2) as usize];
            written.wait(stream)?;
            let copy = self.copy_on(stream, &block)?;
            self.keep(copy);
        }
        Ok(())
    }

    /// The place after all that a stream holds.
    fn place_after(&self, stream: Stream) -> Result<CudaEvent, Failure> {
        let event = CudaEvent::new(self.shared.cuda.runtime(), Default::default())?;
        event.record(stream)?;
        Ok(event)
    }
}
