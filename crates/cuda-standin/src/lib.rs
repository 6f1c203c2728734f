//! A stand-in for CUDA's driver library, over the simulated device of c10-cuda.

mod abi;
mod entry;
mod environment;
mod exit;
mod exports;
mod ipc;
mod machine;
