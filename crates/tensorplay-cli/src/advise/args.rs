//! The arguments of `tensorplay advise`.

use std::path::PathBuf;

use clap::Args;

use crate::replay::Format;
use crate::size::ByteSize;

/// Replays a memory snapshot under many configurations, and says which one to set.
///
/// Each run is what `tensorplay replay FILE --conf …` does: the recording's requests through the allocator on a
/// simulated device. Exit code 0 when at least one configuration fits, 1 when none does.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// The snapshot: what `torch.cuda.memory._dump_snapshot` writes, or the same as JSON, gzip'd or not.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Memory of the device, such as 24GiB; unlimited unless given.
    #[arg(long, value_name = "SIZE")]
    pub(crate) device_memory: Option<ByteSize>,
    /// One more configuration to try, as in PYTORCH_CUDA_ALLOC_CONF; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub(crate) conf: Vec<String>,
    /// How the advice is written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}
