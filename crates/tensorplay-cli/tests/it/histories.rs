//! Histories made by hand, each with something that the real ones lack.

use serde_json::json;

use super::recording::{BASE, MIB, Recording, replay_json};

const SECOND: u64 = BASE + 256 * MIB;

#[test]
fn frees_that_wait_for_other_streams() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 2 * MIB, 512);
    recording.event("free_requested", BASE, 512);
    recording.alloc(BASE + 512, 512);
    recording.event("free_completed", BASE, 512);
    recording.alloc(BASE, 512);
    recording.ends_with(BASE, &[(512, 512), (512, 512), (0, 2 * MIB - 1024)]);
    insta::assert_snapshot!(recording.replay(&[]).compared(), @"3 of 3 + 0, segments 1 of 1 + 0");
}

#[test]
fn a_free_that_completes_when_the_cache_is_emptied() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 2 * MIB, 512);
    recording.alloc_segment(SECOND, 20 * MIB, 3 * MIB);
    recording.event("free_requested", BASE, 512);
    recording.free(SECOND, 3 * MIB);
    recording.event("free_completed", BASE, 512);
    recording.event("segment_free", SECOND, 20 * MIB);
    recording.event("segment_free", BASE, 2 * MIB);
    insta::assert_snapshot!(recording.replay(&[]).compared(), @"2 of 2 + 0, segments 4 of 4 + 0");
    // The large pool goes first.
    let mut swapped = Recording::new();
    swapped.alloc_segment(BASE, 2 * MIB, 512);
    swapped.alloc_segment(SECOND, 20 * MIB, 3 * MIB);
    swapped.free(BASE, 512);
    swapped.free(SECOND, 3 * MIB);
    swapped.event("segment_free", BASE, 2 * MIB);
    swapped.event("segment_free", SECOND, 20 * MIB);
    insta::assert_snapshot!(swapped.replay(&[]).compared(), @"
    2 of 2 + 0, segments 4 of 4 + 0
    event 8: the recording gave back a segment of 2097152 bytes at 0x7f0000000000, and the replay gave back a segment of 20971520 bytes at 0x7f0010000000
    ");
}

#[test]
fn a_free_that_completes_after_the_search_for_a_block_does_not_serve_it() {
    let history = |waits: bool| {
        let mut recording = Recording::new();
        recording.alloc_segment(BASE, 20 * MIB, 5 * MIB);
        recording.alloc(BASE + 5 * MIB, 15 * MIB);
        recording.event("free_requested", BASE, 5 * MIB);
        if waits {
            recording.event("annotate", 0, 0);
        }
        recording.event("free_completed", BASE, 5 * MIB);
        recording.alloc_segment(SECOND, 20 * MIB, 5 * MIB);
        recording.alloc(BASE, 5 * MIB);
        recording.ends_with(BASE, &[(5 * MIB, 5 * MIB), (15 * MIB, 15 * MIB)]);
        recording.ends_with(SECOND, &[(5 * MIB, 5 * MIB), (0, 15 * MIB)]);
        recording.replay(&[]).compared()
    };
    insta::assert_snapshot!(history(true), @"4 of 4 + 0, segments 2 of 2 + 0");
    // One that was free at once would have.
    insta::assert_snapshot!(history(false), @"
    2 of 4 + 0, segments 1 of 2 + 0
    event 6: the recording obtained a segment of 20971520 bytes at 0x7f0010000000, and the replay did not
    ");
}

#[test]
fn segments_that_went_back_one_by_one() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 20 * MIB, 20 * MIB);
    recording.alloc_segment(SECOND, 30 * MIB, 30 * MIB);
    recording.free(BASE, 20 * MIB);
    recording.free(SECOND, 30 * MIB);
    recording.event("segment_free", SECOND, 30 * MIB);
    recording.alloc(BASE, 20 * MIB);
    recording.ends_with(BASE, &[(20 * MIB, 20 * MIB)]);
    insta::assert_snapshot!(recording.replay(&[]).compared(), @"3 of 3 + 0, segments 3 of 3 + 0");
}

#[test]
fn a_segment_that_went_back_alone_after_a_free_had_waited() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 20 * MIB, 20 * MIB);
    recording.alloc_segment(SECOND, 30 * MIB, 30 * MIB);
    recording.free(BASE, 20 * MIB);
    recording.event("free_requested", SECOND, 30 * MIB);
    recording.event("snapshot", 0, 0);
    recording.event("free_completed", SECOND, 30 * MIB);
    recording.event("segment_free", SECOND, 30 * MIB);
    recording.ends_with(BASE, &[(0, 20 * MIB)]);
    insta::assert_snapshot!(recording.replay(&[]).compared(), @"2 of 2 + 0, segments 3 of 3 + 0");
}

#[test]
fn a_what_if_keeps_what_waits_for_other_streams() {
    let mut recording = Recording::new();
    for _ in 0..3 {
        recording.alloc_segment(BASE, 20 * MIB, 20 * MIB);
        recording.event("free_requested", BASE, 20 * MIB);
        recording.alloc_segment(SECOND, 20 * MIB, 20 * MIB);
        recording.event("free_completed", BASE, 20 * MIB);
        recording.free(SECOND, 20 * MIB);
        recording.event("segment_free", BASE, 20 * MIB);
        recording.event("segment_free", SECOND, 20 * MIB);
        recording.event("snapshot", 0, 0);
    }
    let tried = recording.replay(&["--device-memory", "1GiB"]);
    assert_eq!(tried.replay(0)["peaks"]["reserved_bytes"], 40 * MIB);
    assert_eq!(tried.replay(0)["peaks"]["allocated_bytes"], 20 * MIB);
    assert_eq!(tried.replay(0)["peaks"]["active_bytes"], 40 * MIB);
}

#[test]
fn a_segment_that_is_in_use_cannot_have_gone_back() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 2 * MIB, 512);
    // Our allocator puts it behind the first.
    recording.alloc_segment(SECOND, 2 * MIB, 512);
    recording.free(BASE, 512);
    recording.event("segment_free", BASE, 2 * MIB);
    // What is there in the replay still, in a segment of another size.
    recording.alloc_segment(BASE, 20 * MIB, 3 * MIB);
    recording.ends_with(SECOND, &[(512, 512), (0, 2 * MIB - 512)]);
    recording.ends_with(BASE, &[(3 * MIB, 3 * MIB), (0, 17 * MIB)]);
    insta::assert_snapshot!(recording.replay(&[]).compared(), @"
    1 of 3 + 0, segments 1 of 4 + 0
    event 3: the recording obtained a segment of 2097152 bytes at 0x7f0010000000, and the replay did not
    ");
}

#[test]
fn streams_are_emptied_in_the_order_of_their_numbers() {
    let mut recording = Recording::new();
    recording.stream(0x200);
    recording.alloc_segment(BASE, 20 * MIB, 3 * MIB);
    recording.free(BASE, 3 * MIB);
    recording.stream(0x100);
    recording.alloc_segment(SECOND, 20 * MIB, 3 * MIB);
    recording.free(SECOND, 3 * MIB);
    recording.event("segment_free", SECOND, 20 * MIB);
    recording.stream(0x200);
    recording.event("segment_free", BASE, 20 * MIB);
    insta::assert_snapshot!(recording.replay(&[]).compared(), @"2 of 2 + 0, segments 4 of 4 + 0");
}

#[test]
fn several_devices_have_their_numbers() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 2 * MIB, 512);
    recording.ends_with(BASE, &[(512, 512), (0, 2 * MIB - 512)]);
    recording.next_device();
    recording.next_device();
    recording.alloc_segment(BASE, 20 * MIB, 3 * MIB);
    recording.ends_with(BASE, &[(3 * MIB, 3 * MIB), (0, 17 * MIB)]);
    let replayed = recording.replay(&[]);
    insta::assert_snapshot!(replayed.compared(), @"
    1 of 1 + 0, segments 1 of 1 + 0
    1 of 1 + 0, segments 1 of 1 + 0
    ");
    assert_eq!(replayed.report["devices"][1]["recording"]["device"], 2);
    let summary = replayed.replay(1)["memory_summary"].as_str().unwrap();
    assert!(summary.contains("device ID 2"), "{summary}");
    let refused = recording.replay(&["--device-memory", "2MiB"]);
    assert!(refused.replay(0)["out_of_memory"].is_null());
    let message = refused.replay(1)["out_of_memory"]["message"].as_str().unwrap();
    assert!(message.contains("GPU 2 has a total capacity of 2.00 MiB"), "{message}");
}

#[test]
fn private_pools_are_kept_apart_and_not_compared() {
    let mut recording = Recording::new();
    recording.pool([0, 0]);
    recording.alloc_segment(BASE, 2 * MIB, 512);
    recording.pool([0, 1]);
    recording.alloc_segment(SECOND, 2 * MIB, 512);
    recording.free(SECOND, 512);
    recording.pool([0, 0]);
    // Not at the free block of the private pool.
    recording.alloc(BASE + 512, 512);
    recording.ends_with(BASE, &[(512, 512), (512, 512), (0, 2 * MIB - 1024)]);
    recording.pool([0, 1]);
    recording.ends_with(SECOND, &[(0, 2 * MIB)]);
    let replayed = recording.replay(&[]);
    insta::assert_snapshot!(replayed.compared(), @"2 of 2 + 1, segments 1 of 1 + 1");
    insta::assert_snapshot!(replayed.replay(0)["notes"], @r#"["The recording has private pools, of graphs or of `MemPool`. Each is replayed as a stream of its own; what it does is not compared."]"#);

    // Where the events do not name their pools, addresses tell. What they get wrong is no difference.
    let json = recording.json().replace(r#","pool_id":[0,0]"#, "").replace(r#""pool_id":[0,0],"#, "");
    let json = json.replace(r#","pool_id":[0,1]"#, "").replace(r#""pool_id":[0,1],"#, "");
    assert!(!json.contains("\"pool_id"));
    insta::assert_snapshot!(replay_json(&json, &[]).compared(), @"2 of 2 + 1, segments 1 of 1 + 1");
}

#[test]
fn expandable_segments_grow_and_shrink_as_recorded() {
    let mut recording = Recording::new();
    recording.setting("expandable_segments", json!(true));
    recording.setting("PYTORCH_CUDA_ALLOC_CONF", json!("expandable_segments:True"));
    recording.event("segment_map", BASE, 2 * MIB);
    recording.alloc(BASE, 512);
    recording.free(BASE, 512);
    recording.event("segment_unmap", BASE, 2 * MIB);
    let replayed = recording.replay(&[]);
    insta::assert_snapshot!(replayed.compared(), @"1 of 1 + 0, segments 2 of 2 + 0");
    assert_eq!(replayed.report["devices"][0]["recording"]["configuration"], "expandable_segments:True");
    let replay = &replayed.replay(0)["configuration"];
    assert_eq!(*replay, "expandable_segments:True", "what was replayed is said");
}

#[test]
fn a_running_process_leaves_open_what_it_does_not_record() {
    // A block that is only seen being freed: of its size no more is known than that it held 3 MiB.
    let mut recording = Recording::new();
    recording.free(BASE, 3 * MIB);
    recording.alloc(BASE, 4 * MIB);
    recording.ends_with(BASE, &[(4 * MIB, 4 * MIB), (0, 16 * MIB)]);
    insta::assert_snapshot!(recording.replay(&[]).compared(), @"1 of 1 + 0, segments 0 of 0 + 0");
}

#[test]
fn either_order_of_equals_is_found() {
    // Two free blocks of one size: the older one at the higher address.
    let history = |third: u64| {
        let mut recording = Recording::new();
        recording.alloc_segment(SECOND, 2 * MIB, MIB);
        recording.alloc(SECOND + MIB, MIB);
        recording.alloc_segment(BASE, 2 * MIB, MIB);
        recording.alloc(BASE + MIB, MIB);
        recording.free(SECOND, MIB);
        recording.free(BASE, MIB);
        recording.alloc(third, MIB);
        for address in [BASE, SECOND] {
            let first = if address == third { MIB } else { 0 };
            recording.ends_with(address, &[(first, MIB), (MIB, MIB)]);
        }
        let replayed = recording.replay(&[]);
        assert_eq!(replayed.code, 0, "{replayed:?}");
        replayed.replay(0)["order_of_equals"].clone()
    };
    assert_eq!(history(SECOND), "registration");
    assert_eq!(history(BASE), "address");
}

#[test]
fn the_configuration_is_the_files_or_is_read_off_the_history() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 32 * MIB, 3 * MIB);
    recording.ends_with(BASE, &[(3 * MIB, 3 * MIB), (0, 29 * MIB)]);
    let replayed = recording.replay(&[]);
    insta::assert_snapshot!(replayed.compared(), @"
    1 of 1 + 0, segments 0 of 1 + 0
    event 1: the recording obtained a segment of 33554432 bytes at 0x7f0000000000, and the replay obtained a segment of 20971520 bytes at 0x7f0000000000
    ");

    recording.setting("PYTORCH_CUDA_ALLOC_CONF", json!("large_segment_size_mb:32"));
    let replayed = recording.replay(&[]);
    assert_eq!(
        (replayed.code, &replayed.replay(0)["configuration"]),
        (0, &json!("large_segment_size_mb:32"))
    );

    recording.no_settings();
    let replayed = recording.replay(&[]);
    assert_eq!(
        (replayed.code, &replayed.replay(0)["configuration"]),
        (0, &json!("large_segment_size_mb:32"))
    );
    insta::assert_snapshot!(replayed.replay(0)["notes"], @r#"["The file does not say how the allocator was configured.","Its segments for middling requests are of 32 MiB."]"#);

    recording.setting("PYTORCH_CUDA_ALLOC_CONF", json!("of_the_future:1"));
    let replayed = recording.replay(&[]);
    assert_eq!(replayed.code, 1);
    insta::assert_snapshot!(replayed.replay(0)["notes"], @r#"["The recorded configuration text 'of_the_future:1' is not read: Unrecognized key 'of_the_future' in CUDA allocator config."]"#);
}

#[test]
fn limits_of_the_recorded_configuration_do_not_stop_a_comparison() {
    let mut recording = Recording::new();
    let conf =
        "per_process_memory_fraction:0.0,throw_on_cudamalloc_oom:True,garbage_collection_threshold:0.1";
    recording.setting("PYTORCH_CUDA_ALLOC_CONF", json!(conf));
    recording.alloc_segment(BASE, 2 * MIB, 512);
    recording.ends_with(BASE, &[(512, 512), (0, 2 * MIB - 512)]);
    assert_eq!(recording.replay(&[]).code, 0);
    let tried = recording.replay(&["--device-memory", "1GiB"]);
    assert_eq!(tried.code, 1, "a what-if has them");
}

#[test]
fn a_request_that_was_refused_is_tried_in_a_what_if() {
    let mut recording = Recording::new();
    recording.alloc_segment(BASE, 20 * MIB, 20 * MIB);
    recording.event("oom", 0, 100 * MIB);
    recording.free(BASE, 20 * MIB);
    recording.event("segment_free", BASE, 20 * MIB);
    assert_eq!(recording.replay(&[]).code, 0);
    let small = recording.replay(&["--device-memory", "100MiB"]);
    assert_eq!((small.code, &small.replay(0)["out_of_memory"]["event"]), (1, &json!(2)));
    let large = recording.replay(&["--device-memory", "120MiB"]);
    assert_eq!(large.code, 0);
    assert_eq!(large.replay(0)["peaks"]["allocated_bytes"], 120 * MIB);
    assert_eq!(large.replay(0)["peaks"]["reserved_bytes"], 120 * MIB);
}

#[test]
fn a_what_if_empties_the_cache_where_the_program_did() {
    let mut recording = Recording::new();
    for _ in 0..2 {
        recording.alloc_segment(BASE, 20 * MIB, 20 * MIB);
        recording.free(BASE, 20 * MIB);
        recording.event("segment_free", BASE, 20 * MIB);
        recording.event("snapshot", 0, 0);
    }
    let summary = recording.replay(&["--conf", ""]).replay(0)["memory_summary"].clone();
    let segments = summary.as_str().unwrap().lines().find(|line| line.contains("reserved segments")).unwrap();
    assert_eq!(segments, "| GPU reserved segments |       0    |       1    |       2    |       2    |");
}

#[test]
fn what_was_live_at_the_start_may_not_fit() {
    let mut recording = Recording::new();
    recording.free(BASE, 30 * MIB);
    recording.ends_with(BASE, &[(0, 30 * MIB)]);
    let tried = recording.replay(&["--device-memory", "16MiB"]);
    assert_eq!((tried.code, &tried.replay(0)["out_of_memory"]["event"]), (1, &json!(null)));
    assert_eq!(tried.replay(0)["out_of_memory"]["requested_bytes"], 30 * MIB);
    assert_eq!(recording.replay(&["--device-memory", "32MiB"]).code, 0);
}
