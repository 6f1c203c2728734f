//! Where two outputs differ, and what need not agree.

use super::run::Output;

/// The line at which the outputs first differ.
pub(crate) fn first_difference(oracle: &Output, ours: &Output) -> Option<usize> {
    let (oracle, ours) = (comparable(oracle), comparable(ours));
    let common = oracle.iter().zip(&ours).take_while(|(a, b)| a == b).count();
    (common < oracle.len().max(ours.len())).then_some(common)
}

/// The lines, less what PyTorch leaves open.
///
/// When frees that wait for several streams complete at once, PyTorch takes them in the order of a hash table
/// whose keys are streams (`cuda_events`). One build repeats that order, whatever the addresses are; nothing
/// promises it. The blocks end up the same, but the order of the `free_completed` entries does not, nor do the
/// steps by which neighbours merge: the peak and the two sums of `inactive_split` and `inactive_split_bytes`
/// depend on them. Until a trace first records a stream
/// nothing is deferred, and these have to agree too.
fn comparable(output: &Output) -> Vec<&str> {
    let mut deferred = false;
    let lines = output.lines.iter().map(|line| {
        deferred |= line.starts_with("record ");
        let open = deferred && line.starts_with("stat inactive_split");
        let end = if open { line.find(" peak ") } else { None };
        &line[..end.unwrap_or(line.len())]
    });
    let mut lines: Vec<&str> = lines.collect();
    let completed = |line: &&str| line.starts_with("trace free_completed ");
    lines.chunk_by_mut(|a, b| completed(a) && completed(b)).for_each(<[&str]>::sort_unstable);
    lines
}

#[cfg(test)]
mod tests;
