//! How a call finds its kernel.

pub mod key;
pub mod key_set;
pub mod local;

pub use key::{Backend, DispatchKey, Functionality};
pub use key_set::DispatchKeySet;
pub use local::LocalDispatchKeySet;
