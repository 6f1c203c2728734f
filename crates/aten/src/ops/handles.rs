//! A typed handle for each overload of the operator tables, named after it: `ADD_TENSOR`, `ADD__TENSOR`.
//!
//! The build script writes them from `*.ops`.
#![allow(clippy::type_complexity, reason = "the types are those of the schemas")]

include!(concat!(env!("OUT_DIR"), "/handles.rs"));
