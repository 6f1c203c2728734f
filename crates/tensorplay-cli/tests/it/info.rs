//! `tensorplay info`, help and arguments.

use super::*;

#[test]
fn info_says_what_was_looked_for() {
    let output = run(&["info"]);
    assert!(output.status.success());
    let text = stdout(&output);
    assert!(text.starts_with(&format!("tensorplay {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("simulated CUDA devices"), "{text}");
    assert!(text.contains("looked for in"), "{text}");
    assert!(text.contains("settings                             PyTorch's defaults"), "{text}");
}

#[test]
fn info_shows_the_configuration_of_the_environment() {
    let conf = "max_split_size_mb:64,roundup_power2_divisions:[1:4,>:2],garbage_collection_threshold:0.8,\
        large_segment_size_mb:32,max_non_split_rounding_mb:40,expandable_segments:True,\
        expandable_segments_reserve:64G,expandable_segments_reserve_by_class:[a:0.5],per_process_memory_fraction:0.5,\
        throw_on_cudamalloc_oom:True,release_lock_on_cudamalloc:True,graph_capture_record_stream_reuse:True,\
        backend:cudaMallocAsync,pinned_use_cuda_host_register:True,pinned_num_register_threads:8,\
        pinned_use_background_threads:True,pinned_reserve_segment_size_mb:1,pinned_max_round_threshold_mb:2,\
        pinned_max_cached_size_mb:3,pinned_free_catch_all:True";
    let output = tensorplay()
        .arg("info")
        .env("PYTORCH_ALLOC_CONF", conf)
        .env("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
        .output()
        .unwrap();
    let text = stdout(&output);
    let (_, text) = text.split_once("Allocator configuration\n").unwrap();
    let (_, settings) = text.split_once('\n').unwrap();
    insta::assert_snapshot!(settings, @"
    backend                              cudaMallocAsync
    large_segment_size_mb                32
    max_split_size_mb                    64
    max_non_split_rounding_mb            40
    garbage_collection_threshold         0.8
    roundup_power2_divisions             [1:4,2:2,4:2,8:2,16:2,32:2,64:2,128:2,256:2,512:2,1024:2,2048:2,4096:2,8192:2,16384:2,32768:2]
    expandable_segments                  True
    expandable_segments_reserve          64G
    expandable_segments_reserve_by_class [a:0.5]
    release_lock_on_cudamalloc           True
    per_process_memory_fraction          0.5
    throw_on_cudamalloc_oom              True
    graph_capture_record_stream_reuse    True
    pinned_use_cuda_host_register        True
    pinned_num_register_threads          8
    pinned_use_background_threads        True
    pinned_reserve_segment_size_mb       1
    pinned_max_round_threshold_mb        2
    pinned_max_cached_size_mb            3
    pinned_free_catch_all                True
    PYTORCH_NO_CUDA_MEMORY_CACHING       1: nothing is cached
                                         a replay of a snapshot takes its own from the file, or from --conf
    ");
}

#[test]
fn a_wrong_configuration_in_the_environment_ends_with_2() {
    let output = tensorplay().arg("info").env("PYTORCH_CUDA_ALLOC_CONF", "no_such_key:1").output().unwrap();
    insta::assert_snapshot!(complaint(&output), @"error: PYTORCH_CUDA_ALLOC_CONF: Unrecognized key 'no_such_key' in CUDA allocator config.");
}

#[test]
fn info_finds_a_driver_library_where_the_loader_would() {
    if cfg!(windows) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so.1");
    std::fs::write(&library, "").unwrap();
    let output = tensorplay().arg("info").env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let line = format!("libcuda.so.1{:25}{}", "", library.display());
    assert!(stdout(&output).contains(&line), "{output:?}");
}

#[test]
fn wrong_arguments_end_with_2_and_help_with_0() {
    for args in [&["fly"][..], &["replay"], &["replay", "a", "b"], &["replay", "--format", "xml", "a"], &[]] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    for args in [&["--help"][..], &["--version"], &["replay", "--help"]] {
        let output = run(args);
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}");
    }
}
