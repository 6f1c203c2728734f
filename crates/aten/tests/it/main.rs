//! The integration tests of `aten`.

mod add;
mod codegen;
