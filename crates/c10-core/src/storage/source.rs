//! [`Source`]: the allocator that a storage's memory comes from.

use std::ops::Deref;
use std::sync::Arc;

use crate::allocator::Allocator;

/// An allocator, of which most storages hold no count: nearly all memory comes from the one that the process
/// has registered, which lives for ever. Either is one pointer, so that it is passed in registers.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Registered(&'static Arc<dyn Allocator>),
    Given(Box<Arc<dyn Allocator>>),
}

impl Source {
    pub(super) fn to_arc(&self) -> Arc<dyn Allocator> {
        match self {
            Self::Registered(allocator) => Arc::clone(allocator),
            Self::Given(allocator) => Arc::clone(&**allocator),
        }
    }
}

impl Deref for Source {
    type Target = dyn Allocator;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Registered(allocator) => &***allocator,
            Self::Given(allocator) => &***allocator,
        }
    }
}

impl From<Arc<dyn Allocator>> for Source {
    fn from(allocator: Arc<dyn Allocator>) -> Self {
        Self::Given(Box::new(allocator))
    }
}
