//! The crate at its edge.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod numeric;

mod basics;
mod checkpoint;
mod custom_op;
mod formulas_images;
mod formulas_index;
mod formulas_products;
mod formulas_views;
mod function;
mod gradcheck;
mod multi_grad;
