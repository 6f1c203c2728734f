//! The packing, on problems whose best is known.
#![expect(clippy::single_range_in_vec_init, reason = "most requests have one lifetime")]

use std::ops::Range;

use c10_cuda::plan::solve::{Limits, Problem, ProblemError, Solution, solve};

use super::chance::Chance;

/// A request: bytes, and when it is live.
type Request = (u64, Vec<Range<u32>>);

fn problem(requests: &[Request]) -> Problem {
    Problem::of(requests.iter().map(|(size, lifetimes)| (*size, lifetimes.as_slice()))).unwrap()
}

/// Cuts a rectangle of time and bytes into pieces, so that its height is the best there is.
fn cut(chance: &mut Chance, time: Range<u32>, bytes: u64, pieces: u64, out: &mut Vec<Request>) {
    let (length, units) = (time.end - time.start, bytes / 512);
    if pieces <= 1 || (length < 2 && units < 2) {
        out.push((bytes, vec![time]));
        return;
    }
    let first = 1 + chance.below(pieces - 1);
    let across_time = units < 2 || (length >= 2 && chance.below(2) == 0);
    if across_time {
        let at = time.start + 1 + chance.below(u64::from(length) - 1) as u32;
        cut(chance, time.start..at, bytes, first, out);
        cut(chance, at..time.end, bytes, pieces - first, out);
    } else {
        let at = (1 + chance.below(units - 1)) * 512;
        cut(chance, time.clone(), at, first, out);
        cut(chance, time, bytes - at, pieces - first, out);
    }
}

#[track_caller]
fn check(requests: &[Request], solution: &Solution) {
    assert_eq!(solution.offsets.len(), requests.len());
    let end = |at: usize| solution.offsets[at] + requests[at].0;
    assert_eq!((0..requests.len()).map(end).max().unwrap_or(0), solution.height);
    for (one, (_, lifetimes)) in requests.iter().enumerate() {
        for (other, (_, others)) in requests.iter().enumerate().skip(one + 1) {
            let meet = |a: &Range<u32>| others.iter().any(|b| a.start < b.end && b.start < a.end);
            if lifetimes.iter().any(meet) {
                let apart = end(one) <= solution.offsets[other] || end(other) <= solution.offsets[one];
                assert!(apart, "{one} and {other} overlap");
            }
        }
    }
}

#[test]
fn rectangles_that_fill_a_rectangle_are_packed_almost_without_waste() {
    for seed in 0..20 {
        let mut chance = Chance(seed);
        let mut requests = Vec::new();
        cut(&mut chance, 0..400, 512 << 12, 120, &mut requests);
        // In the order of a program.
        requests.sort_by_key(|(_, lifetimes)| lifetimes[0].start);
        let problem = problem(&requests);
        assert_eq!(problem.peak_live(), 512 << 12, "seed {seed}");
        let limits = Limits { steps: 3_000_000, granularity: 512, seed: 1 };
        let solution = solve(&problem, &limits, &mut |_| true);
        check(&requests, &solution);
        assert_eq!(solution.bound, 512 << 12);
        let waste = 1.0 - solution.bound as f64 / solution.height as f64;
        assert!(waste < 0.06, "seed {seed}: {waste}");
        assert!(solution.steps < limits.steps + 100_000, "seed {seed}");
    }
}

#[test]
fn small_problems_are_packed_as_well_as_can_be() {
    // Largest first would need 7: the two of 2 leave no room for what lives between them.
    let requests: Vec<Request> = vec![
        (2, vec![0..2]),
        (1, vec![0..4]),
        (3, vec![2..6]),
        (1, vec![3..8]),
        (2, vec![6..9]),
        (1, vec![5..9]),
    ];
    let limits = Limits { granularity: 1, steps: 1_000_000, seed: 1 };
    let solution = solve(&problem(&requests), &limits, &mut |_| true);
    check(&requests, &solution);
    assert_eq!((solution.bound, solution.height), (5, 5));
}

#[test]
fn a_request_with_several_lifetimes_keeps_its_place() {
    let requests: Vec<Request> =
        vec![(4, vec![0..2, 6..8]), (4, vec![2..6]), (2, vec![1..7]), (2, vec![3..5])];
    let limits = Limits { granularity: 1, ..Limits::default() };
    let solution = solve(&problem(&requests), &limits, &mut |_| true);
    check(&requests, &solution);
    assert_eq!(solution.height, 8);
    assert_eq!(solution.bound, 8);
}

#[test]
fn nothing_is_asked_of_the_search_beyond_the_next_page() {
    let requests: Vec<Request> = vec![(3, vec![0..2]), (2, vec![1..4]), (3, vec![2..6]), (2, vec![5..7])];
    let limits = Limits { granularity: 1 << 20, ..Limits::default() };
    let solution = solve(&problem(&requests), &limits, &mut |_| true);
    check(&requests, &solution);
    assert!(solution.steps < 20);
}

#[test]
fn equal_limits_give_equal_packings_and_a_caller_can_stop_the_search() {
    let mut requests = Vec::new();
    cut(&mut Chance(7), 0..2000, 512 << 14, 400, &mut requests);
    let problem = problem(&requests);
    let limits = Limits { steps: 4_000_000, granularity: 512, seed: 3 };
    let mut calls = 0;
    let solution = solve(&problem, &limits, &mut |progress| {
        calls += 1;
        assert_eq!(progress.bound, problem.peak_live());
        assert!(progress.height >= progress.bound);
        true
    });
    check(&requests, &solution);
    assert!(calls > 3, "{calls} calls");
    assert_eq!(solve(&problem, &limits, &mut |_| true), solution);
    let mut once = 0;
    let stopped = solve(&problem, &limits, &mut |_| {
        once += 1;
        false
    });
    check(&requests, &stopped);
    assert_eq!(once, 1);
    assert!(stopped.steps < solution.steps && stopped.height >= solution.height);
}

#[test]
fn nothing_needs_nothing() {
    let solution = solve(&Problem::new(), &Limits::default(), &mut |_| true);
    assert_eq!((solution.height, solution.bound, solution.offsets.len()), (0, 0, 0));
}

#[test]
fn requests_that_are_none_are_refused() {
    let of =
        |requests: &[Request]| Problem::of(requests.iter().map(|(s, l)| (*s, l.as_slice()))).map(|p| p.len());
    let life = |a, b| Range { start: a, end: b };
    assert_eq!(of(&[(1, vec![0..1]), (0, vec![0..1])]), Err(ProblemError::Size { request: 1, size: 0 }));
    let most = 1 << 60;
    assert_eq!(of(&[(most, vec![0..1]), (1, vec![1..2])]), Err(ProblemError::Size { request: 1, size: 1 }));
    assert_eq!(of(&[(u64::MAX, vec![0..1])]), Err(ProblemError::Size { request: 0, size: u64::MAX }));
    for lifetimes in [vec![], vec![life(1, 1)], vec![life(2, 1)], vec![0..2, 1..3], vec![2..3, 0..1]] {
        assert_eq!(of(&[(1, lifetimes)]), Err(ProblemError::Lifetime { request: 0 }));
    }
}
