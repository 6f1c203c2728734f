//! The arguments of `tensorplay replay`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use crate::size::ByteSize;

/// Replays a memory snapshot that PyTorch wrote.
///
/// The file is what `torch.cuda.memory._dump_snapshot` writes: a pickle, or the same as JSON, either of them
/// gzip'd or not. Nothing in it is ever executed.
///
/// Its requests go through the caching allocator on a simulated device, and each decision is compared with the
/// recording: exit code 0 when all that the file determines agree, 1 when one differs. With --conf, --plan or
/// --device-memory the requests alone are replayed, to see what would have been: 0 when they fit, 1 when memory
/// runs out.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("input").required(true).args(["file", "ops"])))]
pub(crate) struct ReplayArgs {
    /// The snapshot.
    #[arg(value_name = "FILE", conflicts_with = "oracle")]
    pub(crate) file: Option<PathBuf>,
    /// A trace of commands, as the oracle's `torch_replay` reads them.
    #[arg(long, value_name = "FILE", requires = "oracle")]
    pub(crate) ops: Option<PathBuf>,
    /// Prints the lines that `torch_replay` prints for the trace. Without --conf and --device-memory its environment
    /// variables are read.
    #[arg(long, requires = "ops")]
    pub(crate) oracle: bool,
    /// Memory of the device, such as 24GiB; unlimited unless given (with --oracle: 80GiB).
    #[arg(long, value_name = "SIZE")]
    pub(crate) device_memory: Option<ByteSize>,
    /// The allocator's configuration, as in PYTORCH_CUDA_ALLOC_CONF; the recording's own unless given.
    #[arg(long, value_name = "TEXT")]
    pub(crate) conf: Option<String>,
    /// A plan that `tensorplay plan` has made: requests go where it says, and what it does not have as ever.
    #[arg(long, value_name = "PLAN", conflicts_with = "oracle")]
    pub(crate) plan: Option<PathBuf>,
    /// Writes the replay as a snapshot: what the allocator did, with the recording's times and stacks, for this
    /// command or for PyTorch's viewer.
    #[arg(long, value_name = "PICKLE", conflicts_with = "oracle")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Writes the replay as trace events for Perfetto or chrome://tracing.
    #[arg(long, value_name = "JSON", conflicts_with = "oracle")]
    pub(crate) trace: Option<PathBuf>,
    /// Says on the standard error how long reading and replaying took.
    #[arg(long, conflicts_with = "oracle")]
    pub(crate) timing: bool,
    /// How the report is written.
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "oracle")]
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
