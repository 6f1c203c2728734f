//! The arguments of `tensorplay report`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::size::ByteSize;

/// Shows a memory snapshot that PyTorch wrote: what was held when, by whom, and what fragments.
///
/// The page is one file that fetches nothing. With --conf or --device-memory what is shown is not the recording but
/// its requests under those terms, as `tensorplay replay` runs them.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("result").required(true).multiple(true).args(["output", "svg", "png"])))]
pub(crate) struct ReportArgs {
    /// The snapshot: what `torch.cuda.memory._dump_snapshot` writes, or the same as JSON, gzip'd or not.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Writes the page.
    #[arg(short, long, value_name = "HTML")]
    pub(crate) output: Option<PathBuf>,
    /// Writes the timeline as SVG.
    #[arg(long, value_name = "SVG")]
    pub(crate) svg: Option<PathBuf>,
    /// Writes the timeline as PNG.
    #[arg(long, value_name = "PNG")]
    pub(crate) png: Option<PathBuf>,
    /// The device of the two pictures; the one with the most events unless given.
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<usize>,
    /// Memory of the device, such as 24GiB.
    #[arg(long, value_name = "SIZE")]
    pub(crate) device_memory: Option<ByteSize>,
    /// The allocator's configuration, as in PYTORCH_CUDA_ALLOC_CONF.
    #[arg(long, value_name = "TEXT")]
    pub(crate) conf: Option<String>,
}
