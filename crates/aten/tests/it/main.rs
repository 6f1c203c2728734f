//! The integration tests of `aten`.

mod codegen;
