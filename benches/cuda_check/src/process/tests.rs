//! Programs that end, hang, and leave others behind.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{Ended, output_within};

fn shell(script: &str, limit: Duration) -> (Ended, Duration) {
    let begun = Instant::now();
    let ended = output_within(Command::new("sh").args(["-c", script]), limit);
    (ended, begun.elapsed())
}

/// Whether the process that a script has named still runs. One that has ended may stand there until it is waited for.
fn runs(ended: &Ended) -> bool {
    let id = ended.printed.lines().next().unwrap_or_default();
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn what_a_program_prints_and_its_number_are_told() {
    let (ended, _) = shell("echo out; echo err >&2; exit 3", Duration::from_secs(60));
    assert_eq!((&*ended.printed, &*ended.errors, ended.code), ("out\n", "err\n", Some(3)));
    assert!(ended.failure.is_some());
    let (ended, _) = shell("true", Duration::from_secs(60));
    assert_eq!((ended.failure, ended.code), (None, Some(0)));
}

#[test]
fn a_program_that_hangs_ends_with_what_it_started() {
    let (ended, took) = shell("sleep 900 & echo $!; sleep 900", Duration::from_millis(300));
    assert_eq!(ended.failure.as_deref(), Some("took longer than 0 s"));
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(!runs(&ended), "{ended:?}");
}

#[test]
fn a_program_that_leaves_another_behind_is_not_waited_for() {
    let (ended, took) = shell("sleep 900 & echo $!", Duration::from_secs(300));
    assert_eq!(ended.failure, None);
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(!runs(&ended), "{ended:?}");
}

/// It is in a group of its own and holds the pipe: its output counts, and nobody waits for it.
#[test]
fn what_has_left_the_group_blocks_nothing() {
    let (ended, took) = shell("echo said; setsid sleep 20 &", Duration::from_secs(300));
    assert_eq!((&*ended.printed, ended.failure), ("said\n", None));
    assert!(took < Duration::from_secs(15), "{took:?}");
}
