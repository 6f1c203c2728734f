//! [`Table`]: what is live of one kind, by handle.

use std::collections::BTreeMap;

use crate::abi::{Code, Handle, Outcome};

/// Values by handle, in the order in which they were made. A handle that is not there, or of another kind, is refused.
#[derive(Debug)]
pub(crate) struct Table<T> {
    rows: BTreeMap<Handle, T>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { rows: BTreeMap::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Handle {
        let handle = Handle::next();
        self.rows.insert(handle, value);
        handle
    }

    /// Puts a value in under a handle that was given out for it before.
    pub(crate) fn insert_as(&mut self, handle: Handle, value: T) {
        self.rows.insert(handle, value);
    }

    pub(crate) fn get(&self, handle: Handle) -> Outcome<&T> {
        self.rows.get(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Outcome<&mut T> {
        self.rows.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Outcome<T> {
        self.rows.remove(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.rows.iter().map(|(handle, value)| (*handle, value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.values_mut()
    }

    /// The handles of what fits.
    pub(crate) fn handles(&self, fits: impl Fn(&T) -> bool) -> Vec<Handle> {
        self.iter().filter(|(_, value)| fits(value)).map(|(handle, _)| handle).collect()
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.rows.retain(|_, value| keep(value));
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows.len() as u64
    }
}
