//! The integration tests of `aten`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]

mod access;
mod dlpack;
#[cfg(feature = "ndarray")]
mod ndarray;
mod npy;
mod safetensors;
mod add;
mod codegen;
mod conj;
mod copy;
mod custom_op;
mod dispatch;
mod dispatch_keys;
mod make;
mod matmul_cases;
mod random;
mod random_ops;
mod index_ops;
mod kept;
mod factory_ops;
mod given_away;
mod schema;
mod indexing;
mod operators;
mod print;
mod view_cases;
mod views;
mod pointwise;
mod reduce;
