//! [`Few`]: a short list, on the stack up to four entries: what most operators lock.

pub(super) const INLINE: usize = 4;

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
    #[inline]
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let heap = if capacity > INLINE { vec![None; capacity] } else { Vec::new() };
        Self { inline: [None; INLINE], heap, len: 0 }
    }

    /// Adds an entry, for which there is room.
    #[inline]
    pub(super) fn push(&mut self, value: T) {
        let len = self.len;
        self.slots_mut()[len] = Some(value);
        self.len += 1;
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, i: usize) -> Option<T> {
        self.slots().get(i).copied().flatten()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        self.slots_mut().get_mut(i)?.as_mut()
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots()[..self.len].iter().flatten()
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let len = self.len;
        self.slots_mut()[..len].iter_mut().flatten()
    }

    #[inline]
    fn slots(&self) -> &[Option<T>] {
        if self.heap.is_empty() { &self.inline } else { &self.heap }
    }

    #[inline]
    fn slots_mut(&mut self) -> &mut [Option<T>] {
        if self.heap.is_empty() { &mut self.inline } else { &mut self.heap }
    }
}
