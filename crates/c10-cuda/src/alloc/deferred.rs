//! [`DeferredBlocks`]: freed blocks that wait for the ends of captures. See Note [Captures].

use super::ids::BlockId;
use crate::driver::{NodeId, StreamHandle};

/// A freed block that waits for a capture's end.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) block: BlockId,
    pub(crate) until: Until,
    /// Nodes of the graph after which nothing uses the block; none where the graph cannot show that.
    pub(crate) markers: Vec<NodeId>,
}

/// The end of a capture, as seen by a stream that takes part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Until {
    pub(crate) stream: StreamHandle,
    pub(crate) capture: u64,
}

/// Those of a device, in the order in which they were freed.
#[derive(Debug, Default)]
pub(crate) struct DeferredBlocks {
    blocks: Vec<Deferred>,
    /// What they wait for, and how many do. Blocks may be many where captures are few, and every request asks which
    /// captures are over: it looks at the blocks only when one is.
    awaited: Vec<(Until, usize)>,
}

impl DeferredBlocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Deferred> {
        self.blocks.iter()
    }

    /// What they wait for, and how many do.
    pub(crate) fn awaited(&self) -> &[(Until, usize)] {
        &self.awaited
    }

    pub(crate) fn push(&mut self, deferred: Deferred) {
        match self.awaited.iter_mut().find(|(until, _)| *until == deferred.until) {
            Some((_, blocks)) => *blocks += 1,
            None => self.awaited.push((deferred.until, 1)),
        }
        self.blocks.push(deferred);
    }

    /// Takes out those that wait no more, in their order.
    pub(crate) fn take(&mut self, is_over: impl Fn(&Deferred) -> bool) -> Vec<BlockId> {
        let Self { blocks, awaited } = self;
        let over = blocks.extract_if(.., |deferred| is_over(deferred));
        let over = over.map(|deferred| {
            let of = awaited.iter_mut().find(|(until, _)| *until == deferred.until);
            of.expect("what a block waits for is among what is awaited").1 -= 1;
            deferred.block
        });
        let over: Vec<_> = over.collect();
        awaited.retain(|(_, blocks)| *blocks > 0);
        over
    }
}
