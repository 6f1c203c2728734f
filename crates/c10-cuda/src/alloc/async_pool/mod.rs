//! [`AsyncPool`]: the driver's own memory pools as the allocator (`backend:cudaMallocAsync`).
//!
//! The driver keeps and reuses memory, in stream order; this keeps who uses what. A block that one stream used goes
//! back on that stream. One that several used goes back on a stream of the allocator's own, which first waits
//! for them all: the *unifying* stream.
//!
//! // Note [Captures and memory pools]
//! What a capturing stream allocates is an address of the graph, and its free a node. Memory from before a capture
//! may be used by the graph, so that its free waits for the capture's end, and goes with the next request then. While
//! a capture is under way nothing waits for a device and nothing is trimmed.
//! // Differs from PyTorch: in a capture the stream that allocated the memory, and not the unifying one, waits for
//! the other uses, for the capture's end would find the unifying stream unjoined; what would spoil a capture waits.

mod state;
mod allocate;
mod free;
mod capture;
mod stream_end;
mod owner;
mod queries;
mod unsupported;

pub(super) use owner::pool_of;
pub(super) use state::AsyncPool;
