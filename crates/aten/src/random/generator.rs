//! A generator.
/// A generator.
#[derive(Clone, Debug, Default)]
pub struct Generator;
