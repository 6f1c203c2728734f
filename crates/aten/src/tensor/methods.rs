//! The operators as methods of [`Tensor`], and the options that they take.
//!
//! The build script writes them from the tables in `ops/*.ops`.
#![allow(clippy::too_many_arguments, reason = "the arguments are those of the schemas")]
#![allow(clippy::derivable_impls, reason = "defaults are written as the schemas give them")]
#![allow(clippy::wrong_self_convention, reason = "the names are PyTorch's")]

include!(concat!(env!("OUT_DIR"), "/methods.rs"));
