//! Tests of [`beside_torch`](super).

use super::{figure, keep_least};

#[test]
fn a_line_is_a_case_and_its_median() {
    let line = "hot one size, 512 B                                median    470.1  min    460.0  max    500.9 ns  (7 clean of 8)";
    assert_eq!(figure(line), Some(("hot one size, 512 B".to_owned(), 470.1)));
    assert_eq!(figure("  note: 1 cudaMalloc, 0 cudaFree, 0 cuMem* calls in the timed part"), None);
    assert_eq!(figure("yardstick 381511 ns"), None);
}

#[test]
fn the_least_of_the_rounds_counts() {
    let mut least = Vec::new();
    for ns in [3.0, 1.0, 2.0] {
        keep_least(&mut least, vec![("a".to_owned(), ns), ("b".to_owned(), 10.0 * ns)]);
    }
    assert_eq!(least, [("a".to_owned(), 1.0), ("b".to_owned(), 10.0)]);
}
