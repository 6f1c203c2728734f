//! [`Reducer`], and how its steps are spread over an input.
//!
//! The elements of an output are taken in blocks, whose results are merged pairwise, as a binary counter
//! carries: a sum of n floats so has an error that grows with log n. Within a block several lanes run side by
//! side. The tree is the same for every number of threads, which take outputs, or, where there are few of
//! them, chunks of blocks.

use std::ops::Range;

use smallvec::SmallVec;

use super::layout::Layout;
use crate::iter::run::GRAIN_SIZE;
use crate::parallel::parallel_slice;
use crate::simd;
use crate::tensor::Plain;

/// Elements of a block that is added up one by one.
const BLOCK: usize = 512;
/// Elements of a block of lanes.
const BLOCK_OF_LANES: usize = 128 * LANES;
/// Elements that one thread takes of an output that has many.
const CHUNK: usize = 128 * BLOCK;
/// Outputs side by side that are reduced at once, and elements of each before they are merged.
const COLUMNS: usize = 128;
const ROWS: usize = 64;
/// With more of them they would not stay in registers.
const LANES: usize = 32;

/// A reduction: what is kept of the elements seen so far, and how another is added.
pub(crate) trait Reducer: Sync {
    type In: Plain;
    type Acc: Copy + Send + Sync;
    /// Whether it is worth being compiled for each instruction set.
    const VECTORISED: bool = false;

    /// Nothing seen. Merging it changes nothing.
    fn start(&self) -> Self::Acc;
    /// With element `i`, which comes after those seen.
    fn step(&self, acc: Self::Acc, x: Self::In, i: usize) -> Self::Acc;
    /// What was seen first, and what was seen elsewhere.
    fn merge(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;

    /// A block of elements, the first of which is element `first`.
    #[inline(always)]
    fn block(&self, xs: &[Self::In], first: usize) -> Self::Acc {
        // Lanes are worth their code where they become vectors.
        if !Self::VECTORISED || xs.len() < LANES {
            return xs.iter().enumerate().fold(self.start(), |acc, (i, &x)| self.step(acc, x, first + i));
        }
        let mut acc = [self.start(); LANES];
        let chunks = xs.chunks_exact(LANES);
        let rest = chunks.remainder();
        for (k, chunk) in chunks.enumerate() {
            for (lane, (acc, &x)) in acc.iter_mut().zip(chunk).enumerate() {
                *acc = self.step(*acc, x, first + k * LANES + lane);
            }
        }
        let done = xs.len() - rest.len();
        for (lane, &x) in rest.iter().enumerate() {
            acc[lane] = self.step(acc[lane], x, first + done + lane);
        }
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                acc[lane] = self.merge(acc[lane], acc[lane + width]);
            }
            width /= 2;
        }
        acc[0]
    }
}

/// What each output comes to.
pub(crate) fn reduce<R: Reducer>(reducer: &R, input: &[R::In], layout: &Layout) -> Vec<R::Acc> {
    let mut accs = vec![reducer.start(); layout.outputs];
    if layout.count == 0 || layout.outputs == 0 {
        return accs;
    }
    let walk = Walk { reducer, input, layout };
    let grain = (GRAIN_SIZE / layout.count).max(1);
    if let Some(width) = layout.columns() {
        parallel_slice(&mut accs, grain.max(COLUMNS), |first, accs| {
            vectorised::<R, _>(
                #[inline(always)]
                || walk.columns(width, first, accs),
            );
        });
    } else if layout.count > CHUNK {
        for (output, acc) in accs.iter_mut().enumerate() {
            *acc = walk.chunked(output);
        }
    } else {
        parallel_slice(&mut accs, grain, |first, accs| {
            vectorised::<R, _>(
                #[inline(always)]
                || {
                    for (i, acc) in accs.iter_mut().enumerate() {
                        *acc = walk.range(layout.base(first + i), 0..layout.count);
                    }
                },
            );
        });
    }
    accs
}

/// Runs a loop of a reducer as compiled for this machine's instruction set, or for all. Only what is compiled
/// several times has to be inlined into the copies.
#[inline(always)]
fn vectorised<R: Reducer, T>(body: impl FnOnce() -> T) -> T {
    if R::VECTORISED { simd::dispatch(body) } else { body() }
}

/// A reducer and what it goes over.
struct Walk<'a, R: Reducer> {
    reducer: &'a R,
    input: &'a [R::In],
    layout: &'a Layout,
}

impl<R: Reducer> Walk<'_, R> {
    #[inline(always)]
    fn merge(&self, a: R::Acc, b: R::Acc) -> R::Acc {
        self.reducer.merge(a, b)
    }

    /// An output of many elements, by threads.
    fn chunked(&self, output: usize) -> R::Acc {
        let (base, count) = (self.layout.base(output), self.layout.count);
        let mut partial = vec![self.reducer.start(); count.div_ceil(CHUNK)];
        parallel_slice(&mut partial, 1, |first, partial| {
            vectorised::<R, _>(
                #[inline(always)]
                || {
                    for (i, acc) in partial.iter_mut().enumerate() {
                        let begin = (first + i) * CHUNK;
                        *acc = self.range(base, begin..count.min(begin + CHUNK));
                    }
                },
            );
        });
        let mut tree = Tree::new();
        for acc in partial {
            tree.push(acc, |a, b| self.merge(a, b));
        }
        tree.finish(|a, b| self.merge(a, b)).unwrap_or(self.reducer.start())
    }

    /// Elements `span` of the output that begins at `base`.
    #[inline(always)]
    fn range(&self, base: usize, span: Range<usize>) -> R::Acc {
        if R::VECTORISED { self.inlined_range(base, span) } else { self.called_range(base, span) }
    }

    #[inline(never)]
    fn called_range(&self, base: usize, span: Range<usize>) -> R::Acc {
        self.inlined_range(base, span)
    }

    #[inline(always)]
    fn inlined_range(&self, base: usize, span: Range<usize>) -> R::Acc {
        let block = if R::VECTORISED { BLOCK_OF_LANES } else { BLOCK };
        if span.len() <= block {
            return self.leaf(base, span);
        }
        let mut tree = Tree::new();
        let mut at = span.start;
        while at < span.end {
            let next = span.end.min(at + block);
            let acc = self.leaf(base, at..next);
            tree.push(
                acc,
                #[inline(always)]
                |a, b| self.merge(a, b),
            );
            at = next;
        }
        tree.finish(
            #[inline(always)]
            |a, b| self.merge(a, b),
        )
        .unwrap_or(self.reducer.start())
    }

    /// At most a block of elements, run by run of the innermost dimension.
    #[inline(always)]
    fn leaf(&self, base: usize, span: Range<usize>) -> R::Acc {
        let Self { reducer, input, layout } = *self;
        let (size, stride) = layout.inner();
        let mut at = span.start;
        let mut acc = None;
        while at < span.end {
            let n = (size - at % size).min(span.end - at);
            let start = base + layout.step(at);
            let run = if stride == 1 {
                reducer.block(&input[start..start + n], at)
            } else {
                (0..n).fold(reducer.start(), |acc, i| reducer.step(acc, input[start + i * stride], at + i))
            };
            acc = Some(acc.map_or(run, |acc| reducer.merge(acc, run)));
            at += n;
        }
        acc.unwrap_or(reducer.start())
    }

    /// Outputs that lie side by side: each row of the input adds one element to all of them.
    #[inline(always)]
    fn columns(&self, width: usize, first: usize, accs: &mut [R::Acc]) {
        let count = self.layout.count;
        let mut done = 0;
        while done < accs.len() {
            let output = first + done;
            let n = (width - output % width).min(accs.len() - done).min(COLUMNS);
            let base = self.layout.base(output);
            let accs = &mut accs[done..done + n];
            if count <= ROWS {
                self.rows(base, 0..count, accs);
            } else {
                let mut tree: Tree<Vec<R::Acc>> = Tree::new();
                let merge = |mut a: Vec<R::Acc>, b: Vec<R::Acc>| {
                    a.iter_mut().zip(b).for_each(|(a, b)| *a = self.merge(*a, b));
                    a
                };
                for begin in (0..count).step_by(ROWS) {
                    let mut block = vec![self.reducer.start(); n];
                    self.rows(base, begin..count.min(begin + ROWS), &mut block);
                    tree.push(block, merge);
                }
                if let Some(sums) = tree.finish(merge) {
                    accs.copy_from_slice(&sums);
                }
            }
            done += n;
        }
    }

    #[inline(always)]
    fn rows(&self, base: usize, span: Range<usize>, accs: &mut [R::Acc]) {
        for i in span {
            let start = base + self.layout.step(i);
            for (acc, &x) in accs.iter_mut().zip(&self.input[start..]) {
                *acc = self.reducer.step(*acc, x, i);
            }
        }
    }
}

/// Results of equal parts, merged two by two.
struct Tree<A> {
    pending: SmallVec<[A; 12]>,
    pushed: usize,
}

impl<A> Tree<A> {
    #[inline(always)]
    fn new() -> Self {
        Self { pending: SmallVec::new(), pushed: 0 }
    }

    #[inline(always)]
    fn push(&mut self, mut acc: A, merge: impl Fn(A, A) -> A) {
        let mut count = self.pushed;
        while count & 1 == 1 {
            if let Some(before) = self.pending.pop() {
                acc = merge(before, acc);
            }
            count >>= 1;
        }
        self.pending.push(acc);
        self.pushed += 1;
    }

    #[inline(always)]
    fn finish(mut self, merge: impl Fn(A, A) -> A) -> Option<A> {
        let mut acc = self.pending.pop()?;
        while let Some(before) = self.pending.pop() {
            acc = merge(before, acc);
        }
        Some(acc)
    }
}
