//! [`PoolOrder`]: a set of pools that is gone through in the order in which PyTorch goes through its own.
//!
//! PyTorch keeps such sets in a hash table, and goes through it slot by slot; which pool's memory is given back or
//! tried first follows from that. The table: Fibonacci hashing of the one number of a name that is not 0, half
//! full at most, Robin Hood displacement with backward shifts (`ska::flat_hash_map`).

use super::mempool_id::MempoolId;

/// 2^64 divided by the golden ratio.
const FIBONACCI: u64 = 11_400_714_819_323_198_485;
/// The least a table has, and the least that an entry may be away from its slot.
const LEAST: usize = 4;

/// Names in the table's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolOrder {
    /// As many as the slots and the longest way from one: an entry never wraps around.
    entries: Vec<Option<Entry>>,
    slots: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: MempoolId,
    /// How far it is behind the slot that its hash names.
    away: usize,
}

impl PoolOrder {
    /// Adds a name, if it is not there.
    pub(crate) fn insert(&mut self, id: MempoolId) {
        if self.contains(id) {
            return;
        }
        let mut id = id;
        while let Err(homeless) = self.place(id) {
            // The one that found no place, which may be another, comes last into a table twice as large.
            self.grow();
            id = homeless;
        }
    }

    /// Takes a name out, if it is there.
    pub(crate) fn remove(&mut self, id: MempoolId) {
        let Some(mut at) = self.entries.iter().position(|e| e.is_some_and(|e| e.id == id)) else { return };
        self.len -= 1;
        while let Some(next) = self.entries.get(at + 1).copied().flatten().filter(|next| next.away > 0) {
            self.entries[at] = Some(Entry { away: next.away - 1, ..next });
            at += 1;
        }
        self.entries[at] = None;
    }

    /// All names, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = MempoolId> {
        self.entries.iter().flatten().map(|entry| entry.id)
    }

    pub(crate) fn contains(&self, id: MempoolId) -> bool {
        self.iter().any(|other| other == id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How far an entry may be away from its slot, and one more.
    fn reach(slots: usize) -> usize {
        LEAST.max(slots.ilog2() as usize)
    }

    /// Puts a name in. Where there is no room, the name that has no place.
    fn place(&mut self, id: MempoolId) -> Result<(), MempoolId> {
        // Half full at most.
        if self.slots == 0 || 2 * (self.len + 1) > self.slots {
            return Err(id);
        }
        let hash = if id.first != 0 { id.first } else { id.second };
        let mut at = (FIBONACCI.wrapping_mul(hash) >> (64 - self.slots.ilog2())) as usize;
        let mut carried = Entry { id, away: 0 };
        loop {
            match &mut self.entries[at] {
                free @ None => {
                    *free = Some(carried);
                    self.len += 1;
                    return Ok(());
                }
                Some(entry) if entry.away < carried.away => std::mem::swap(entry, &mut carried),
                Some(_) => {}
            }
            at += 1;
            carried.away += 1;
            if carried.away == Self::reach(self.slots) {
                return Err(self.undo(id, carried.id));
            }
        }
    }

    /// What has no place: the newcomer, which takes the place of whom it had displaced.
    fn undo(&mut self, newcomer: MempoolId, homeless: MempoolId) -> MempoolId {
        let taken = self.entries.iter_mut().flatten().find(|entry| entry.id == newcomer);
        if let Some(entry) = taken {
            entry.id = homeless;
        }
        newcomer
    }

    fn grow(&mut self) {
        let slots = LEAST.max(2 * self.slots);
        let entries = vec![None; slots + Self::reach(slots)];
        let old = std::mem::replace(self, Self { entries, slots, len: 0 });
        for id in old.iter() {
            self.insert(id);
        }
    }
}
