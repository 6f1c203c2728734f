//! Loops over threads: every piece once, panics, many loops in a row and from many threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::ThreadPoolBuilder;

use super::{in_parallel_region, team};

#[test]
fn every_index_is_visited_once_however_late_workers_come() {
    let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for round in 0..2000_usize {
        let (len, piece) = (1 + round % 97, 1 + round % 7);
        let visits: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
        team::run(&pool, 3, 10..10 + len, piece, &|range| {
            assert!(in_parallel_region());
            if round % 50 == 0 {
                std::thread::yield_now();
            }
            range.for_each(|i| _ = visits[i - 10].fetch_add(1, Ordering::Relaxed));
        });
        assert!(visits.iter().all(|visits| visits.load(Ordering::Relaxed) == 1));
    }
    assert!(!in_parallel_region());
}

#[test]
fn threads_share_the_workers() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let sum = AtomicUsize::new(0);
                    team::run(&pool, 2, 0..100, 3, &|range| {
                        _ = sum.fetch_add(range.sum(), Ordering::Relaxed)
                    });
                    assert_eq!(sum.into_inner(), 4950);
                }
            });
        }
    });
}

#[test]
fn a_panic_of_any_thread_is_the_loops() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for bad in 0..40 {
        let run = || team::run(&pool, 2, 0..40, 1, &|range| assert!(!range.contains(&bad), "piece {bad}"));
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(panic.downcast_ref::<String>().unwrap(), &format!("piece {bad}"));
        assert!(!in_parallel_region());
        // The pool is as good as before.
        let count = AtomicUsize::new(0);
        team::run(&pool, 2, 0..40, 1, &|range| _ = count.fetch_add(range.len(), Ordering::Relaxed));
        assert_eq!(count.into_inner(), 40);
    }
}
