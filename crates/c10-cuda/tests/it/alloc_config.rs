//! Settings: the text form, the plain struct, the environment.

use std::collections::HashMap;

use c10_cuda::driver::sim::{SimConfig, SimDriver};
use c10_cuda::{
    Backend, CachingAllocator, Config, ErrorKind, PinnedConfig, Placement, Reserve, RoundupPower2Divisions,
};
use proptest::prelude::*;

use crate::mutations::mutated;
use crate::rig::{MIB, Rig};
use crate::rng::Rng;

#[track_caller]
fn parse(text: &str) -> Config {
    Config::parse(text).unwrap()
}

#[track_caller]
fn refused(text: &str) -> String {
    let error = Config::parse(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{text}");
    error.to_string()
}

#[test]
fn every_key_sets_its_field() {
    let default = Config::default;
    let pinned = PinnedConfig::default;
    let table = [
        ("", default()),
        ("backend:native", default()),
        ("backend:cudaMallocAsync", Config { backend: Backend::CudaMallocAsync, ..default() }),
        ("max_split_size_mb:20", Config { max_split_size: Some(20 * MIB), ..default() }),
        ("max_non_split_rounding_mb:64", Config { max_non_split_rounding_size: 64 * MIB, ..default() }),
        (
            "large_segment_size_mb:11",
            Config { large_segment_size: 11 * MIB, max_non_split_rounding_size: 11 * MIB, ..default() },
        ),
        ("garbage_collection_threshold:0.8", Config { garbage_collection_threshold: 0.8, ..default() }),
        (
            "roundup_power2_divisions:4",
            Config { roundup_power2_divisions: RoundupPower2Divisions::new([4; 16]).unwrap(), ..default() },
        ),
        ("expandable_segments:True", Config { expandable_segments: true, ..default() }),
        (
            "expandable_segments_reserve:0.5",
            Config { expandable_segments_reserve: Some(Reserve::Fraction(0.5)), ..default() },
        ),
        (
            "expandable_segments_reserve:64G",
            Config { expandable_segments_reserve: Some(Reserve::Bytes(64 << 30)), ..default() },
        ),
        (
            "expandable_segments_reserve_by_class:[comm:2g,side:1.5]",
            Config {
                expandable_segments_reserve_by_class: vec![
                    ("comm".into(), Reserve::Bytes(2 << 30)),
                    ("side".into(), Reserve::Fraction(1.5)),
                ],
                ..default()
            },
        ),
        ("release_lock_on_cudamalloc:True", Config { release_lock_on_malloc: true, ..default() }),
        ("release_lock_on_hipmalloc:True", Config { release_lock_on_malloc: true, ..default() }),
        ("per_process_memory_fraction:0", Config { per_process_memory_fraction: 0.0, ..default() }),
        ("throw_on_cudamalloc_oom:True", Config { throw_on_malloc_oom: true, ..default() }),
        (
            "graph_capture_record_stream_reuse:True",
            Config { graph_capture_record_stream_reuse: true, ..default() },
        ),
    ];
    for (text, expected) in table {
        assert_eq!(parse(text), expected, "{text}");
    }
    let table = [
        ("pinned_use_cuda_host_register:True", PinnedConfig { use_host_register: true, ..pinned() }),
        ("pinned_use_hip_host_register:True", PinnedConfig { use_host_register: true, ..pinned() }),
        ("pinned_num_register_threads:128", PinnedConfig { num_register_threads: 128, ..pinned() }),
        ("pinned_use_background_threads:True", PinnedConfig { use_background_threads: true, ..pinned() }),
        ("pinned_reserve_segment_size_mb:7", PinnedConfig { reserve_segment_size: 7 * MIB, ..pinned() }),
        ("pinned_max_round_threshold_mb:7", PinnedConfig { max_round_threshold: Some(7 * MIB), ..pinned() }),
        ("pinned_max_cached_size_mb:7", PinnedConfig { max_cached_size: Some(7 * MIB), ..pinned() }),
        ("pinned_free_catch_all:True", PinnedConfig { free_catch_all: true, ..pinned() }),
    ];
    for (text, pinned) in table {
        assert_eq!(parse(text), Config { pinned, ..default() }, "{text}");
    }
}

#[test]
fn spaces_and_a_trailing_comma_do_not_matter_and_order_does_not() {
    let plain = parse("max_split_size_mb:50,large_segment_size_mb:40");
    assert_eq!(parse(" max_split_size_mb : 50 ,\tlarge_segment_size_mb:4 0, "), plain);
    assert_eq!(parse("large_segment_size_mb:40,max_split_size_mb:50"), plain);
    assert_eq!(plain.max_non_split_rounding_size, 40 * MIB);
    assert!(refused("max_split_size_mb:30,large_segment_size_mb:40").contains("must be >= 40"));
}

#[test]
fn both_grammars_of_roundup_give_pytorchs_tables() {
    let table: [(&str, [u64; 16]); 8] = [
        ("4", [4; 16]),
        ("1", [1; 16]),
        ("[64:8,256:4,>:1]", [8, 8, 8, 8, 8, 8, 8, 0, 4, 1, 1, 1, 1, 1, 1, 1]),
        ("[64:8,128:2,256:4,512:2,1024:4,>:1]", [8, 8, 8, 8, 8, 8, 8, 2, 4, 2, 4, 1, 1, 1, 1, 1]),
        ("[128:8,256:16,512:1,2048:8,>:2]", [8, 8, 8, 8, 8, 8, 8, 8, 16, 1, 0, 8, 2, 2, 2, 2]),
        ("[>:4]", [0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]),
        ("[512:8,64:2]", [8, 8, 8, 8, 8, 8, 2, 8, 8, 8, 0, 0, 0, 0, 0, 0]),
        ("[1048576:2,]", [2; 16]),
    ];
    for (text, expected) in table {
        let config = parse(&format!("roundup_power2_divisions:{text}"));
        assert_eq!(config.roundup_power2_divisions.as_array(), expected, "{text}");
    }
    assert_eq!(RoundupPower2Divisions::new([3; 16]), None);
}

#[test]
fn divisions_are_those_of_the_interval_of_the_request() {
    let mut table = [0; 16];
    (table[0], table[1], table[15]) = (2, 4, 8);
    let divisions = RoundupPower2Divisions::new(table).unwrap();
    let of = [0, 1, 2 * MIB - 1, 2 * MIB, 4 * MIB - 1, 4 * MIB, 1 << 35, u64::MAX].map(|b| divisions.of(b));
    assert_eq!(of, [2, 2, 2, 4, 4, 0, 8, 8]);
}

#[test]
fn a_wrong_text_is_named() {
    let table = [
        "nonsense:1",
        "max_split_size_mb=40",
        "max_split_size_mb",
        "max_split_size_mb:",
        "max_split_size_mb:,",
        "max_split_size_mb:19",
        "max_split_size_mb:-5",
        "max_split_size_mb:20.5",
        "max_split_size_mb:99999999999999999999",
        "max_split_size_mb:17592186044416",
        "max_split_size_mb:40 backend:native",
        "max_non_split_rounding_mb:1",
        "large_segment_size_mb:10",
        "garbage_collection_threshold:0",
        "garbage_collection_threshold:1.0",
        "garbage_collection_threshold:nan",
        "per_process_memory_fraction:1.5",
        "per_process_memory_fraction:-0.1",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:[3:2]",
        "roundup_power2_divisions:[4:3]",
        "roundup_power2_divisions:[4:2>:1]",
        "roundup_power2_divisions:[4:2",
        "expandable_segments:true",
        "expandable_segments_reserve:0",
        "expandable_segments_reserve:99999999999999G",
        "backend:none",
        "pinned_num_register_threads:3",
        "pinned_num_register_threads:256",
    ];
    let texts: Vec<_> = table.map(|text| format!("{text}\n  |{}|", refused(text))).into();
    insta::assert_snapshot!(texts.join("\n"), @"
    nonsense:1
      |Unrecognized key 'nonsense' in CUDA allocator config.|
    max_split_size_mb=40
      |Unrecognized key 'max_split_size_mb=40' in CUDA allocator config.|
    max_split_size_mb
      |expected ':' after 'max_split_size_mb', found the end of the text|
    max_split_size_mb:
      |'max_split_size_mb' has no value|
    max_split_size_mb:,
      |'max_split_size_mb' has no value, but a ','|
    max_split_size_mb:19
      |CachingAllocator option max_split_size_mb too small, must be >= 20|
    max_split_size_mb:-5
      |'max_split_size_mb' takes a whole number up to 18446744073709551615, not '-5'|
    max_split_size_mb:20.5
      |'max_split_size_mb' takes a whole number up to 18446744073709551615, not '20.5'|
    max_split_size_mb:99999999999999999999
      |'max_split_size_mb' takes a whole number up to 18446744073709551615, not '99999999999999999999'|
    max_split_size_mb:17592186044416
      |'max_split_size_mb' of 17592186044416 MB is more bytes than 64 bits can count|
    max_split_size_mb:40 backend:native
      |'max_split_size_mb' takes a whole number up to 18446744073709551615, not '40backend'|
    max_non_split_rounding_mb:1
      |CachingAllocator option max_non_split_rounding_mb too small, must be >= 20|
    large_segment_size_mb:10
      |CachingAllocator option large_segment_size_mb must be > 10 MB|
    garbage_collection_threshold:0
      |garbage_collect_threshold is invalid, set it in (0.0, 1.0)|
    garbage_collection_threshold:1.0
      |garbage_collect_threshold is invalid, set it in (0.0, 1.0)|
    garbage_collection_threshold:nan
      |'garbage_collection_threshold' takes a number, not 'nan'|
    per_process_memory_fraction:1.5
      |per_process_memory_fraction is invalid, set it in [0.0, 1.0]|
    per_process_memory_fraction:-0.1
      |per_process_memory_fraction is invalid, set it in [0.0, 1.0]|
    roundup_power2_divisions:3
      |For roundups, the divisions has to be power of 2 |
    roundup_power2_divisions:0
      |For roundups, the divisions has to be power of 2 |
    roundup_power2_divisions:[3:2]
      |For roundups, the intervals have to be power of 2 |
    roundup_power2_divisions:[4:3]
      |For roundups, the divisions has to be power of 2 or 0 to disable roundup |
    roundup_power2_divisions:[4:2>:1]
      |'roundup_power2_divisions' takes a whole number up to 18446744073709551615, not '2>'|
    roundup_power2_divisions:[4:2
      |expected ',' after 'an entry of roundup_power2_divisions', found the end of the text|
    expandable_segments:true
      |Expected 'True' or 'False' for 'expandable_segments' but got 'true'|
    expandable_segments_reserve:0
      |'expandable_segments_reserve' takes a fraction above 0 or a size such as 64G, not '0'|
    expandable_segments_reserve:99999999999999G
      |'expandable_segments_reserve' of 99999999999999G is no number of bytes from 1 to 2^64|
    backend:none
      |Unknown allocator backend, options are native and cudaMallocAsync|
    pinned_num_register_threads:3
      |Number of register threads has to be power of 2, got 3|
    pinned_num_register_threads:256
      |Number of register threads should be less than or equal to 128, got 256|
    ");
}

#[test]
fn set_starts_some_settings_afresh_and_keeps_the_rest() {
    let mut config = parse(
        "max_split_size_mb:50,max_non_split_rounding_mb:60,large_segment_size_mb:40,\
         garbage_collection_threshold:0.5,roundup_power2_divisions:2,release_lock_on_cudamalloc:True,\
         per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,expandable_segments:True,\
         pinned_num_register_threads:4",
    );
    config.set("throw_on_cudamalloc_oom:False").unwrap();
    let pinned = PinnedConfig { num_register_threads: 4, ..PinnedConfig::default() };
    let expected = Config {
        release_lock_on_malloc: true,
        per_process_memory_fraction: 0.5,
        expandable_segments: true,
        pinned,
        ..Config::default()
    };
    assert_eq!(config, expected);
    assert!(config.set("per_process_memory_fraction:0.25,nonsense:1").is_err());
    assert_eq!(config, expected, "nothing of a wrong text is taken");
}

#[test]
fn the_first_variable_that_is_set_wins() {
    let read = |vars: &[(&str, &str)]| {
        let vars: HashMap<_, _> = vars.iter().copied().collect();
        Config::from_vars(|name| vars.get(name).map(|text| (*text).to_owned()))
    };
    let (cuda, hip, any) = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF");
    let [a, b, c] = ["max_split_size_mb:21", "max_split_size_mb:22", "max_split_size_mb:23"];
    let size = |vars: &[(&str, &str)]| read(vars).unwrap().max_split_size.map(|bytes| bytes / MIB);
    assert_eq!(size(&[]), None);
    assert_eq!(size(&[(any, c)]), Some(23));
    assert_eq!(size(&[(any, c), (hip, b)]), Some(22));
    assert_eq!(size(&[(any, c), (hip, b), (cuda, a)]), Some(21));
    assert_eq!(size(&[(any, c), (cuda, "")]), None, "an empty text is set");
    assert!(!read(&[]).unwrap().no_caching);
    for (value, off) in [("1", true), ("0", false), ("", false), ("true", false), ("11", false)] {
        let config = read(&[("PYTORCH_NO_CUDA_MEMORY_CACHING", value)]).unwrap();
        assert_eq!(config.no_caching, off, "{value:?}");
    }
    let error = read(&[(hip, "x:1")]).unwrap_err();
    insta::assert_snapshot!(error, @"PYTORCH_HIP_ALLOC_CONF: Unrecognized key 'x' in CUDA allocator config.");
}

#[test]
fn a_struct_is_checked_as_a_text_is() {
    let wrong = [
        Config { large_segment_size: 10 * MIB, ..Config::default() },
        Config { large_segment_size: 20 * MIB + 1, ..Config::default() },
        Config { large_segment_size: 1 << 60, ..Config::default() },
        Config { large_segment_size: u64::MAX, ..Config::default() },
        Config { max_split_size: Some(0), ..Config::default() },
        Config { max_split_size: Some(20 * MIB - 512), ..Config::default() },
        Config { max_non_split_rounding_size: 0, ..Config::default() },
        Config { garbage_collection_threshold: 1.0, ..Config::default() },
        Config { garbage_collection_threshold: f64::NAN, ..Config::default() },
        Config { garbage_collection_threshold: -0.5, ..Config::default() },
        Config { per_process_memory_fraction: f64::NAN, ..Config::default() },
        Config { per_process_memory_fraction: 1.5, ..Config::default() },
        Config { per_process_memory_fraction: -1.0, ..Config::default() },
    ];
    for config in wrong {
        let driver = SimDriver::new(SimConfig::with_bytes(MIB));
        let error = CachingAllocator::new(driver, config.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{config:?}");
    }
}

#[test]
fn pages_are_whole_units_of_the_driver() {
    let refused = |text: &str| CachingAllocator::new(SimDriver::new(SimConfig::with_bytes(MIB)), parse(text));
    let error = refused("expandable_segments:True,large_segment_size_mb:21").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    refused("expandable_segments:True,large_segment_size_mb:22").unwrap();
    refused("large_segment_size_mb:21").unwrap();
}

#[test]
fn a_fraction_of_the_settings_caps_every_device() {
    let config = parse("per_process_memory_fraction:0.5");
    let rig = Rig::with_config(SimConfig::with_devices(2, 64 * MIB), config);
    for device in 0..2 {
        assert_eq!(rig.cuda.memory_fraction(device).unwrap(), 0.5);
        rig.runtime.set_device(device).unwrap();
        assert_eq!(rig.cuda.allocate(33 * MIB).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
}

#[test]
fn a_large_segment_size_serves_middling_requests() {
    let rig = Rig::with(256 * MIB, "large_segment_size_mb:50");
    let _a = rig.allocate(2 * MIB);
    let _b = rig.allocate(12 * MIB);
    assert_eq!(rig.memory_calls(), ["+52428800"], "what is left of it serves a larger one");
}

#[test]
fn mutated_settings_are_taken_whole_or_change_nothing() {
    let texts = [
        "max_split_size_mb:128,garbage_collection_threshold:0.8,expandable_segments:True",
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],backend:native,pinned_num_register_threads:4",
    ];
    let mut refused = 0;
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let bytes = mutated(texts[seed as usize % texts.len()].as_bytes(), &mut rng);
        let mut config = Config::default();
        if let Err(error) = config.set(&String::from_utf8_lossy(&bytes)) {
            assert_eq!(error.kind(), ErrorKind::Config, "seed {seed}");
            assert_eq!(config, Config::default(), "seed {seed}");
            refused += 1;
        } else {
            let made = CachingAllocator::new(SimDriver::new(SimConfig::with_bytes(64 * MIB)), config);
            let refusal = made.err().map(|error| error.kind());
            assert!(
                matches!(refusal, None | Some(ErrorKind::Config | ErrorKind::NotImplemented)),
                "seed {seed}"
            );
        }
    }
    assert!(refused > 1_000, "only {refused} were refused: the mutations do nothing");
}

/// Texts near the grammar: its words and marks in any order, and some of anything.
fn hostile_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("backend"),
        Just("native"),
        Just("max_split_size_mb"),
        Just("max_non_split_rounding_mb"),
        Just("large_segment_size_mb"),
        Just("garbage_collection_threshold"),
        Just("roundup_power2_divisions"),
        Just("expandable_segments_reserve"),
        Just("expandable_segments_reserve_by_class"),
        Just("per_process_memory_fraction"),
        Just("pinned_num_register_threads"),
        Just("True"),
        Just(","),
        Just(":"),
        Just(":"),
        Just("["),
        Just("]"),
        Just(">"),
        Just(" "),
        Just("0"),
        Just("64"),
        Just("0.5"),
        Just("1e308"),
        Just("64G"),
        Just("18446744073709551615"),
        Just("é"),
        Just("\u{2003}"),
    ];
    prop_oneof![
        3 => prop::collection::vec(word, 0..16).prop_map(|words| words.concat()),
        1 => any::<String>(),
    ]
}

proptest! {
    /// Whatever stands in the text: an answer, and settings that are then taken work.
    #[test]
    fn no_text_stops_the_program(text in hostile_text(), bytes in any::<u64>()) {
        let mut config = Config::default();
        match config.set(&text) {
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Config);
                prop_assert_eq!(config, Config::default());
            }
            Ok(()) => {
                let driver = SimDriver::new(SimConfig::with_bytes(256 * MIB));
                if let Ok(cuda) = CachingAllocator::new(driver, config) {
                    for bytes in [bytes, bytes >> 32, bytes >> 40] {
                        if let Err(error) = cuda.allocate(bytes) {
                            prop_assert_eq!(error.kind(), ErrorKind::OutOfMemory);
                        }
                    }
                    cuda.check_invariants();
                }
            }
        }
    }

    /// Every table of divisions rounds up, to a multiple of 512, by less than twice.
    #[test]
    fn every_request_is_rounded_up(
        table in prop::array::uniform16(prop_oneof![Just(0), (0..64_u32).prop_map(|n| 1 << n)]),
        bytes in (0..40_u32).prop_flat_map(|n| 1..=(2_u64 << n)),
    ) {
        let divisions = RoundupPower2Divisions::new(table).unwrap();
        let config = Config { roundup_power2_divisions: divisions, ..Config::default() };
        let rig = Rig::with_config(SimConfig::with_bytes(1 << 45), config);
        let _ptr = rig.allocate(bytes);
        let block = rig.stats().allocated_bytes.all.current as u64;
        prop_assert!(block >= bytes && block.is_multiple_of(512));
        prop_assert!(block <= (2 * bytes).max(512).max(bytes + 2 * MIB), "{} for {}", block, bytes);
    }
}

#[test]
fn reserves_and_placements_are_checked_in_the_struct_too() {
    let new = |config| CachingAllocator::new(SimDriver::new(SimConfig::with_bytes(1 << 30)), config);
    for reserve in
        [Reserve::Fraction(f64::NAN), Reserve::Fraction(-1.0), Reserve::Fraction(0.0), Reserve::Bytes(0)]
    {
        let config = Config { expandable_segments_reserve: Some(reserve), ..Config::default() };
        assert_eq!(new(config).unwrap_err().kind(), ErrorKind::Config);
    }
    let backend = Backend::CudaMallocAsync;
    let stitched = Config { backend, placement: Placement::Stitched, ..Config::default() };
    assert_eq!(new(stitched).unwrap_err().kind(), ErrorKind::Config);
    let own = new(Config { backend, ..Config::default() }).unwrap();
    assert_eq!(own.begin_recording(0).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert_eq!(own.set_plan(None, 0).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert_eq!(own.restore(0, &[]).unwrap_err().kind(), ErrorKind::NotImplemented);
}
