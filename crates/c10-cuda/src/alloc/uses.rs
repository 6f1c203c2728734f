//! [`Uses`]: what other streams have to do with a block.

use std::ops::Deref;

use crate::driver::StreamHandle;

/// The streams that use a block, sorted, and how many events it waits for. Whether there are any is known with no
/// look at the list, which most blocks have no use for and which stays for the next when it is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    list: Option<Box<List>>,
    /// The length of the list.
    len: u32,
    /// Events that must pass before the block is free.
    pub(crate) events: u32,
}

#[derive(Clone, Debug, Default)]
struct List(Vec<StreamHandle>);

impl Uses {
    /// Whether no stream uses it, and no event is waited for.
    #[inline]
    pub(crate) fn are_over(&self) -> bool {
        self.len | self.events == 0
    }

    /// Whether no stream uses it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Notes that a stream uses it.
    #[inline]
    pub(crate) fn add(&mut self, stream: StreamHandle) {
        match self.last() {
            // The usual case: one stream at most.
            None => self.change(|list| list.push(stream)),
            Some(last) if *last == stream => {}
            Some(_) => {
                if let Err(at) = self.binary_search(&stream) {
                    self.change(|list| list.insert(at, stream));
                }
            }
        }
    }

    /// Takes the last stream out.
    pub(crate) fn pop(&mut self) {
        self.change(|list| _ = list.pop());
    }

    /// Takes out the streams that are not to be kept.
    pub(crate) fn retain(&mut self, keeps: impl FnMut(&StreamHandle) -> bool) {
        self.change(|list| list.retain(keeps));
    }

    /// Takes all streams out.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.len > 0 {
            self.change(Vec::clear);
        }
    }

    #[inline]
    fn change(&mut self, change: impl FnOnce(&mut Vec<StreamHandle>)) {
        let list = self.list.get_or_insert_default();
        change(&mut list.0);
        // One for each stream at most.
        self.len = list.0.len() as u32;
    }
}

impl Deref for Uses {
    type Target = [StreamHandle];

    #[inline]
    fn deref(&self) -> &[StreamHandle] {
        self.list.as_ref().map_or(&[], |list| &list.0)
    }
}
