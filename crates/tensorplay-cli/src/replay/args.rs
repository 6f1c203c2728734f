//! The arguments of `tensorplay replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Replays a memory snapshot that PyTorch wrote.
///
/// The file is what `torch.cuda.memory._dump_snapshot` writes: a pickle, or the same as JSON, either of them
/// gzip'd or not. Nothing in it is ever executed.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The snapshot.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How the report is written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A page to read.
    Text,
    /// One JSON object.
    Json,
}
