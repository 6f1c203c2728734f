//! `tensorplay replay --ops FILE --oracle`: the lines of PyTorch's own allocator.

use std::path::{Path, PathBuf};

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/oracle")
}

/// The command over a trace, with nothing else said.
fn oracle(trace: &Path) -> Command {
    let mut command = tensorplay();
    command.args(["replay", "--oracle", "--ops"]).arg(trace);
    command
}

/// The lines for a trace of these commands.
fn lines_of(commands: &str, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("commands.trace");
    std::fs::write(&file, commands).unwrap();
    let output = oracle(&file).args(options).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    stdout(&output)
}

/// The same without the statistics.
fn answers(commands: &str) -> String {
    let lines = lines_of(commands, &["--device-memory", "64MiB", "--conf", ""]);
    lines.lines().filter(|line| !line.starts_with("stat ")).map(|line| format!("{line}\n")).collect()
}

/// Why a trace of these commands is refused.
fn refusal(commands: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.trace");
    std::fs::write(&file, commands).unwrap();
    let complaint = complaint(&oracle(&file).output().unwrap());
    complaint.split_once("bad.trace: ").unwrap().1.trim_end().to_owned()
}

/// A value of a recorded trace's head, if it is there.
fn head(trace: &str, key: &str) -> Option<String> {
    let line = trace.lines().find_map(|line| line.strip_prefix(&format!("# {key}:")));
    line.map(|line| line.trim().to_owned())
}

/// The lines, less what PyTorch leaves open: the steps by which blocks merge whose frees wait for several streams
/// and complete at once, and the order in which a restore frees, follow hash tables, and these statistics count
/// them.
fn comparable(lines: &str) -> Vec<String> {
    let (mut deferred, mut restored) = (false, false);
    let lines = lines.lines().map(|line| {
        restored |= line.starts_with("restore ");
        deferred |= restored || line.starts_with("record ");
        let (all, peak) = line.split_once(" peak ").unwrap_or((line, ""));
        if deferred && line.starts_with("stat inactive_split") {
            return all.to_owned();
        }
        let sums = peak.split_once(' ').map_or("", |(_, sums)| sums);
        let open = restored && line.starts_with("stat ") && !peak.is_empty();
        if open { format!("{all} {sums}") } else { line.to_owned() }
    });
    lines.collect()
}

#[test]
fn recorded_answers_of_pytorch_are_given_again() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "trace") {
            continue;
        }
        let trace = std::fs::read_to_string(&file).unwrap();
        let expected = std::fs::read_to_string(file.with_extension("expected")).unwrap();
        let (conf, memory) = (head(&trace, "conf").unwrap(), head(&trace, "device-memory").unwrap());
        let mut command = oracle(&file);
        command.args(["--conf", &conf, "--device-memory", &memory]);
        command.env("FAKE_CUDA_DEVICES", head(&trace, "devices").unwrap_or("1".into()));
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", file.display());
        let ours = stdout(&output);
        let (ours, expected) = (comparable(&ours), comparable(&expected));
        let place = ours.iter().zip(&expected).position(|(ours, expected)| ours != expected);
        if let Some(place) = place {
            panic!("{}, line {place}: {:?}, and PyTorch {:?}", file.display(), ours[place], expected[place]);
        }
        assert_eq!(ours.len(), expected.len(), "{}", file.display());
        count += 1;
    }
    assert_eq!(count, 88, "the traces are there");
}

#[test]
fn each_command_has_its_answer() {
    insta::assert_snapshot!(answers(
        "# a comment\n\
         \n\
         a 1 512 0   # small\n\
         a 2 20971520 1\n\
         r 2 0\n\
         r 9 0\n\
         base 2\n\
         base 9\n\
         \x20 f  2\n\
         s 0\n\
         f 2 twice\n\
         e\n\
         cache_info\n\
         fraction\n\
         m 1.5\n\
         m 0.25\n\
         a 3 20971520 0\n\
         a 4 0 0:2\n\
         base 4\n\
         f 4\n\
         a 5 1152921504606846976 0\n\
         S\n\
         reset_peak\n\
         reset_accumulated\n\
         f 1\n\
         enable 0\n\
         a 6 1000 0\n\
         r 6 1\n\
         enable 1\n\
         f 6\n"
    ), @"
    driver segment_alloc 2097152 seg0+0
    alloc 1 512 block 512 at seg0+0
    driver segment_alloc 20971520 seg1+0
    alloc 2 20971520 block 20971520 at seg1+0
    record 2 0
    skip 9 0
    base 2 seg1+0 size 20971520
    skip base 9
    free 2
    complete 0
    skip f 2 twice
    driver segment_free 20971520 seg1+0
    empty_cache
    cache_info 65011712
    fraction 1.000000
    error m 1.5: invalid fraction:1.5. Please set within [0, 1].
    memory_fraction 0.25
    oom 3 20971520 CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which 62.00 MiB is free. 16.00 MiB allowed; Of the allocated memory 512 bytes is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)
    alloc 4 0 block 0 at -
    error base 4: invalid device pointer: 0
    free 4
    oom 5 1152921504606846976 CUDA out of memory. Tried to allocate more than 1EB memory.
    complete all
    reset_peak
    reset_accumulated
    free 1
    enable 0
    driver segment_alloc 1000 seg2+0
    alloc 6 1000 block 0 at seg2+0
    record 6 1
    enable 1
    driver segment_free 2097152 seg2+0
    free 6
    ");
}

#[test]
fn the_allocators_own_trace_stands_among_the_drivers_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    let commands = "a 1 20000000 0\na 2 20000000 0\nr 2 1\nf 2\na 3 30000000 0\nf 1\na 4 45000000 0\n";
    std::fs::write(&file, commands).unwrap();
    let mut command = oracle(&file);
    let output = command.env("TORCH_REPLAY_TRACE", "1").env("FAKE_CUDA_TOTAL_BYTES", "67108864").output();
    let lines = stdout(&output.unwrap());
    let lines: Vec<_> = lines.lines().filter(|line| !line.starts_with("stat ")).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    driver segment_alloc 20971520 seg0+0
    trace segment_alloc 20971520 seg0+0
    trace alloc 20000000 seg0+0
    alloc 1 20000000 block 20971520 at seg0+0
    driver segment_alloc 20971520 seg1+0
    trace segment_alloc 20971520 seg1+0
    trace alloc 20000000 seg1+0
    alloc 2 20000000 block 20971520 at seg1+0
    record 2 1
    trace free_requested 20000000 seg1+0
    free 2
    driver segment_alloc_failed 31457280 -
    trace free_completed 20000000 seg1+0
    trace segment_free 20971520 seg1+0
    driver segment_free 20971520 seg1+0
    driver segment_alloc 31457280 seg2+0
    trace segment_alloc 31457280 seg2+0
    trace alloc 30000000 seg2+0
    alloc 3 30000000 block 30000128 at seg2+0
    trace free_requested 20000000 seg0+0
    trace free_completed 20000000 seg0+0
    free 1
    driver segment_alloc_failed 46137344 -
    trace segment_free 20971520 seg0+0
    driver segment_free 20971520 seg0+0
    driver segment_alloc_failed 46137344 -
    trace oom 45000192 -
    oom 4 45000000 CUDA out of memory. Tried to allocate 44.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which 34.00 MiB is free. Of the allocated memory 28.61 MiB is allocated by PyTorch, and 1.39 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)
    ");
}

#[test]
fn without_caching_the_driver_speaks() {
    insta::assert_snapshot!(answers(
        "enable 0\n\
         a 1 2097152 0\n\
         a 2 100 0\n\
         base 2\n\
         \x20a 3 67108864 0 \n\
         a 4 1152921504606846976 0\n"
    ), @"
    enable 0
    driver segment_alloc 2097152 seg0+0
    alloc 1 2097152 block 0 at seg0+0
    driver segment_alloc 100 seg1+0
    alloc 2 100 block 0 at seg1+0
    error base 2: invalid device pointer: 0x100000200000
    driver segment_alloc_failed 67108864 -
    error a 3 67108864 0: CUDA error: out of memory Search for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information. 
    oom 4 1152921504606846976 CUDA out of memory. Tried to allocate more than 1EB memory.
    ");
}

#[test]
fn statistics_stand_where_they_are_asked_for_and_at_the_end() {
    let lines = lines_of("p\na 1 512 0\n", &[]);
    let starts: Vec<_> = lines.lines().filter(|line| line.starts_with("stat allocation.all")).collect();
    insta::assert_snapshot!(starts.join("\n"), @"
    stat allocation.all current 0 peak 0 allocated 0 freed 0
    stat allocation.all current 1 peak 1 allocated 1 freed 0
    ");
}

#[test]
fn malformed_traces_are_refused_whole() {
    let texts = [
        "a 1 512 0\na 1 512 0",
        "a 1 512",
        "a 1 512 0\n\nf",
        "a one 512 0",
        "a 1 -5 0",
        "a 1 99999999999999999999 0",
        "a 1 512 33",
        "a 1 512 1:0",
        "d 1",
        "t 1 t 2 e",
        "t 1",
        "pool_begin 1 some",
        "capture_begin 0 1",
        "capture_begin 1 1 quietly",
        "pool_live 1 x",
        "pool_count 1.x",
        "k 0:0:1",
        "a 99999999999999999999 1 0",
        "m much",
        "m nan",
        "enable 2",
        "explode",
        "A 1 512 0",
        "\u{1b}[31m",
        "f 1\0",
    ];
    let complaints: Vec<_> = texts.into_iter().map(refusal).collect();
    insta::assert_snapshot!(complaints.join("\n"), @r#"
    line 2: the id 1 is live already
    line 1: "a" lacks its STREAM
    line 3: "f" lacks its ID
    line 1: the ID "one" is not a whole number
    line 1: the SIZE "-5" is not a number of bytes
    line 1: the SIZE "99999999999999999999" is not a number of bytes
    line 1: the STREAM "33" is not one of 0 to 32
    line 1: there is no device 1
    line 1: there is no device 1
    line 1: a thread cannot run a command on another thread
    line 1: "t" lacks its COMMAND
    line 1: the STREAM "some" is not one of 0 to 32
    line 1: the default stream cannot be captured
    line 1: "quietly" is not global, thread_local or relaxed
    line 1: the ID "x" is not a whole number
    line 1: "1.x" is no pool, such as 3 or 3.0
    line 1: the STREAM "0:0:1" is not one of 0 to 32
    line 1: the ID "99999999999999999999" is not a whole number
    line 1: the FRACTION "much" is not a number
    line 1: the FRACTION "nan" is not a number
    line 1: "2" is not 0 or 1
    line 1: "explode" is no command
    line 1: "A" is no command
    line 1: "\u{1b}[31m" is no command
    line 1: the ID "1\0" is not a whole number
    "#);
}

#[test]
fn commands_of_pools_streams_and_threads_have_their_answers() {
    insta::assert_snapshot!(answers(
        "mempool 1 no_split\n\
         use 1\n\
         a 1 1000 0\n\
         t 1 a 2 1000 0\n\
         t 1 f 9\n\
         unuse 1\n\
         pool_count 1\n\
         pool_live 1 1\n\
         pool_live 1 9\n\
         pool_live 3\n\
         checkpoint A 1\n\
         restore A 10\n\
         restore B 20\n\
         capture_begin 1 2.0 relaxed\n\
         k 1\n\
         w 2 1\n\
         k 2\n\
         capture_end 1\n\
         capture_end 1\n\
         pool_begin 2.0 all\n\
         pool_begin 2.0 all\n\
         pool_end 7\n\
         at 3 512 0 2 1024\n\
         at 4 512 0 2 100\n\
         history 2 alloc\n\
         f 10\n\
         snapshot 1\n"
    ), @"
    mempool 1 no_split
    use 1
    driver segment_alloc 2097152 seg0+0
    alloc 1 1000 block 2097152 at seg0+0
    driver segment_alloc 2097152 seg1+0
    alloc 2 1000 block 1024 at seg1+0
    skip  f 9
    unuse 1
    pool_count 1 1
    pool_live 1 1 yes
    skip pool_live 1 9
    error pool_live 3: Could not find pool of id
    checkpoint A 1
    restore A 10
    freed 1
    restored 10 at seg0+0
    skip restore B 20
    capture_begin 1 2.0 relaxed
    k 1
    w 2 1
    k 2
    error capture_end 1: cudaErrorStreamCaptureUnjoined
    skip capture_end 1
    pool_begin 2.0 all
    error pool_begin 2.0 all: beginAllocateToPool: already recording to mempool_id
    error pool_end 7: endAllocatePool: not currently recording to mempool_id
    error at 3 512 0 2 1024: Could not allocate CUDA storage at exact address 0x100000200400
    error at 4 512 0 2 100: mallocWithAddress: addr must be aligned to kMinBlockSize (512 bytes), got 0x100000200064
    history 2 alloc
    free 10
    snapshot 1
    segment seg0+0 device 0 pool 1 stream 0 small total 2097152 allocated 0 active 0 requested 0
    block seg0+0 size 2097152 inactive
    entry free_requested 2097152 stream 0 pool 1
    entry free_completed 2097152 stream 0 pool 1
    ");
}

#[test]
fn files_that_are_no_text_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    assert!(complaint(&oracle(&file).output().unwrap()).contains("t: No such file"));
    std::fs::write(&file, b"e\na 1 \xff 0").unwrap();
    assert!(complaint(&oracle(&file).output().unwrap()).contains("t: line 2: is not UTF-8 text"));
    assert!(complaint(&oracle(folder.path()).output().unwrap()).contains("irectory"));
}

#[test]
fn the_environment_says_what_the_options_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t");
    std::fs::write(&file, "a 1 2097152 0\na 2 67108864 0\n").unwrap();
    let first_lines = |command: &mut Command| {
        let output = command.output().unwrap();
        let text = stdout(&output);
        text.lines().take(2).map(|line| line[..line.len().min(48)].to_owned()).collect::<Vec<_>>().join("; ")
    };
    let mut texts = Vec::new();
    let mut with = |variables: &[(&str, &str)], options: &[&str]| {
        texts.push(first_lines(oracle(&file).envs(variables.iter().copied()).args(options)));
    };
    with(&[], &[]);
    with(&[("PYTORCH_ALLOC_CONF", "large_segment_size_mb:64")], &[]);
    with(&[("PYTORCH_CUDA_ALLOC_CONF", "large_segment_size_mb:32"), ("PYTORCH_ALLOC_CONF", "no:1")], &[]);
    with(&[("PYTORCH_ALLOC_CONF", "large_segment_size_mb:64")], &["--conf", "large_segment_size_mb:16"]);
    with(&[("FAKE_CUDA_TOTAL_BYTES", "10000000")], &[]);
    with(&[("FAKE_CUDA_TOTAL_BYTES", "0x989680")], &[]);
    with(&[("FAKE_CUDA_TOTAL_BYTES", "10000000")], &["--device-memory", "1GiB"]);
    with(&[], &["--device-memory", "0"]);
    with(&[("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")], &[]);
    with(&[("PYTORCH_NO_CUDA_MEMORY_CACHING", "0")], &[]);
    insta::assert_snapshot!(texts.join("\n"), @"
    driver segment_alloc 20971520 seg0+0; alloc 1 2097152 block 2097152 at seg0+0
    driver segment_alloc 67108864 seg0+0; alloc 1 2097152 block 2097152 at seg0+0
    driver segment_alloc 33554432 seg0+0; alloc 1 2097152 block 2097152 at seg0+0
    driver segment_alloc 16777216 seg0+0; alloc 1 2097152 block 2097152 at seg0+0
    driver segment_alloc_failed 20971520 -; driver segment_alloc_failed 20971520 -
    driver segment_alloc_failed 20971520 -; driver segment_alloc_failed 20971520 -
    driver segment_alloc 20971520 seg0+0; alloc 1 2097152 block 2097152 at seg0+0
    driver segment_alloc_failed 20971520 -; driver segment_alloc_failed 20971520 -
    driver segment_alloc 2097152 seg0+0; alloc 1 2097152 block 0 at seg0+0
    driver segment_alloc 20971520 seg0+0; alloc 1 2097152 block 2097152 at seg0+0
    ");

    let refused =
        |variable: &str, value: &str| complaint(&oracle(&file).env(variable, value).output().unwrap());
    let complaints = [
        refused("PYTORCH_ALLOC_CONF", "no_such_key:1"),
        refused("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:5"),
        refused("FAKE_CUDA_TOTAL_BYTES", "64MiB"),
        refused("FAKE_CUDA_TOTAL_BYTES", "0xffffffffffffffff"),
    ];
    insta::assert_snapshot!(complaints.concat(), @r#"
    error: PYTORCH_ALLOC_CONF: Unrecognized key 'no_such_key' in CUDA allocator config.
    error: PYTORCH_CUDA_ALLOC_CONF: CachingAllocator option max_split_size_mb too small, must be >= 20
    error: FAKE_CUDA_TOTAL_BYTES is "64MiB", and not a number of bytes
    error: FAKE_CUDA_TOTAL_BYTES: 16777216.00 TiB is more than 64.00 TiB, the most that is simulated
    "#);
}
