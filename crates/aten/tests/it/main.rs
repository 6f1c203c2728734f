//! The integration tests of `aten`.
mod dispatch_keys;
mod schema;
