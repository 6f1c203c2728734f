//! [`Classes`]: the cached blocks by size class, the newest last.

use super::size::{CLASSES, class};

/// Cached blocks as size and address.
#[derive(Debug)]
pub(super) struct Classes {
    lists: [Vec<(u64, usize)>; CLASSES],
}

impl Default for Classes {
    fn default() -> Self {
        Self { lists: [const { Vec::new() }; CLASSES] }
    }
}

impl Classes {
    /// Puts a block in.
    pub(super) fn push(&mut self, size: u64, at: usize) {
        self.lists[class(size)].push((size, at));
    }

    /// Takes the newest block of the class that is large enough, if there is one.
    pub(super) fn take(&mut self, size: u64) -> Option<usize> {
        let list = &mut self.lists[class(size)];
        let found = list.iter().rposition(|(bytes, _)| *bytes >= size)?;
        Some(list.remove(found).1)
    }

    /// Takes one block out.
    pub(super) fn remove(&mut self, size: u64, at: usize) {
        self.lists[class(size)].retain(|(_, there)| *there != at);
    }

    /// The blocks' addresses with the class in whose list they stand; class by class, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        let lists = self.lists.iter().enumerate();
        lists.flat_map(|(class, list)| list.iter().map(move |(_, at)| (class, *at)))
    }
}
