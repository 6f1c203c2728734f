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

    fn with_style(steps: Option<u64>, style: &str, what: &'static str) -> Self {
        // At most ten redraws a second, whatever the pace.
        let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(ProgressStyle::with_template(style).expect("the template is well-formed"));
        bar.set_message(what);
        Self { bar, steps: Cell::new(0) }
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
            self.bar.set_position(steps);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
