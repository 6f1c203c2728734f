#![expect(unsafe_code, reason = "writes the buffers that it has allocated")]
//! The memory of training a recurrent network: a long short-term memory of two layers, time step by time step.
//!
//! The sizes are those of the medium model of Zaremba, Sutskever and Vinyals (2014): 650 units, batches of 20,
//! 35 time steps, 32-bit floats. A step makes for each layer the products with the input and with the last
//! hidden state (208,000 bytes each), which go at the step's end, and the gates (208,000), the cell, its
//! hyperbolic tangent and the hidden state (52,000 each), which the backward pass needs and which stay. Every
//! byte is written once, as the elementwise kernels do; the matrix products themselves are left out, so that
//! what memory costs is seen.

use std::time::Instant;

use c10_core::DataPtr;
use c10_core::allocator::Allocator;

const LAYERS: usize = 2;
/// One 32-bit float for each unit of each member of the batch.
const STATE_BYTES: usize = 650 * 20 * 4;
const GATES_BYTES: usize = 4 * STATE_BYTES;

/// The time steps of a sequence.
pub const STEPS: usize = 35;

/// When a sequence's kept buffers are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// All in the last step: the graph is dropped.
    InOneBurst,
    /// Step by step, the last one's first, in a backward pass of as many steps, which has temporary gradients.
    Backwards,
}

/// What one time step leaves for the backward pass.
type Kept = Vec<DataPtr>;

/// Runs `sequences` sequences, and gives the nanoseconds of each time step.
pub fn run(allocator: &dyn Allocator, sequences: usize, free: Free) -> Vec<u64> {
    let mut steps_ns = Vec::with_capacity(sequences * 2 * STEPS);
    (0..sequences).for_each(|_| sequence(allocator, free, &mut steps_ns));
    steps_ns
}

fn sequence(allocator: &dyn Allocator, free: Free, steps_ns: &mut Vec<u64>) {
    let mut graph: Vec<Kept> = Vec::with_capacity(STEPS);
    for step in 1..=STEPS {
        let begun = Instant::now();
        graph.push(forward(allocator));
        if step == STEPS && free == Free::InOneBurst {
            graph.clear();
        }
        steps_ns.push(nanoseconds(begun));
    }
    while let Some(kept) = graph.pop() {
        let begun = Instant::now();
        backward(allocator, kept);
        steps_ns.push(nanoseconds(begun));
    }
}

fn forward(allocator: &dyn Allocator) -> Kept {
    let mut kept = Kept::with_capacity(4 * LAYERS);
    let mut scratch = Vec::with_capacity(2 * LAYERS);
    for _ in 0..LAYERS {
        scratch.extend([written(allocator, GATES_BYTES), written(allocator, GATES_BYTES)]);
        kept.push(written(allocator, GATES_BYTES));
        kept.extend((0..3).map(|_| written(allocator, STATE_BYTES)));
    }
    kept
}

fn backward(allocator: &dyn Allocator, kept: Kept) {
    for _ in 0..LAYERS {
        let _gates = written(allocator, GATES_BYTES);
        let _hidden = written(allocator, STATE_BYTES);
        let _cell = written(allocator, STATE_BYTES);
    }
    drop(kept);
}

/// A buffer of which every byte has been written.
fn written(allocator: &dyn Allocator, bytes: usize) -> DataPtr {
    let buffer = allocator.allocate(bytes).expect("a few megabytes are to be had");
    // SAFETY: the allocator promises `bytes` bytes of host memory that nobody else uses.
    unsafe { buffer.as_ptr().write_bytes(1, bytes) };
    buffer
}

fn nanoseconds(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}
