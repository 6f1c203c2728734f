//! The crate at its edge.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]

mod numeric;

mod basics;
mod formulas_images;
mod formulas_index;
mod formulas_products;
mod formulas_views;
mod gradcheck;
