//! The crate at its edge.

mod basics;
mod checkpoint;
mod function;

/// Held by tests that say what the default generator draws: it is the process's.
static RANDOM: std::sync::Mutex<()> = std::sync::Mutex::new(());
