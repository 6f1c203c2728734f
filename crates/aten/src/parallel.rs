//! Loops over threads: the crate's own pool, how many threads it may use, and [`parallel_for`].
//!
//! Two rules hold everywhere. A loop that starts inside another one, or on a worker of any rayon pool, runs
//! serially: waiting there would make the worker run foreign tasks, perhaps under our locks. And no result may
//! depend on the number of threads: a body must give the same for every way of cutting its range.

#![expect(unsafe_code, reason = "hands parts of one slice to several threads")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

mod team;
#[cfg(test)]
mod tests;

/// The number of threads asked for; zero means as many as the machine has.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The workers beside the calling thread, and how many there are. Made when first needed.
static POOL: Mutex<Option<(usize, Arc<ThreadPool>)>> = Mutex::new(None);

thread_local! {
    static INSIDE_LOOP: Cell<bool> = const { Cell::new(false) };
}

/// How many threads an operator may use, the calling one among them (`torch.get_num_threads`).
pub fn num_threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => available_threads(),
        threads => threads,
    }
}

/// Sets how many threads an operator may use, from the next one on (`torch.set_num_threads`). Zero gives the
/// choice back to the machine.
pub fn set_num_threads(threads: usize) {
    /// More would serve nobody, and would have to be started.
    const MOST: usize = 1024;
    THREADS.store(threads.min(MOST), Ordering::Relaxed);
}

/// Whether a loop that starts here runs serially because it is part of a parallel one
/// (`at::in_parallel_region`).
pub fn in_parallel_region() -> bool {
    INSIDE_LOOP.get() || rayon::current_thread_index().is_some()
}

/// Runs `body` over all of `range`, cut into pieces of at least `grain` that several threads may take
/// (`at::parallel_for`).
///
/// Returns when all pieces are done. Of workers that sleep it waits for none: see Note [Workers that come late].
///
/// # Panics
/// When `body` does, after the pieces that other threads have begun are done.
#[inline]
pub fn parallel_for(range: Range<usize>, grain: usize, body: impl Fn(Range<usize>) + Sync) {
    run(range, grain, &body);
}

/// [`parallel_for`], compiled once for all loops.
fn run(range: Range<usize>, grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
    // Some more pieces than threads, so that a thread that wakes late costs little.
    const PIECES_PER_THREAD: usize = 4;
    let len = range.len();
    let grain = grain.max(1);
    if len == 0 {
        return;
    }
    let threads = num_threads().min(len.div_ceil(grain));
    let pool = if threads > 1 && !in_parallel_region() { pool(num_threads() - 1) } else { None };
    let Some(pool) = pool else { return body(range) };

    let piece = len.div_ceil(threads * PIECES_PER_THREAD).max(grain);
    team::run(&pool, threads - 1, range, piece, body);
}

/// Calls `body` with each piece of `len` elements of `slice` and its number, several threads at once. `work` is
/// how much there is to do for a piece, in elements read or written.
pub(crate) fn for_each_piece<T: Send>(
    slice: &mut [T],
    len: usize,
    work: usize,
    body: impl Fn(usize, &mut [T]) + Sync,
) {
    for_each_piece_of_two(slice, len, &mut [(); 0], 0, work, |piece, slice, _| body(piece, slice));
}

/// As [`for_each_piece`], of two slices that have as many pieces.
///
/// # Panics
/// When they have not.
pub(crate) fn for_each_piece_of_two<A: Send, B: Send>(
    first: &mut [A],
    first_len: usize,
    second: &mut [B],
    second_len: usize,
    work: usize,
    body: impl Fn(usize, &mut [A], &mut [B]) + Sync,
) {
    const GRAIN: usize = 1 << 15;
    if first.is_empty() {
        return;
    }
    let pieces = first.len() / first_len;
    assert!(pieces * first_len == first.len() && pieces * second_len == second.len());
    let (first, second) = (DisjointMut::new(first), DisjointMut::new(second));
    parallel_for(0..pieces, GRAIN / work.max(1), |taken| {
        for piece in taken {
            // SAFETY: each piece is taken once.
            let first = unsafe { first.part(piece * first_len..(piece + 1) * first_len) };
            // SAFETY: each piece is taken once.
            let second = unsafe { second.part(piece * second_len..(piece + 1) * second_len) };
            body(piece, first, second);
        }
    });
}

/// [`parallel_for`] over a slice that is written: `body` gets the index of the first element of each piece, and
/// the piece.
pub(crate) fn parallel_slice<T: Send>(slice: &mut [T], grain: usize, body: impl Fn(usize, &mut [T]) + Sync) {
    let len = slice.len();
    let parts = DisjointMut::new(slice);
    parallel_for(0..len, grain, |range| {
        let start = range.start;
        // SAFETY: the ranges of one loop are apart.
        body(start, unsafe { parts.part(range) });
    });
}

/// [`parallel_for`] over the rows of several slices that are written: each has as many rows as there are, of
/// a width of its own. `body` gets the index of the first row of a piece, and the rows of each slice.
///
/// # Panics
/// When a slice is not of `rows` rows of its width.
pub(crate) fn parallel_rows<T: Send, const N: usize>(
    rows: usize,
    grain: usize,
    slices: [(&mut [T], usize); N],
    body: impl Fn(Range<usize>, [&mut [T]; N]) + Sync,
) {
    let parts = slices.map(|(slice, width)| {
        assert_eq!(slice.len(), rows * width, "a slice of other rows");
        (DisjointMut::new(slice), width)
    });
    parallel_for(0..rows, grain, |range| {
        let pieces = std::array::from_fn(|i| {
            let (part, width) = &parts[i];
            // SAFETY: the ranges of one loop are apart, and so are their rows.
            unsafe { part.part(range.start * width..range.end * width) }
        });
        body(range, pieces);
    });
}

/// A slice of which each thread of a loop writes its own part.
#[derive(Debug)]
pub(crate) struct DisjointMut<'a, T> {
    first: *mut T,
    len: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: it gives out nothing but parts that are apart, as `split_at_mut` does.
unsafe impl<T: Send> Sync for DisjointMut<'_, T> {}

impl<'a, T> DisjointMut<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), memory: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// No other part that has one of these elements lives at the same time.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps the parts apart")]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        let first = self.first.wrapping_add(range.start);
        // SAFETY: in bounds, borrowed for longer than `self` lives, and not shared as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(first, range.len()) }
    }
}

/// Marks the thread as part of a parallel loop until dropped.
struct InsideLoop {
    before: bool,
}

impl InsideLoop {
    fn enter() -> Self {
        Self { before: INSIDE_LOOP.replace(true) }
    }
}

impl Drop for InsideLoop {
    fn drop(&mut self) {
        INSIDE_LOOP.set(self.before);
    }
}

/// A pool of so many workers, or none where the system gives no threads: the loop then runs serially.
fn pool(workers: usize) -> Option<Arc<ThreadPool>> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((size, pool)) = pool.as_ref()
        && *size == workers
    {
        return Some(Arc::clone(pool));
    }
    let name = |index| format!("aten-{index}");
    let made = Arc::new(ThreadPoolBuilder::new().num_threads(workers).thread_name(name).build().ok()?);
    *pool = Some((workers, Arc::clone(&made)));
    Some(made)
}

fn available_threads() -> usize {
    static AVAILABLE: AtomicUsize = AtomicUsize::new(0);
    match AVAILABLE.load(Ordering::Relaxed) {
        0 => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            AVAILABLE.store(threads, Ordering::Relaxed);
            threads
        }
        threads => threads,
    }
}
