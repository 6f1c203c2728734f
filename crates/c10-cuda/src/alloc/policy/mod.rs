//! Placement policies beside PyTorch's own.

pub mod planned;
