//! `tensorplay advise`: a recorded history under many configurations, to say which one to set.

mod args;
mod grid;
mod trial;
mod advice;
mod page;
mod run;

#[cfg(test)]
mod tests;

pub(crate) use args::AdviseArgs;
pub(crate) use run::run_advise;
