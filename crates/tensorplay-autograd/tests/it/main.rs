//! The crate at its edge.

mod basics;
mod function;

