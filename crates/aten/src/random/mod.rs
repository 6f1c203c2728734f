//! Random numbers, drawn as PyTorch's CPU kernels draw them.
//!
//! A [`Generator`] under a given seed gives the sequences that `torch` gives under it: every kernel draws
//! serially, element after element in the order of memory, and each distribution takes a fixed number of
//! words from the engine. What a dtype decides (how many bits a uniform number has, how it is rounded) is
//! in [`Discrete`] and [`Continuous`].
//!
//! Entropy enters in one place, [`Generator::seed`].

mod mt19937;
mod state;
mod generator;
mod element;
mod distribution;
mod normal;
mod permutation;
mod multinomial;

pub use element::{Continuous, Discrete, Real, Uniform};
pub use generator::{DEFAULT_SEED, Draws, Generator};
pub use multinomial::{CumulativeDistribution, first_categories};
pub use state::STATE_BYTES;
