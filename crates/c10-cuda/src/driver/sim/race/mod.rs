//! The race and lifetime detector: whether any two uses of the same bytes could run in either order, and whether
//! what is used is there.
//!
//! It looks at the *program*, not at one run of it. Each stream has a place in a [`VectorClock`](clock): how much of
//! every other stream is known to be over before what is issued on it next. Issuing moves the stream's own entry
//! on; an event keeps the clock of its stream; a wait joins it to another's. The host has a clock too: a
//! synchronising call, a query that says ready and a free that waits join what they waited for to it, and what is
//! issued after that is behind it. So what is found depends neither on when the simulator runs an item nor on a
//! seed, but for what queries answer.
//!
//! - **O1.** Of two uses of one byte of which one writes, the first is in the clock of the second.
//! - **O2.** What is used is live, mapped, in reach, and within one block that its allocator has handed out and not
//!   taken back, where one has handed out any there.
//! - **O3.** What goes back to the driver is in no use that is not in the host's clock, and is held by nobody. For
//!   `free`, which waits for its device, the work of that device is.
//! - **O4.** No two blocks that are handed out overlap.
//!
//! All threads of the host count as one, in the order in which they call: what orders them among each other is not
//! the driver's to see. So a race between them may be missed, and none is reported that is not there.
//!
//! Uses are kept per physical byte ([`history`]), so that two mappings of one memory are known to be the same.
//! Those that the host knows to be over are forgotten, since everything that comes is behind them.

mod blocks;
mod clock;
mod detector;
mod frame;
mod graph;
mod history;
mod lifetime;
mod lines;
mod report;
mod watch;

pub(super) use detector::Detector;
pub(super) use frame::Origin;
pub use frame::in_frame;
pub use report::{Race, RaceKind, Use};
