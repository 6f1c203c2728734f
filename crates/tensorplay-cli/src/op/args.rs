//! The arguments of `tensorplay op`.

use std::path::PathBuf;

use clap::Args;

/// Calls operators as recorded in a file, and compares what comes of it with what PyTorch did.
///
/// The file has one JSON object a line, gzip'd or not: an operator, its arguments, and its results or its
/// refusal. Lines are counted from 0.
///
/// Exit code 0 when every case passes, 1 when one does not, 2 when the file is no use.
#[derive(Debug, Args)]
pub(crate) struct OpArgs {
    /// The cases.
    #[arg(value_name = "CASES", required_unless_present = "list")]
    pub(crate) cases: Option<PathBuf>,
    /// Lists the operators that there are instead: schema, dtypes, backends.
    #[arg(long, conflicts_with_all = ["cases", "results", "core", "op", "per_op"])]
    pub(crate) list: bool,
    /// Writes what came of each call into this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Prints the report as one JSON object, each case that did not pass among it.
    #[arg(long)]
    pub(crate) json: bool,
    /// Takes only operators of the Core ATen set.
    #[arg(long)]
    pub(crate) core: bool,
    /// Takes only operators with this text in their name.
    #[arg(long, value_name = "NAME")]
    pub(crate) op: Option<String>,
    /// Prints a line for each operator.
    #[arg(long)]
    pub(crate) per_op: bool,
    /// Shows so many of the cases that did not pass.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub(crate) show: usize,
}
