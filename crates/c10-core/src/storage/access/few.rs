//! [`Few`]: a short list, on the stack up to four entries: what most operators lock.

const INLINE: usize = 4;

/// A list of known length at most.
#[derive(Debug)]
pub(super) struct Few<T> {
    inline: [Option<T>; INLINE],
    /// All entries, if the capacity was above `INLINE`; else empty.
    heap: Vec<Option<T>>,
    len: usize,
}

impl<T: Copy> Few<T> {
    /// An empty list with room for `capacity` entries.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let heap = if capacity > INLINE { vec![None; capacity] } else { Vec::new() };
        Self { inline: [None; INLINE], heap, len: 0 }
    }

    /// Adds an entry, for which there is room.
    pub(super) fn push(&mut self, value: T) {
        let len = self.len;
        self.slots_mut()[len] = Some(value);
        self.len += 1;
    }

    pub(super) fn sort_by_key(&mut self, mut key: impl FnMut(&T) -> usize) {
        let len = self.len;
        self.slots_mut()[..len].sort_unstable_by_key(|slot| slot.as_ref().map(&mut key));
    }

    /// Drops each entry that `merge` says it has merged into the one kept before it.
    pub(super) fn merge_neighbours(&mut self, mut merge: impl FnMut(&mut T, &T) -> bool) {
        let len = self.len;
        let slots = &mut self.slots_mut()[..len];
        let mut kept = 0_usize;
        for i in 0..len {
            let next = slots[i];
            let merged = match (kept.checked_sub(1).and_then(|last| slots[last].as_mut()), &next) {
                (Some(last), Some(next)) => merge(last, next),
                _ => false,
            };
            if !merged {
                slots[kept] = next;
                kept += 1;
            }
        }
        self.len = kept;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, i: usize) -> Option<T> {
        self.slots()[..self.len].get(i).copied().flatten()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots()[..self.len].iter().flatten()
    }

    fn slots(&self) -> &[Option<T>] {
        if self.heap.is_empty() { &self.inline } else { &self.heap }
    }

    fn slots_mut(&mut self) -> &mut [Option<T>] {
        if self.heap.is_empty() { &mut self.inline } else { &mut self.heap }
    }
}
