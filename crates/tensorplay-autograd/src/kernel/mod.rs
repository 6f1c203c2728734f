//! Kernels of the Autograd keys: they record a call when a gradient may be wanted of it, and pass it on.
//!
//! One generic kernel serves all operators of a kind: [functional](functional), [in place](in_place), [with
//! `out=`](out), [of geometry](geometry), and [all others](fallback). What they record is said by the operator's [`Formula`].
//!
//! [`Formula`]: crate::formula::Formula

mod functional;
mod in_place;
mod detach_in_place;
mod out;
mod geometry;
mod fallback;
mod recording;

use aten::Result;
use aten::dispatch::{DispatchKey, DispatchKeySet, Dispatcher, Library};

pub(crate) use functional::{Functional, InferenceView, View};
pub(crate) use in_place::{InPlace, InferenceCheck};
pub(crate) use out::Out;

/// What an autograd kernel passes calls on to.
pub(crate) const BELOW_AUTOGRAD: DispatchKeySet = DispatchKeySet::full_after(DispatchKey::AutogradOther);

/// Registers everything, once in the process.
///
/// # Errors
/// Where another crate has registered kernels for the same keys: nothing is registered then.
pub(crate) fn register() -> Result<()> {
    let mut fallbacks = Library::fallbacks(Dispatcher::global());
    fallback::register(&mut fallbacks)?;
    let mut library = Library::fragment(Dispatcher::global(), "aten");
    crate::formulas::register(&mut library)?;
    geometry::register(&mut library)?;
    detach_in_place::register(&mut library)?;
    fallbacks.keep();
    library.keep();
    Ok(())
}
