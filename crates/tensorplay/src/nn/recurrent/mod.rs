//! Recurrent networks: [`Lstm`] and [`Gru`] over one layer or more, in one direction or both.
//!
//! `layers` has what they share: the weights, and the walk over layers, directions and steps.

mod layers;
mod lstm;
mod gru;

pub use gru::Gru;
pub use layers::RecurrentConfig;
pub use lstm::{Lstm, LstmState};
