//! Tests of [`beside_torch`](super).

use super::{by_threads, figure, median, pair_up};

#[test]
fn a_line_is_a_case_and_its_median() {
    let line = "hot one size, 512 B                                median    470.1  min    460.0  max    500.9 ns  (7 clean of 8)";
    assert_eq!(figure(line), Some(("hot one size, 512 B".to_owned(), 470.1)));
    assert_eq!(figure("  note: 1 cudaMalloc, 0 cudaFree, 0 cuMem* calls in the timed part"), None);
    assert_eq!(figure("yardstick 381511 ns"), None);
}

#[test]
fn figures_of_one_round_are_pairs() {
    let mut cases = Vec::new();
    for ns in [3.0, 1.0, 2.0] {
        let theirs = [("a".to_owned(), 10.0), ("theirs alone".to_owned(), 1.0)];
        pair_up(&mut cases, &theirs, vec![("a".to_owned(), ns), ("ours alone".to_owned(), 1.0)]);
    }
    assert_eq!(cases, [("a".to_owned(), vec![(10.0, 3.0), (10.0, 1.0), (10.0, 2.0)])]);
}

#[test]
fn threads_are_compared_with_one() {
    let case =
        |name: &str, ours: &[f64]| (name.to_owned(), ours.iter().map(|ns| (1.0, *ns)).collect::<Vec<_>>());
    let cases = [
        case("hot one size, 512 B", &[1.0]),
        case("1 threads, own streams, a", &[10.0, 20.0, 10.0]),
        case("2 threads, own streams, a", &[30.0, 20.0, 20.0]),
        case("2 threads, own streams, b", &[30.0]),
    ];
    assert_eq!(by_threads(&cases), [("2 threads, own streams, a", 2.0)]);
}

#[test]
fn the_median_is_the_middle_value() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
}
