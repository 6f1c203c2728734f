//! Planned placement: a program that does the same over and over is recorded once, its requests are packed offline, and
//! from then on each goes where the plan says.
//!
//! - [`Recording`]: requests and when they end; from the trace of an allocator, or written down one by one.
//! - [`solve`]: the packing. [`Shape`] says what a recording is one of, and [`Plan::make`] packs it.
//! - [`Plan`]: the result, which can be [saved](Plan::save), [loaded](Plan::load) and is checked when it is.
//! - `Serving`: a plan at work.
//!
//! ```
//! use c10_cuda::plan::{Limits, Plan, Recording, Shape};
//!
//! let mut recording = Recording::new();
//! let stream = 0;
//! let weights = recording.allocate(3 << 20, stream)?;
//! let hidden = recording.allocate(2 << 20, stream)?;
//! recording.free(hidden)?;
//! let output = recording.allocate(1 << 20, stream)?;
//! # let _ = (weights, output);
//!
//! let plan = Plan::make(&recording, Shape::Whole, &Limits::default(), &mut |_| true)?;
//! assert_eq!(plan.height(), 5 << 20);
//! assert_eq!(plan.height(), plan.bound());
//! assert_eq!(Plan::parse(plan.to_string().as_bytes())?.height(), plan.height());
//! # Ok::<(), c10_cuda::Error>(())
//! ```

mod fingerprint;
mod recording;
mod grams;
mod laps;
mod shape;
pub mod solve;
mod plan;
mod draft;
mod check;
mod file;
mod guide;
mod occupancy;
mod serving;
mod arena;
mod policy;
mod recorder;
mod control;

pub use plan::Plan;
pub use recording::{Recording, RequestId};
pub use serving::PlanStats;
pub use shape::Shape;
pub use solve::{Limits, Progress};

pub(crate) use arena::Arena;
pub(crate) use policy::Planned;
pub(crate) use recorder::Recorder;
