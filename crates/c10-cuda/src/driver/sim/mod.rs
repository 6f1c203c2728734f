//! The simulated device: a [`Driver`](super::Driver) that needs no GPU and no CUDA.

mod call;
mod clock;
mod config;
mod driver;
mod event;
mod fault;
mod forward;
mod log;
mod memory;
mod peer;
mod rng;
mod schedule;
mod slab;
mod space;
mod state;
mod stream;
mod work;

pub use call::CALL_NAMES;
pub use config::{Completion, DEFAULT_BYTES, DEFAULT_RESERVABLE_BYTES, MAX_DEVICES, SimConfig};
pub use driver::SimDriver;
pub use fault::{FaultPlan, FaultRule, FaultWhen};
pub use log::{Call, Work};
