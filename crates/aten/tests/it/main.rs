//! The integration tests of `aten`.
