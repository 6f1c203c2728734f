//! The file of a plan, as it should be and as it should not.

use c10_cuda::ErrorKind;
use c10_cuda::plan::{Limits, Plan, Recording, Shape};

use super::chance::Chance;
use crate::mutations::mutated;
use crate::rng::Rng;

/// Two streams, a lap, and blocks that one lap leaves for the next.
fn recording() -> Recording {
    let mut recording = Recording::new();
    let state = recording.allocate(3000, 7).unwrap();
    let mut kept = vec![recording.allocate(700, 7).unwrap()];
    for lap in 0..4 {
        let hidden = recording.allocate(5000, 7).unwrap();
        let other = recording.allocate(1 << 20, 9).unwrap();
        kept.push(recording.allocate(700, 7).unwrap());
        recording.free(kept.remove(0)).unwrap();
        recording.free(hidden).unwrap();
        for size in [513, 514, 1025, 1026 + 512 * lap] {
            let step = recording.allocate(size, 7).unwrap();
            recording.free(step).unwrap();
        }
        recording.free(other).unwrap();
    }
    recording.free(state).unwrap();
    recording
}

fn plan(shape: Shape) -> Plan {
    let limits = Limits { granularity: 512, steps: 100_000, seed: 1 };
    Plan::make(&recording(), shape, &limits, &mut |_| true).unwrap()
}

#[test]
fn a_plan_is_the_same_after_it_was_written_and_read() {
    for shape in [Shape::Whole, Shape::Iteration, Shape::Repeating] {
        let plan = plan(shape);
        let read: Plan = plan.to_string().parse().unwrap();
        assert_eq!(read, plan);
        assert_eq!(read.to_string(), plan.to_string());
        assert_eq!((read.height(), read.bound(), read.lanes()), (plan.height(), plan.bound(), 2));
        assert_eq!(read.source(), recording().fingerprint());
    }
}

#[test]
fn saving_leaves_what_is_beside_it_and_a_link_as_they_are() {
    let folder = std::env::temp_dir().join(format!("tensorplay-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [path, beside] = ["a.plan", "a.plan.new0"].map(|name| folder.join(name));
    std::fs::write(&beside, "the user's").unwrap();
    let plan = plan(Shape::Whole);
    for _ in 0..2 {
        plan.save(&path).unwrap();
        assert_eq!(Plan::load(&path).unwrap(), plan);
    }
    #[cfg(unix)]
    {
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::fs::write(&path, "").unwrap();
        plan.save(&link).unwrap();
        assert!(link.is_symlink());
        assert_eq!(Plan::load(&path).unwrap(), plan);
        // What is no file stays what it is.
        plan.save("/dev/null").unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    }
    assert!(plan.save(&folder).is_err());
    assert_eq!(std::fs::read_to_string(&beside).unwrap(), "the user's");
    let left = std::fs::read_dir(&folder).unwrap().count();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(left, if cfg!(unix) { 3 } else { 2 });
}

#[test]
fn the_file_is_text_that_a_person_can_read() {
    let mut recording = Recording::new();
    let first = recording.allocate(2048, 7).unwrap();
    let second = recording.allocate(1024, 7).unwrap();
    recording.free(first).unwrap();
    recording.allocate(100, 7).unwrap();
    recording.free(second).unwrap();
    let plan = Plan::make(&recording, Shape::Whole, &Limits::default(), &mut |_| true).unwrap();
    insta::assert_snapshot!(plan, @"
    tensorplay-plan 1
    source a308ea432b920ee9
    span 5
    repeats-from never
    lanes 1 height bound
    3072 3072
    requests 3 lane bytes offset start end
    0 2048 0 0 2
    0 1024 2048 1 4
    0 512 0 3 5
    checksum 604ad2a070e0d7b2
    ");
}

#[test]
fn a_plan_is_saved_and_loaded() {
    let folder = std::env::temp_dir().join(format!("c10-cuda-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("iteration.plan");
    let plan = plan(Shape::Whole);
    plan.save(&path).unwrap();
    assert_eq!(Plan::load(&path).unwrap(), plan);
    std::fs::write(&path, "tensorplay-plan 2\n").unwrap();
    let error = Plan::load(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("iteration.plan: plan file: line 1 should be"), "{error}");
    assert!(Plan::load(folder.join("none")).is_err());
    assert!(plan.save(folder.join("no/such/folder")).is_err());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing half-written is left");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The text with the checksum that belongs to it.
fn sealed(text: &str) -> String {
    let head = &text[..text.rfind("checksum").unwrap()];
    let mut print = 0xcbf2_9ce4_8422_2325_u64;
    for byte in head.bytes() {
        print = (print ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{head}checksum {print:016x}\n")
}

#[test]
fn what_is_no_plan_is_refused() {
    let text = plan(Shape::Whole).to_string();
    assert_eq!(sealed(&text), text);
    let line = |at: usize| text.lines().nth(at).unwrap().to_owned();
    // The first request of the first lane, and its place on top of itself.
    let entry = line(8);
    let words: Vec<_> = entry.split(' ').collect();
    let with = |at: usize, word: &str| {
        let mut words = words.clone();
        words[at] = word;
        text.replacen(&entry, &words.join(" "), 1)
    };
    let cases = [
        text.replacen("tensorplay-plan 1", "tensorplay-plan 2", 1),
        text.replacen("repeats-from never", "repeats-from 999999", 1),
        text.replacen(&line(2), "span 3", 1),
        text.replacen(&line(2), "span 4294967295", 1),
        text.replacen("lanes 2", "lanes 99999999999", 1),
        text.replacen("lanes 2", "lanes 3", 1),
        text.replacen(&line(5), "18446744073709551615 0", 1),
        with(0, "2"),
        with(0, "1"),
        with(0, "4294967296"),
        with(1, "0"),
        with(1, "18446744073709551615"),
        with(2, "18446744073709551615"),
        with(2, "+0"),
        with(3, "00"),
        with(3, "1"),
        with(4, "0"),
        with(4, "99999"),
        text.replacen('\n', "\r\n", 1),
        format!("\u{feff}{text}"),
    ];
    for case in cases {
        let error = Plan::parse(sealed(&case).as_bytes()).expect_err(&case);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().starts_with("plan"), "{error}");
    }
    for cut in 0..text.len() {
        assert!(Plan::parse(&text.as_bytes()[..cut]).is_err(), "cut at {cut}");
    }
    assert!(Plan::parse(format!("{text}\n").as_bytes()).is_err());
    assert!(Plan::parse(&[0xff, 0xfe]).is_err());
}

#[test]
fn requests_that_meet_in_one_place_are_refused() {
    let file = |repeats: &str, entries: &str| {
        let count = entries.lines().count();
        sealed(&format!(
            "tensorplay-plan 1\nsource 0000000000000000\nspan 10\nrepeats-from {repeats}\nlanes 1 height bound\n2048 \
             0\nrequests {count} lane bytes offset start end\n{entries}checksum \n"
        ))
    };
    let parse = |text: String| Plan::parse(text.as_bytes()).map(|plan| plan.height());
    assert_eq!(parse(file("never", "0 1024 0 0 5\n0 1024 512 5 9\n")).unwrap(), 2048);
    let error = parse(file("never", "0 1024 0 0 6\n0 1024 512 5 9\n")).unwrap_err();
    insta::assert_snapshot!(error, @"plan: requests 0 and 1 are live at one time in one place");
    // From one lap to the next.
    let laps = |end: u32| format!("0 512 0 0 5\n0 512 1024 2 4\n0 512 1024 5 {end}\n");
    assert!(parse(file("0", &laps(12))).is_ok());
    let error = parse(file("0", &laps(13))).unwrap_err();
    insta::assert_snapshot!(error, @"plan: requests 2 and 1 are live at one time in one place");
    let error = parse(file("0", &laps(16))).unwrap_err();
    insta::assert_snapshot!(error, @"plan: request 2 has no lifetime, or one that is longer than the recording or a lap");
    assert!(parse(file("never", &laps(12))).is_err());
    assert!(parse(file("3", &laps(10))).is_err());
}

#[test]
fn a_file_that_was_tampered_with_is_refused_or_still_a_plan() {
    let text = plan(Shape::Repeating).to_string();
    let mut accepted = 0;
    for seed in 0..4000 {
        let mut chance = Chance(seed);
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=chance.below(3) {
            let at = chance.below(bytes.len() as u64) as usize;
            match chance.below(4) {
                0 => bytes[at] = chance.next() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"0123456789 \n-"[chance.below(13) as usize]),
                _ => bytes[at] = b'0' + chance.below(10) as u8,
            }
        }
        if bytes != text.as_bytes() {
            assert!(Plan::parse(&bytes).is_err(), "seed {seed}: the checksum tells");
        }
        let Ok(tampered) = String::from_utf8(bytes) else { continue };
        if !tampered.contains("checksum") {
            continue;
        }
        if let Ok(plan) = Plan::parse(sealed(&tampered).as_bytes()) {
            accepted += 1;
            assert_eq!(Plan::parse(plan.to_string().as_bytes()).unwrap(), plan, "seed {seed}");
        }
    }
    assert!(accepted > 0, "a source or a bound may be anything");
}

/// Sealed anew, so that the numbers behind the checksum are looked at.
#[test]
fn mutated_plans_are_read_or_refused() {
    let text = plan(Shape::Repeating).to_string();
    let (mut read, mut refused) = (0, 0);
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let bytes = mutated(text.as_bytes(), &mut rng);
        let whole = String::from_utf8_lossy(&bytes).into_owned();
        let text = if whole.contains("checksum") { sealed(&whole) } else { whole };
        match Plan::parse(text.as_bytes()) {
            Ok(plan) => {
                assert_eq!(plan.to_string(), text, "there is one way to write a plan, seed {seed}");
                assert!(plan.bound() <= plan.height());
                read += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "seed {seed}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1_000, "only {refused} were refused, {read} read: the mutations do nothing");
}
