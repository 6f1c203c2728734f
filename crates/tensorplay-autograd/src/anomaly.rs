//! Anomaly mode: where a node was made, and which one gave a NaN (`torch.autograd.detect_anomaly`).

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::fmt;

use crate::node::Node;

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode { enabled: false, checks_nan: true }) };
    /// The node that runs on this thread: new nodes come from it.
    static RUNNING: RefCell<Option<Node>> = const { RefCell::new(None) };
}

#[derive(Clone, Copy)]
struct Mode {
    enabled: bool,
    checks_nan: bool,
}

/// Whether nodes remember where they are made.
#[inline]
pub fn is_enabled() -> bool {
    MODE.get().enabled
}

#[inline]
pub(crate) fn checks_nan() -> bool {
    let Mode { enabled, checks_nan } = MODE.get();
    enabled && checks_nan
}

/// Runs `f` in anomaly mode: errors of backward calls say where the failing node was made, and with `check_nan` a
/// gradient with a NaN is one.
pub fn detect_anomaly<R>(check_nan: bool, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(MODE.replace(Mode { enabled: true, checks_nan: check_nan }));
    f()
}

/// Where a node was made.
pub(crate) struct Origin {
    backtrace: Backtrace,
    /// The node whose gradients were computed then.
    parent: Option<Node>,
}

impl Origin {
    /// Here, in anomaly mode.
    #[inline]
    pub(crate) fn here() -> Option<Box<Self>> {
        if !is_enabled() {
            return None;
        }
        let parent = RUNNING.with_borrow(Clone::clone);
        Some(Box::new(Self { backtrace: Backtrace::force_capture(), parent }))
    }
}

/// Says which node runs until the guard is dropped, in anomaly mode.
#[inline]
pub(crate) fn enter_node(node: &Node) -> Option<impl Sized + use<>> {
    is_enabled().then(|| set_running(Some(node.clone())))
}

/// What the thread has of anomaly mode, for another one that works for it.
#[derive(Clone)]
pub(crate) struct Carried {
    mode: Mode,
    running: Option<Node>,
}

pub(crate) fn carried() -> Carried {
    Carried { mode: MODE.get(), running: RUNNING.with_borrow(Clone::clone) }
}

impl Carried {
    /// Makes it this thread's, until the guard is dropped.
    pub(crate) fn enter(&self) -> impl Sized + use<> {
        (Restore(MODE.replace(self.mode)), set_running(self.running.clone()))
    }
}

/// The mode before.
struct Restore(Mode);

impl Drop for Restore {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

fn set_running(node: Option<Node>) -> impl Sized + use<> {
    struct Before(Option<Node>);
    impl Drop for Before {
        fn drop(&mut self) {
            drop(RUNNING.replace(self.0.take()));
        }
    }
    Before(RUNNING.replace(node))
}

/// Where `node` was made, and where those were that led to it.
pub(crate) struct Trail<'a>(pub(crate) &'a Node);

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        let Some(origin) = self.0.origin() else {
            return write!(
                f,
                "Error detected in {name}. No forward pass information available. Enable detect anomaly during forward pass for more information."
            );
        };
        write!(
            f,
            "Error detected in {name}. Traceback of forward call that caused the error:\n{}",
            origin.backtrace
        )?;
        let mut parent = origin.parent.as_ref();
        while let Some(node) = parent {
            write!(f, "\nPrevious calculation was induced by {}.", node.name())?;
            let Some(origin) = node.origin() else { break };
            write!(
                f,
                " Traceback of forward call that induced the previous calculation:\n{}",
                origin.backtrace
            )?;
            parent = origin.parent.as_ref();
        }
        Ok(())
    }
}
