//! The integration tests of `aten`.

mod add;
mod codegen;
mod dispatch_keys;
mod schema;
