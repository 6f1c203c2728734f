//! Random numbers.

mod generator;

pub use generator::Generator;
