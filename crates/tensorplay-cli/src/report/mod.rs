//! `tensorplay report`: what a snapshot says, as a page and as pictures.

mod args;
mod run;
mod story;
mod owners;
mod columns;
mod data;
mod page;
mod picture;
mod svg;
mod letters;
mod png;

#[cfg(test)]
mod tests;

pub(crate) use args::ReportArgs;
pub(crate) use run::run_report;
