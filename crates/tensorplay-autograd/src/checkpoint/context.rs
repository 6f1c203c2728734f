//! What surrounds the runs of a checkpointed function (`context_fn`).

use std::sync::Arc;

use aten::{Error, Result};

/// Something that a function runs in: a mode, a timer, a lock.
pub trait CheckpointContext: Send + Sync {
    /// Calls `run`, once.
    fn enter(&self, run: &mut dyn FnMut());
}

/// Makes for each checkpoint the contexts of its first run and of those for gradients.
pub type Contexts = Arc<dyn Fn() -> (Arc<dyn CheckpointContext>, Arc<dyn CheckpointContext>) + Send + Sync>;

/// Runs `f` in a context.
pub(super) fn within<R>(context: Option<&dyn CheckpointContext>, f: impl FnOnce() -> R) -> Result<R> {
    let Some(context) = context else { return Ok(f()) };
    let mut f = Some(f);
    let mut result = None;
    context.enter(&mut || {
        if let Some(f) = f.take() {
            result = Some(f());
        }
    });
    result.ok_or_else(|| Error::invalid_argument("the context of a checkpoint did not run its function"))
}
