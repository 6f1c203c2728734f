//! The integration tests of `aten`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]

mod access;
mod dlpack;
mod npy;
mod safetensors;
mod add;
mod codegen;
mod custom_op;
mod dispatch;
mod dispatch_keys;
mod make;
mod random;
mod schema;
mod indexing;
mod print;
mod view_cases;
mod views;
