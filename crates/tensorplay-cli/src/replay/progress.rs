//! [`Progress`]: a bar on the standard error while a long history runs.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over a known number of steps. It shows nothing when the standard error is not a terminal, and is wiped
/// when dropped, so that nothing of it stays beside a result.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar over `steps` steps of what `what` says.
    pub(crate) fn new(what: &'static str, steps: usize) -> Self {
        // At most ten redraws a second, whatever the pace.
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len}, {eta} left");
        bar.set_style(style.expect("the template is well-formed"));
        bar.set_message(what);
        Self(bar)
    }

    /// Says that `done` steps are done.
    pub(crate) fn set(&self, done: usize) {
        self.0.set_position(done as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
