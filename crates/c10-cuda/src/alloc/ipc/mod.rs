//! Memory shared between processes: handles for blocks, and the other side's memory behind them
//! (`shareIpcHandle`, `getIpcDevPtr`).
//!
//! - `handle`: the bytes that go from one process to the other.
//! - `share`: the side that has the memory.
//! - `open`: the side that opens it, once for all who ask.
//!
//! The side that shares keeps the block until the other has closed it: how it learns of that is the program's.

mod handle;
mod open;
mod share;

pub use handle::ShareableHandle;
pub use open::IpcMemory;
pub(crate) use open::IpcRegistry;
