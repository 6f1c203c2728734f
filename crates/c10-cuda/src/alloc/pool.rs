//! [`BlockPool`]: the free blocks of one class of requests; [`PoolTable`]: a device's pools, its own and private
//! ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};

use super::expandable::UnmappedSet;
use super::free_set::FreeSet;
use super::ids::PoolId;
use super::mempool_id::MempoolId;
use super::pool_allocator::PoolAllocator;
use super::pool_order::PoolOrder;
use super::scopes::Scope;
use super::suspend::Kept;
use crate::config::OrderOfEquals;
use crate::sync::Arc;

/// A pool's free blocks, and how often it was searched.
#[derive(Debug)]
pub(crate) struct BlockPool {
    pub(crate) free: FreeSet,
    /// Blocks of expandable segments that have no memory behind them.
    pub(crate) unmapped: UnmappedSet,
    /// Searches so far; counted only where old blocks are collected. A block's age is counted in them.
    pub(crate) get_free_blocks_call_count: u64,
}

impl BlockPool {
    pub(crate) fn new(order: OrderOfEquals) -> Self {
        Self { free: FreeSet::new(order), unmapped: UnmappedSet::default(), get_free_blocks_call_count: 0 }
    }
}

/// A pool of small blocks and one of large, and who uses them.
#[derive(Debug)]
pub(crate) struct PoolOwner {
    pub(crate) id: MempoolId,
    small: BlockPool,
    large: BlockPool,
    /// How many have said that they use it.
    pub(crate) use_count: u64,
    /// How many segments it has; of growable ones, those of which anything is mapped.
    pub(crate) segments: u64,
    /// How many graphs, and captures that are under way, use its memory. See Note [Launches of graphs].
    pub(crate) graphs: u32,
    /// Allocations that are under way, some with the lock given up.
    pub(crate) pins: u32,
    /// Where its segments come from, if not from the driver's `malloc`.
    pub(crate) allocator: Option<Arc<dyn PoolAllocator>>,
    /// Whether its blocks are handed out whole.
    pub(crate) no_split: bool,
    /// Whether its memory comes from expandable segments, whatever the settings say.
    pub(crate) expandable: bool,
    /// Whether its memory was given back while its blocks stay, and what of their contents was kept.
    pub(crate) asleep: Option<Kept>,
    /// By what it is suspended and resumed together with others.
    pub(crate) tag: Option<String>,
    /// Whether it is to be emptied when no capture is under way any more.
    pub(crate) empty_later: bool,
}

impl PoolOwner {
    fn new(id: MempoolId, order: OrderOfEquals) -> Self {
        Self {
            id,
            small: BlockPool::new(order),
            large: BlockPool::new(order),
            use_count: 0,
            segments: 0,
            graphs: 0,
            pins: 0,
            allocator: None,
            no_split: false,
            expandable: false,
            asleep: None,
            tag: None,
            empty_later: false,
        }
    }
}

/// The pools of a device. The owner in slot 0 is the device itself.
#[derive(Debug)]
pub(crate) struct PoolTable {
    order: OrderOfEquals,
    owners: Vec<PoolOwner>,
    /// Slots that nobody has.
    vacant: Vec<u32>,
    by_id: BTreeMap<MempoolId, u32>,
    /// Pools whose last use is gone. They go when their last segment has.
    pub(crate) freeable: PoolOrder,
    /// Pools whose free blocks serve others when memory is short.
    pub(crate) use_on_oom: PoolOrder,
    /// Pools whose blocks are handed out whole. A pool may be named before it is there.
    no_split: BTreeSet<MempoolId>,
    /// What goes to which private pool; the last that fits decides.
    pub(crate) scopes: Vec<Scope>,
}

impl PoolTable {
    /// The device's own.
    pub(crate) fn new(order: OrderOfEquals) -> Self {
        Self {
            order,
            owners: vec![PoolOwner::new(MempoolId::DEFAULT, order)],
            vacant: Vec::new(),
            by_id: BTreeMap::new(),
            freeable: PoolOrder::default(),
            use_on_oom: PoolOrder::default(),
            no_split: BTreeSet::new(),
            scopes: Vec::new(),
        }
    }

    /// All pools, the large one of each owner first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BlockPool> {
        self.owners.iter().flat_map(|owner| [&owner.large, &owner.small])
    }

    /// The private owners, with their slots.
    pub(crate) fn private(&self) -> impl Iterator<Item = (u32, &PoolOwner)> {
        self.by_id.values().map(|slot| (*slot, &self.owners[*slot as usize]))
    }

    /// The pools of private owners.
    pub(crate) fn private_pools(&self) -> impl Iterator<Item = &BlockPool> {
        self.private().flat_map(|(_, owner)| [&owner.large, &owner.small])
    }

    /// The slot of a private pool.
    pub(crate) fn find(&self, id: MempoolId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// The name of a pool's owner.
    #[inline]
    pub(crate) fn id_of(&self, pool: PoolId) -> MempoolId {
        self.owners[pool.owner as usize].id
    }

    #[inline]
    pub(crate) fn owner(&self, slot: u32) -> &PoolOwner {
        &self.owners[slot as usize]
    }

    #[inline]
    pub(crate) fn owner_mut(&mut self, slot: u32) -> &mut PoolOwner {
        &mut self.owners[slot as usize]
    }

    /// Makes a private pool that is not there, with no use yet.
    pub(crate) fn create(&mut self, id: MempoolId, allocator: Option<Arc<dyn PoolAllocator>>) -> u32 {
        let no_split = self.no_split.contains(&id);
        let owner = PoolOwner { allocator, no_split, ..PoolOwner::new(id, self.order) };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.owners[slot as usize] = owner;
                slot
            }
            None => {
                self.owners.push(owner);
                u32::try_from(self.owners.len() - 1).expect("2^32 pools would need more memory than there is")
            }
        };
        self.by_id.insert(id, slot);
        slot
    }

    /// Whether nobody can come to a pool any more.
    pub(crate) fn is_unused(&self, slot: u32) -> bool {
        let owner = &self.owners[slot as usize];
        let scoped = || self.scopes.iter().any(|scope| scope.owner == slot);
        owner.use_count == 0 && owner.pins == 0 && !scoped()
    }

    /// Whether that is so, and it holds nothing.
    pub(crate) fn is_over(&self, slot: u32) -> bool {
        self.is_unused(slot) && self.owners[slot as usize].segments == 0
    }

    /// Ends a pool that [is over](Self::is_over).
    pub(crate) fn remove(&mut self, slot: u32) {
        debug_assert!(self.is_over(slot));
        let id = self.owners[slot as usize].id;
        self.by_id.remove(&id);
        self.freeable.remove(id);
        self.owners[slot as usize] = PoolOwner::new(MempoolId::DEFAULT, self.order);
        self.vacant.push(slot);
    }

    /// Makes the blocks of a pool be handed out whole, or not.
    pub(crate) fn set_no_split(&mut self, id: MempoolId, no_split: bool) {
        if no_split {
            self.no_split.insert(id);
        } else {
            self.no_split.remove(&id);
        }
        if let Some(slot) = self.find(id) {
            self.owners[slot as usize].no_split = no_split;
        }
    }
}

impl Index<PoolId> for PoolTable {
    type Output = BlockPool;

    #[inline]
    fn index(&self, id: PoolId) -> &BlockPool {
        let owner = &self.owners[id.owner as usize];
        if id.is_small { &owner.small } else { &owner.large }
    }
}

impl IndexMut<PoolId> for PoolTable {
    #[inline]
    fn index_mut(&mut self, id: PoolId) -> &mut BlockPool {
        let owner = &mut self.owners[id.owner as usize];
        if id.is_small { &mut owner.small } else { &mut owner.large }
    }
}
