//! The crate at its edge.

mod numeric;

mod basics;
mod formulas_images;
mod formulas_index;
mod formulas_products;
mod formulas_views;
mod gradcheck;
