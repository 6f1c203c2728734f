//! [`Progress`]: a bar on the standard error while something long runs.

use std::cell::Cell;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// So many steps go by between two looks at the clock.
const STRIDE: u64 = 1024;

/// A bar. It shows nothing when the standard error is not a terminal, and is wiped when dropped, so that nothing
/// of it stays beside a result.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    steps: Cell<u64>,
    /// Whether the bar goes on when this is dropped.
    is_part: bool,
}

/// Where work shows how far it is.
#[derive(Clone, Debug)]
pub(crate) enum Bar {
    /// On a bar of its own.
    Own,
    /// On one that several share, whatever thread they are on.
    Shared(ProgressBar),
}

impl Bar {
    /// The progress of `steps` steps of what `what` says, which a shared bar knows already.
    pub(crate) fn of(&self, what: &'static str, steps: usize) -> Progress {
        match self {
            Self::Own => Progress::new(what, steps),
            Self::Shared(bar) => Progress { bar: bar.clone(), steps: Cell::new(0), is_part: true },
        }
    }
}

impl Progress {
    /// A bar over `steps` steps of what `what` says.
    pub(crate) fn new(what: &'static str, steps: usize) -> Self {
        let style = "{msg} {wide_bar} {human_pos} of {human_len}, {eta} left";
        Self::with_style(Some(steps as u64), style, what)
    }

    /// A sign of life over something whose length nobody knows.
    pub(crate) fn endless(what: &'static str) -> Self {
        let progress = Self::with_style(None, "{spinner} {msg}, {elapsed}", what);
        progress.bar.enable_steady_tick(Duration::from_millis(100));
        progress
    }

    /// This bar, for work on several threads.
    pub(crate) fn share(&self) -> Bar {
        Bar::Shared(self.bar.clone())
    }

    fn with_style(steps: Option<u64>, style: &str, what: &'static str) -> Self {
        // At most ten redraws a second, whatever the pace.
        let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(ProgressStyle::with_template(style).expect("the template is well-formed"));
        bar.set_message(what);
        Self { bar, steps: Cell::new(0), is_part: false }
    }

    /// Says how many steps are done, and what of.
    pub(crate) fn set(&self, steps: u64, what: String) {
        self.bar.set_message(what);
        self.bar.set_position(steps);
    }

    /// Says that one more step is done.
    #[inline]
    pub(crate) fn step(&self) {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps.is_multiple_of(STRIDE) {
            self.bar.inc(STRIDE);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_part {
            self.bar.inc(self.steps.get() % STRIDE);
        } else {
            self.bar.finish_and_clear();
        }
    }
}
