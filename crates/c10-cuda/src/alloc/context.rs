//! [`Context`]: where a program was when it called the allocator (`c10::GatheredContext`), and who says so.
//!
//! A provider is called with no lock held, before the call that it is about. What it gives is kept by the block
//! and by the entries of the trace, and asked for its frames when a snapshot is written, or never.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Arc, Mutex, lock};

/// One line of a stack, the innermost first among others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The source file.
    pub filename: String,
    /// The function.
    pub name: String,
    /// The line; 0 where nobody knows.
    pub line: u32,
}

/// A stack as it was gathered. Its frames may be worked out late: the allocator never asks for them.
pub trait GatheredContext: fmt::Debug + Send + Sync {
    /// The frames, the innermost first.
    fn frames(&self) -> Vec<Frame>;
}

impl GatheredContext for Vec<Frame> {
    fn frames(&self) -> Vec<Frame> {
        self.clone()
    }
}

/// A gathered stack, shared by all that keep it. Equal means the very same.
#[derive(Clone, Debug)]
pub struct Context(Arc<dyn GatheredContext>);

impl Context {
    /// Takes a stack in.
    pub fn new(context: impl GatheredContext + 'static) -> Self {
        Self(Arc::new(context))
    }

    /// The frames, the innermost first.
    pub fn frames(&self) -> Vec<Frame> {
        self.0.frames()
    }

    /// The same number for the very same stack alone, as long as it is held.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Context {}

/// Gathers stacks (`CreateContextFn`).
pub trait ContextProvider: fmt::Debug + Send + Sync {
    /// Where the calling thread is. Called with none of the allocator's locks held, in deleters too; a panic
    /// counts as `None`.
    fn gather(&self) -> Option<Context>;
}

/// For which calls a stack is gathered (`RecordContext`); each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordContext {
    /// Allocations; only blocks and segments keep it, so that a snapshot shows who holds what.
    State = 1,
    /// Allocations; entries of the trace keep it too, those of frees that of the allocation.
    Alloc = 2,
    /// Frees and emptied caches too.
    All = 3,
}

/// Who gathers stacks, and for what.
#[derive(Clone, Debug)]
pub struct Contexts {
    /// For which calls.
    pub level: RecordContext,
    /// Who.
    pub provider: Arc<dyn ContextProvider>,
}

/// A device's provider, reached without the device's lock.
#[derive(Debug, Default)]
pub(crate) struct ContextGate {
    /// The level as a number; 0 without a provider.
    level: AtomicU8,
    provider: Mutex<Option<Arc<dyn ContextProvider>>>,
}

impl ContextGate {
    pub(crate) fn set(&self, contexts: Option<&Contexts>) {
        let before = {
            let mut provider = lock(&self.provider);
            self.level.store(contexts.map_or(0, |c| c.level as u8), Ordering::Relaxed);
            std::mem::replace(&mut *provider, contexts.map(|c| Arc::clone(&c.provider)))
        };
        // Its end is the program's code, which may call in here.
        drop(before);
    }

    /// The caller's stack, if calls of this kind are to have one. Not to be called under a lock.
    #[inline]
    pub(crate) fn gather(&self, kind: RecordContext) -> Option<Context> {
        if self.level.load(Ordering::Relaxed) < kind as u8 { None } else { self.ask() }
    }

    #[cold]
    fn ask(&self) -> Option<Context> {
        let provider = lock(&self.provider).clone()?;
        catch_unwind(AssertUnwindSafe(|| provider.gather())).unwrap_or_else(|payload| {
            // Its destructor may panic too.
            std::mem::forget(payload);
            None
        })
    }
}
