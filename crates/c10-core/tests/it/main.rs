//! Behaviour of `c10-core` at its edge.
