//! Convolutions of contiguous images: the product, and its gradients.
//!
//! One form serves one, two and three dimensions: [`geometry`] pads the sizes with ones in front. The product
//! itself ([`forward`](mod@forward)) never makes the matrix of all patches: a microkernel reads the padded image in place.

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod geometry;
pub(crate) mod patches;
mod planes;

#[cfg(test)]
mod tests;
