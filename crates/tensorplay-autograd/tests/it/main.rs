//! The crate at its edge.

mod basics;
mod gradcheck;
mod leaf_operators;
