//! Data in memory, in batches and in a seeded order (`torch.utils.data`).
//!
//! - [`TensorDataset`]: tensors whose first dimension counts examples.
//! - [`DataLoader`]: its batches, shuffled or not.
//! - [`idx`]: the files of the MNIST digits.

mod dataset;
mod loader;
pub mod idx;

pub use dataset::TensorDataset;
pub use loader::{Batches, DataLoader, LoaderConfig};
