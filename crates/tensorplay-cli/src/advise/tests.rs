//! How trials are ranked, and what is said of them.

use super::advice::{Advice, DeviceAdvice};
use super::grid::{Whose, candidates};
use super::page::page;
use super::trial::Trial;
use crate::replay::{OutOfMemory, Peaks};

const MIB: u64 = 1 << 20;

fn trial(configuration: &str, reserved: u64, out_of_memory: Option<Option<usize>>) -> Trial {
    let whose = if configuration.starts_with("placement") { Whose::Ours } else { Whose::Pytorch };
    let peaks = Peaks {
        requested_bytes: 900 * MIB,
        allocated_bytes: 909 * MIB,
        active_bytes: 909 * MIB,
        reserved_bytes: reserved * MIB,
    };
    let refused = |event| OutOfMemory { event, requested_bytes: 1, message: String::new() };
    let waste = out_of_memory.is_none().then(|| (reserved - 900) as f64 / reserved as f64);
    let configuration = configuration.to_owned();
    Trial { configuration, whose, peaks, waste, driver_calls: 80, out_of_memory: out_of_memory.map(refused) }
}

fn advice(memory: Option<u64>, trials: Vec<Trial>) -> Advice {
    let as_wanted = trials.iter().any(Trial::fits);
    let device = DeviceAdvice::new(0, 12_976, 900 * MIB, trials, vec!["One note.".into()]);
    Advice { file: "run.pickle".into(), device_memory_bytes: memory, as_wanted, devices: vec![device] }
}

#[test]
fn the_page_says_what_to_set() {
    let trials = vec![
        trial("", 1150, None),
        trial("max_split_size_mb:64", 1200, Some(Some(700))),
        trial("expandable_segments:True", 1020, None),
        trial("roundup_power2_divisions:4", 1020, None),
        trial("max_split_size_mb:128", 1200, Some(Some(7000))),
        trial("evil:\u{1b}[31m", 1200, Some(None)),
        trial("placement:stitched", 940, None),
    ];
    insta::assert_snapshot!(page(&advice(None, trials)), @r"
    run.pickle, device 0

      Set this: at most 1020.00 MiB are reserved, and 1.12 GiB with the defaults. This
      allocator's `placement:stitched` would need 940.00 MiB, and not 1020.00 MiB.

        export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

    12,976 events; the program held at most 900.00 MiB, in requests of whole 512 bytes

      configuration                 peak blocks  peak reserved    waste  driver calls  outcome
      placement:stitched (ours)      909.00 MiB     940.00 MiB    4.3 %            80  fits
      expandable_segments:True       909.00 MiB    1020.00 MiB   11.8 %            80  fits
      roundup_power2_divisions:4     909.00 MiB    1020.00 MiB   11.8 %            80  fits
      PyTorch's defaults             909.00 MiB       1.12 GiB   21.7 %            80  fits
      max_split_size_mb:128          909.00 MiB       1.17 GiB        -            80  out of memory at event 7,000
      max_split_size_mb:64           909.00 MiB       1.17 GiB        -            80  out of memory at event 700
      evil:\u{1b}[31m                909.00 MiB       1.17 GiB        -            80  out of memory before the first event

      3 configurations ran out of memory.

    Notes
      - One note.
    ");
}

/// The sentence of a page.
fn verdict(memory: Option<u64>, trials: Vec<Trial>) -> String {
    let page = page(&advice(memory, trials));
    let lines = page.lines().skip(2).take_while(|line| !line.contains("events; "));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_sentence_follows_the_trials() {
    let texts = [
        verdict(None, vec![trial("", 1000, None), trial("max_split_size_mb:64", 1000, None)]),
        verdict(
            Some(1024 * MIB),
            vec![trial("", 1000, Some(Some(5))), trial("max_split_size_mb:64", 1010, None)],
        ),
        verdict(
            Some(1024 * MIB),
            vec![trial("", 1000, Some(Some(5))), trial("placement:stitched", 990, None)],
        ),
        verdict(Some(1024 * MIB), vec![trial("", 1000, Some(None))]),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    Leave PyTorch as it is: no setting does better than the defaults, with at most 1000.00 MiB reserved.
    PyTorch's defaults do not fit in 1.00 GiB. This does, with at most 1010.00 MiB reserved: export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64
    Nothing that PyTorch can be set to fits in 1.00 GiB. This allocator's `placement:stitched` would need 990.00 MiB.
    Nothing that PyTorch can be set to fits in 1.00 GiB.
    ");
    let nothing =
        Advice { file: "x".into(), device_memory_bytes: None, as_wanted: true, devices: Vec::new() };
    assert_eq!(page(&nothing), "x: nothing was recorded on any device\n");
}

#[test]
fn each_configuration_is_tried_once() {
    let texts = |asked: &[&str], recorded, is_limited| -> Vec<String> {
        let asked: Vec<_> = asked.iter().map(|text| (*text).to_owned()).collect();
        candidates(&asked, recorded, is_limited).unwrap().into_iter().map(|c| c.text).collect()
    };
    let grid = texts(&[], None, false);
    assert_eq!(grid[0], "");
    assert!(grid.iter().all(|text| !text.contains("garbage_collection")));
    assert!(texts(&[], None, true).len() > grid.len());
    assert_eq!(texts(&["max_split_size_mb:64"], Some(""), false), grid, "they are there already");
    let more = texts(&["max_split_size_mb:77"], Some("max_split_size_mb:78"), false);
    assert_eq!(more[grid.len()..], ["max_split_size_mb:77", "max_split_size_mb:78"]);
    assert_eq!(texts(&[], Some("no_such_key:1"), false), grid);
    assert!(candidates(&["no_such_key:1".into()], None, false).is_err());
}
