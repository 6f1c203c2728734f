//! Where a use comes from: the caller's place in the source, where the call is a static one, and the frame that the
//! program has named.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;

thread_local! {
    static FRAME: Cell<Option<Frame>> = const { Cell::new(None) };
}

/// A part of a program, by the name it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    name: &'static str,
    at: &'static Location<'static>,
}

/// Runs `work`, and names it in reports of what it does on this thread. The innermost name counts.
///
/// ```
/// use c10_cuda::driver::sim::in_frame;
///
/// let sum = in_frame("forward", || 1 + 1);
/// assert_eq!(sum, 2);
/// ```
#[track_caller]
pub fn in_frame<R>(name: &'static str, work: impl FnOnce() -> R) -> R {
    struct Reset(Option<Frame>);
    impl Drop for Reset {
        fn drop(&mut self) {
            FRAME.set(self.0);
        }
    }
    let at = Location::caller();
    let _reset = Reset(FRAME.replace(Some(Frame { name, at })));
    work()
}

/// Where a use comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::driver::sim) struct Origin {
    at: Option<&'static Location<'static>>,
    frame: Option<Frame>,
}

impl Origin {
    /// A call from `caller`, on this thread.
    pub(in crate::driver::sim) fn of_call(caller: &'static Location<'static>) -> Self {
        // A call through `dyn Driver` is made by the driver's own table.
        let is_own = caller.file().ends_with("forward.rs") || caller.file().ends_with("watch.rs");
        Self { at: (!is_own).then_some(caller), frame: FRAME.get() }
    }
}

impl fmt::Display for Origin {
    /// Begins with a comma and a blank where there is anything to tell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, ", {}:{}", at.file(), at.line())?;
        }
        match self.frame {
            Some(Frame { name, at }) => write!(f, ", in {name:?} at {}:{}", at.file(), at.line()),
            None => Ok(()),
        }
    }
}
