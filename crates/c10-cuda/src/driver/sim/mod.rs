//! The simulated device: a [`Driver`](super::Driver) that needs no GPU and no CUDA.
//!
//! Each [`SimDriver`] is a machine of its own, with the devices, the schedule and the faults that its [`SimConfig`]
//! says. The same calls in the same order give the same results: there is no clock and no chance but the seeds'.
//!
//! ```
//! use c10_cuda::driver::sim::{SimConfig, SimDriver};
//! use c10_cuda::driver::{Driver, EventFlags, StreamHandle};
//!
//! # fn main() -> Result<(), c10_cuda::driver::DriverError> {
//! let sim = SimDriver::new(SimConfig::with_bytes(64 << 20));
//! let stream = StreamHandle::default_of(0);
//! let event = sim.event_create(0, EventFlags::default())?;
//! sim.event_record(event, stream)?;
//! assert!(!sim.event_query(event)?);
//! sim.complete_stream(stream);
//! assert!(sim.event_query(event)?);
//! # Ok(())
//! # }
//! ```
//!
//! # Memory
//! Device `d`'s addresses begin at 2^52 + `d`·2^47, where the host has no mapping. They are given out lowest first
//! fit in units of 2 MiB, and a request takes whole units of the device's memory. Contents are kept by page from
//! the first write on; what nobody has written reads as [`POISON`]. An item of work that touches memory which is
//! not live, not mapped, not reachable, or not what it was when the item was issued, does nothing and is a
//! [`WorkFault`]: the device's next synchronising call fails once with
//! [`Status::IllegalAddress`](super::Status::IllegalAddress), and [`SimDriver::take_faults`] tells all.
//! *Differs from CUDA*, where the device is lost.
//!
//! # Work
//! Each stream is a queue, the default stream too, which waits for no other but the default streams of threads, as
//! those wait for it. When the items run is
//! [`Completion`]'s choice; queries complete nothing, and `free` completes all work of its device as CUDA's
//! does, unless [`free_waits`](SimConfig::free_waits) is off. An event is a place in a queue. Times are
//! virtual, and settled when work is issued.
//!
//! # Captures
//! What is issued on a capturing stream becomes a node. The refusals are those that CUDA documents, by the modes of
//! captures and threads. A graph that is launched is one item of its stream; its nodes run one at a time, each behind
//! those that it depends on, in the order in which they were captured or as the schedule's seed decides, and other
//! streams may go on between them. Memory that a graph allocates is the device's from the first launch or upload on,
//! until the graph, all that it was made launchable as and all launches are gone. *Differs from CUDA*, which keeps it
//! until it is told to trim, and which lets a launch be captured into another graph.
//!
//! # Modules
//! An image is text that names functions of the host: the line `tensorplay host kernels 1`, then a line for each
//! function with the sizes of its parameters in bytes. A few are always there (`fill_u32 8 4 8`, `copy_u32 8 8 8`,
//! `add_f32 8 8 8 8`, `scale_f32 8 8 4 8`, `spin 8`); a program adds its own by [`register_host_kernel`].
//!
//! # Processes
//! [`SimDriver::new_process`] is another program on the same machine, with which memory and events can be shared by
//! the handles that CUDA has for it. Between programs of the host's operating system the bytes of memory can be
//! shared by [`SharedBytes`].
//!
//! # Races
//! With [`race_detector`](SimConfig::race_detector) on, every use of memory is looked at when it is issued: two that
//! nothing orders, and one of memory that is freed, another's or nobody's, is a [`Race`] that names both places.
//! Whether it goes well in this run does not matter.
//!
//! # Locks
//! One mutex guards a machine, and each call takes it once. Kernels' bodies run under it: see
//! [`KernelBody`](super::KernelBody).

mod access;
mod builtin_kernels;
mod bytes;
mod call;
mod capture;
mod clock;
mod config;
mod copy;
mod driver;
mod event;
mod fault;
mod forward;
mod graph;
mod graph_memory;
mod graph_run;
mod host;
mod host_bytes;
mod host_kernels;
mod kernel;
mod log;
mod mem_pool;
mod memory;
mod module;
mod node;
mod ipc;
mod peer;
mod per_thread;
mod process;
mod race;
mod remains;
mod report;
mod schedule;
mod shared_bytes;
mod slab;
mod space;
mod state;
mod stream;
mod vmm;
mod work;

pub use bytes::POISON;
pub use call::CALL_NAMES;
pub use config::{
    Completion, DEFAULT_BYTES, DEFAULT_PINNED_BYTES, DEFAULT_RESERVABLE_BYTES, MAX_DEVICES, SimConfig,
};
pub use driver::SimDriver;
pub use fault::{FaultPlan, FaultRule, FaultWhen};
pub use host_kernels::{Accesses, HostKernel, KernelParams, register_host_kernel};
pub use log::{Call, Work};
pub use race::{Race, RaceKind, Use, in_frame};
pub use report::{AccessFault, Touched, WorkFault};
pub use shared_bytes::SharedBytes;
