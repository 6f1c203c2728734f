//! Where two outputs differ, and what need not agree.

use std::collections::{HashMap, HashSet};

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
    /// PyTorch fails with `cudaMallocAsync` on a full device, of which ours says that nothing is free; both go on.
    NothingFree,
    /// Ours refuses too; what PyTorch does after it is not compared.
    End,
    /// PyTorch should not have refused.
    Defect,
}

/// Compares what PyTorch's program printed with what ours did.
pub(crate) fn compare(oracle: &Output, ours: &Output) -> Verdict {
    if oracle.lines.last().is_some_and(|line| line.starts_with("failed: exit status: 1:")) {
        // It did not understand the trace, which a smaller one may have made of a good one.
        return Verdict::AgreeUpTo(0);
    }
    let mut theirs = comparable(&oracle.lines);
    let ours = comparable(&ours.lines);
    let mut whole = !oracle.failed;
    let mut refused = None;
    if oracle.failed {
        // Its last line tells of the crash.
        theirs.pop();
    }
    let place = theirs.iter().position(|line| matches!(refusal(line), Some(Refusal::End | Refusal::Defect)));
    if let Some(place) = place {
        whole = false;
        if refusal(&theirs[place]) == Some(Refusal::End) {
            refused = Some(theirs[place].clone());
        }
        // PyTorch may have done half of it; ours refuses before it does anything.
        let effects = theirs[..place].iter().rev().take_while(|line| is_effect(line)).count();
        theirs.truncate(place - effects);
    }
    let common = theirs.iter().zip(&ours).take_while(|(theirs, ours)| agree(theirs, ours)).count();
    if common < theirs.len() || (whole && common < ours.len()) {
        let is_meant = disturbs_capture(&theirs, common)
            || forgets_use(&theirs, common)
            || refuses_restore(&ours, common)
            || miscounts_pool(&theirs, &ours, common)
            || leaves_stream_unjoined(&theirs, &ours, common)
            || asks_in_capture(&theirs, &ours, common);
        return if is_meant { Verdict::AgreeUpTo(common) } else { Verdict::Differ(common) };
    }
    let next = ours[common..].iter().find(|line| !is_effect(line));
    if refused.is_some_and(|refused| next.is_none_or(|next| !agree(&refused, next))) {
        Verdict::Differ(common)
    } else if whole {
        Verdict::Agree
    } else {
        Verdict::AgreeUpTo(common)
    }
}

/// A line of those that were compared; empty after the last.
pub(crate) fn line(output: &Output, number: usize) -> String {
    comparable(&output.lines).get(number).cloned().unwrap_or_default()
}

/// Whether PyTorch completes a free or gives memory back at this line, where ours does something else, while a
/// capture is under way. Ours leaves alone what a capturing stream uses or owns; PyTorch takes it, which spoils the
/// capture, or lets its replays race with whoever gets the block.
fn disturbs_capture(theirs: &[String], line: usize) -> bool {
    let takes = begins(theirs, line, &["trace free_completed ", "driver unmap ", "driver segment_free "]);
    // A pool's own allocator is called in the thread's mode, and the driver refuses it.
    let is_refused = line > 0 && begins(theirs, line - 1, &["own alloc "]);
    (takes || is_refused) && theirs[..line].iter().map(|line| captures_begun(line)).sum::<i32>() > 0
}

/// Whether at this line one of both asks the driver of `cudaMallocAsync` for something in a capture, or at its end, that
/// the other does not. PyTorch asks for what a graph cannot have or what spoils the capture, and ours waits for its end.
fn asks_in_capture(theirs: &[String], ours: &[String], line: usize) -> bool {
    let calls = ["driver graph_alloc ", "driver graph_free ", "driver async_release "];
    // The driver may refuse it what it tries to have.
    let trials = ["driver async_reserve ", "driver async_reserve_failed "];
    let is_trial = begins(theirs, line, &trials) && begins(ours, line, &["cache_info "]);
    (is_trial || begins(theirs, line, &calls) || begins(ours, line, &calls))
        && theirs[..line].iter().any(|line| captures_begun(line) > 0)
}

/// Whether a capture fails at this line because a block was freed in it that other streams used. The backend
/// `cudaMallocAsync` frees such blocks on a stream of its own, which nobody joins; ours on the block's stream.
fn leaves_stream_unjoined(theirs: &[String], ours: &[String], line: usize) -> bool {
    let unjoined = ": cudaErrorStreamCaptureUnjoined";
    let ended = theirs.get(line).and_then(|line| line.strip_prefix("error ")?.strip_suffix(unjoined));
    let Some(capture) = ended.and_then(|ended| ended.rsplit_once("capture_end ")).map(|(_, capture)| capture)
    else {
        return false;
    };
    if !begins(ours, line, &["capture_end "]) {
        return false;
    }
    let begin = format!("capture_begin {capture} ");
    let begun = theirs[..line].iter().rposition(|line| line.contains(&begin)).unwrap_or(line);
    let used: HashSet<&str> =
        theirs[..line].iter().filter_map(|line| line.strip_prefix("record ")?.split(' ').next()).collect();
    let freed_in_graph =
        theirs[begun..line].windows(2).filter(|two| two[0].starts_with("driver graph_free "));
    freed_in_graph.filter_map(|two| two[1].strip_prefix("free ")).any(|id| used.contains(id))
}

/// Whether ours refuses here to restore a block that other streams use, or into a segment of another stream. PyTorch
/// hands it out all the same.
fn refuses_restore(ours: &[String], line: usize) -> bool {
    let refused = ours.get(line).and_then(|line| refused(line));
    let reasons = ["that other streams use", "in the place of one of the state"];
    refused
        .is_some_and(|(name, text)| name == "restore" && reasons.iter().any(|reason| text.ends_with(reason)))
}

/// Whether PyTorch gives a pool's memory back at this line, names another pool than ours, or is out of memory with
/// another text, once it has miscounted a pool's. It counts the mappings of expandable segments less the unmappings, whatever their sizes: a pool is deleted
/// while some of its memory is mapped, or stays when none is, and the table by which pools are emptied has another
/// order then.
fn miscounts_pool(theirs: &[String], ours: &[String], line: usize) -> bool {
    let mut pools: HashMap<&str, (i64, i64)> = HashMap::new();
    let gives_back =
        theirs.get(line).and_then(|line| segment_entry(line)).is_some_and(|entry| entry.bytes < 0);
    let [their, our] = [theirs, ours].map(|lines| lines.get(line).and_then(|line| line.split_once(" pool ")));
    let names_another = their.zip(our).is_some_and(|(their, our)| their.0 == our.0);
    // The text says how much memory of pools is free.
    let are_out_of_memory = begins(theirs, line, &["oom "]) && begins(ours, line, &["oom "]);
    (gives_back || names_another || are_out_of_memory)
        && theirs[..line].iter().filter_map(|line| segment_entry(line)).any(|entry| {
            let (count, bytes) = pools.entry(entry.pool).or_default();
            *count += entry.bytes.signum();
            *bytes += entry.bytes;
            (*count <= 0) != (*bytes <= 0)
        })
}

/// A line of the history that says that a private pool got memory, or gave so many bytes back.
struct SegmentEntry<'a> {
    bytes: i64,
    pool: &'a str,
}

fn segment_entry(line: &str) -> Option<SegmentEntry<'_>> {
    let (entry, pool) = line.strip_prefix("trace segment_")?.split_once(" pool ")?;
    let mut words = entry.split(' ');
    let sign = match words.next()? {
        "alloc" | "map" => 1,
        _ => -1,
    };
    Some(SegmentEntry { bytes: sign * words.next()?.parse::<i64>().ok()?, pool })
}

/// Whether PyTorch completes a free at this line that ours does not, once a block has been freed that was
/// recorded in a capture. PyTorch keeps such uses by the address of its `Block`, also when the block is freed outside
/// captures; what comes to that address next loses its own uses of those streams.
fn forgets_use(theirs: &[String], line: usize) -> bool {
    if !begins(theirs, line, &["trace free_completed "]) {
        return false;
    }
    let (mut captures, mut recorded) = (0, HashSet::new());
    theirs[..line].iter().any(|line| {
        captures += captures_begun(line);
        match line.split_once(' ') {
            Some(("record", rest)) if captures > 0 => {
                recorded.extend(rest.split(' ').next());
                false
            }
            Some(("free", id)) => recorded.contains(id),
            _ => false,
        }
    })
}

/// Whether there is such a line, and it begins with one of these.
fn begins(lines: &[String], line: usize, starts: &[&str]) -> bool {
    lines.get(line).is_some_and(|line| starts.iter().any(|start| line.starts_with(start)))
}

/// How many captures more are under way after a line.
fn captures_begun(line: &str) -> i32 {
    match command_name(line) {
        "capture_begin" => 1,
        "capture_end" => -1,
        _ => 0,
    }
}

/// The name of a command, behind its thread.
fn command_name(command: &str) -> &str {
    command.split(' ').find(|word| *word != "t" && word.parse::<u32>().is_err()).unwrap_or_default()
}

/// Whether a line stands before that of the command that caused it.
fn is_effect(line: &str) -> bool {
    ["driver ", "trace ", "own "].iter().any(|head| line.starts_with(head))
}

fn agree(theirs: &str, ours: &str) -> bool {
    match refusal(theirs) {
        Some(Refusal::NothingFree) => ours.ends_with("cache_info 0"),
        Some(Refusal::OwnWords | Refusal::End) => theirs
            .split_once(": ")
            .zip(ours.split_once(": "))
            .is_some_and(|(theirs, ours)| theirs.0 == ours.0),
        Some(Refusal::Same | Refusal::Defect) | None => theirs == ours,
    }
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
    } else if name == "cache_info" && text.starts_with("CUDA error: fake cuda error") {
        Refusal::NothingFree
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
    Some((command_name(command), text))
}

/// The lines, less what PyTorch leaves open.
///
/// When frees that wait for several streams complete at once, PyTorch takes them in the order of a hash table
/// whose keys are streams (`cuda_events`), and when it restores a checkpoint in one whose keys are blocks. One
/// build repeats that order, whatever the addresses are; nothing promises it. The blocks end up the same, but the
/// order of the `free_completed` entries does not, nor that of a restore's entries, nor do the steps by which
/// neighbours merge: the peak and the two sums of `inactive_split` and `inactive_split_bytes` depend on them, and
/// after a restore all peaks. Until a trace first records a stream or restores, these have to agree too.
fn comparable(lines: &[String]) -> Vec<String> {
    let (mut deferred, mut restored) = (false, false);
    let lines = lines.iter().map(|line| {
        restored |= line.starts_with("restore ");
        deferred |= restored || line.starts_with("record ");
        let (all, peak) = line.split_once(" peak ").unwrap_or((line, ""));
        if deferred && line.starts_with("stat inactive_split") {
            return all.to_owned();
        }
        let sums = peak.split_once(' ').map_or("", |(_, sums)| sums);
        let open = restored && line.starts_with("stat ") && !peak.is_empty();
        if open { format!("{all} {sums}") } else { line.clone() }
    });
    let mut lines: Vec<String> = lines.collect();
    let completed = |line: &String| line.starts_with("trace free_completed ");
    lines.chunk_by_mut(|a, b| completed(a) && completed(b)).for_each(<[String]>::sort_unstable);
    if deferred {
        // A ring that is full has lost the first of them.
        lines.retain(|line| !line.trim_start().starts_with("entry free_completed "));
    }
    for place in 0..lines.len() {
        if lines[place].starts_with("restore ") {
            let entries = lines[..place].iter().rev().take_while(|line| line.starts_with("trace ")).count();
            lines[place - entries..place].sort_unstable();
        }
    }
    lines
}

#[cfg(test)]
mod tests;
