//! Where two outputs differ, and what need not agree.

use super::run::Output;

/// What a comparison gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Agree,
    /// They agree as far as PyTorch is in order: to a line of its own defects, or to its crash.
    AgreeUpTo(usize),
    /// The line at which they first differ.
    Differ(usize),
}

/// What follows a line `error COMMAND: TEXT` of PyTorch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// The texts are the same, and both go on.
    Same,
    /// Ours has words of its own, and both go on.
    OwnWords,
    /// Ours refuses too; what PyTorch does after it is not compared.
    End,
    /// PyTorch should not have refused.
    Defect,
}

/// Compares what PyTorch's program printed with what ours did.
pub(crate) fn compare(oracle: &Output, ours: &Output) -> Verdict {
    let mut theirs = comparable(&oracle.lines);
    let mut whole = !oracle.failed;
    if oracle.failed {
        // Its last line tells of the crash.
        theirs.pop();
    }
    let place = theirs.iter().position(|line| matches!(refusal(line), Some(Refusal::End | Refusal::Defect)));
    if let Some(place) = place {
        whole = false;
        // Its driver calls and trace entries stand before it.
        let caused = |line: &&String| ["driver ", "trace ", "own "].iter().any(|head| line.starts_with(head));
        let last = if refusal(&theirs[place]) == Some(Refusal::End) {
            place + 1
        } else {
            place - theirs[..place].iter().rev().take_while(caused).count()
        };
        theirs.truncate(last);
    }
    let ours = comparable(&ours.lines);
    let common = theirs.iter().zip(&ours).take_while(|(theirs, ours)| agree(theirs, ours)).count();
    if common < theirs.len() || (whole && common < ours.len()) {
        Verdict::Differ(common)
    } else if whole {
        Verdict::Agree
    } else {
        Verdict::AgreeUpTo(common)
    }
}

fn agree(theirs: &str, ours: &str) -> bool {
    if !matches!(refusal(theirs), Some(Refusal::OwnWords | Refusal::End)) {
        return theirs == ours;
    }
    theirs.split_once(": ").zip(ours.split_once(": ")).is_some_and(|(theirs, ours)| theirs.0 == ours.0)
}

/// How PyTorch's refusal is taken; `None` for any other line.
fn refusal(line: &str) -> Option<Refusal> {
    let (name, text) = refused(line)?;
    let same = [
        "invalid fraction",
        "invalid device pointer",
        "Could not find pool of id",
        "endAllocatePool: not currently recording",
        "Could not allocate CUDA storage at exact address",
        "mallocWithAddress: ",
        "cudaMallocAsync does not yet support",
        "Calling snapshot with backend:cudaMallocAsync",
        "cudaErrorStreamCapture",
        "CUDA error: out of memory",
        "Exact-address allocation is only supported",
        "Tensors allocated with expandable_segments:True cannot be shared",
        "Only one capture at a time",
    ];
    Some(if same.iter().any(|start| text.starts_with(start)) {
        Refusal::Same
    } else if (text.starts_with("it != graph_pools.end() INTERNAL ASSERT") && name.contains("pool"))
        || text == "CUDA driver error: fake driver error"
    {
        Refusal::OwnWords
    } else if text.contains("INTERNAL ASSERT") || matches!(name, "a" | "f" | "e" | "r" | "unuse" | "pool_end")
    {
        Refusal::Defect
    } else {
        Refusal::End
    })
}

/// The name of the command that a line says is refused, and why.
pub(crate) fn refused(line: &str) -> Option<(&str, &str)> {
    let (command, text) = line.strip_prefix("error ")?.split_once(": ")?;
    let name = command.split(' ').find(|word| *word != "t" && word.parse::<u32>().is_err());
    Some((name.unwrap_or_default(), text))
}

/// The lines, less what PyTorch leaves open.
///
/// When frees that wait for several streams complete at once, PyTorch takes them in the order of a hash table
/// whose keys are streams (`cuda_events`), and when it restores a checkpoint in one whose keys are blocks. One
/// build repeats that order, whatever the addresses are; nothing
/// promises it. The blocks end up the same, but the order of the `free_completed` entries does not, nor do the
/// steps by which neighbours merge: the peak and the two sums of `inactive_split` and `inactive_split_bytes`
/// depend on them. Until a trace first records a stream
/// nothing is deferred, and these have to agree too.
fn comparable(lines: &[String]) -> Vec<String> {
    let mut deferred = false;
    let lines = lines.iter().map(|line| {
        deferred |= line.starts_with("record ") || line.starts_with("restore ");
        let open = deferred && line.starts_with("stat inactive_split");
        let end = if open { line.find(" peak ") } else { None };
        line[..end.unwrap_or(line.len())].to_owned()
    });
    let mut lines: Vec<String> = lines.collect();
    for completed in ["trace free_completed ", "entry free_completed "] {
        let completed = |line: &String| line.starts_with(completed);
        lines.chunk_by_mut(|a, b| completed(a) && completed(b)).for_each(<[String]>::sort_unstable);
    }
    lines
}

#[cfg(test)]
mod tests;
