//! The `tensorplay` command.

mod snapshot;

fn main() {}
