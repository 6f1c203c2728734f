//! The offline packing: sizes and lifetimes in, places out (dynamic storage allocation, which is NP-hard).
//!
//! Requests that are live at one time must not overlap; the highest end is to be low. No packing is lower than
//! the most that is live at once ([`Problem::peak_live`]), which is the bound that a [`Solution`] carries along.
//!
//! - `problem`: the requests, checked; `conflicts`: which of them are live together.
//! - `first_fit`: each in turn at the lowest place that its conflicts leave. Four orders are tried.
//! - `ejection`: the best of these is then squeezed below lower and lower ceilings.
//!
//! All of it is a function of its arguments. Effort is counted in *steps*, one for each conflict looked at, so that
//! equal limits give equal plans on every machine; a caller that has a clock can stop the search through the
//! callback, and gets the best that has been found.

mod conflicts;
mod ejection;
mod first_fit;
mod problem;
mod search;

pub use problem::{Problem, ProblemError};
pub use search::{Limits, Progress, Solution, solve};
