//! What a kernel's body sees of the device's memory, and how it is run.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::access::Piece;
use super::memory::Memory;
use crate::driver::KernelMemory;

/// A declared range: what lies behind it, and its length.
type Declared = (Vec<Piece>, u64);

/// The declared ranges over the simulator's memory.
struct DeclaredMemory<'a> {
    memory: &'a mut Memory,
    reads: Vec<Declared>,
    writes: Vec<Declared>,
}

fn declared<'a>(ranges: &'a [Declared], verb: &str, index: usize, offset: u64, len: usize) -> &'a [Piece] {
    let Some((pieces, bytes)) = ranges.get(index) else {
        panic!("{verb} range {index}, and {} are declared", ranges.len());
    };
    let inside = offset.checked_add(len as u64).is_some_and(|end| end <= *bytes);
    assert!(inside, "{verb} {len} bytes at offset {offset} of range {index}, which has {bytes} bytes");
    pieces
}

impl KernelMemory for DeclaredMemory<'_> {
    fn read(&self, index: usize, offset: u64, out: &mut [u8]) {
        let pieces = declared(&self.reads, "reads", index, offset, out.len());
        self.memory.read(pieces, offset, out);
    }

    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]) {
        let pieces = declared(&self.writes, "writes", index, offset, bytes.len());
        self.memory.write(pieces, offset, bytes);
    }
}

/// Runs a body. The error is the message of its panic; what it wrote before that stays.
pub(super) fn run_body(
    memory: &mut Memory,
    reads: Vec<Declared>,
    writes: Vec<Declared>,
    body: &mut dyn FnMut(&mut dyn KernelMemory),
) -> Result<(), String> {
    let mut memory = DeclaredMemory { memory, reads, writes };
    // The memory is whole between any two accesses, so a panic between them leaves it whole.
    catch_unwind(AssertUnwindSafe(|| body(&mut memory))).map_err(|payload| message_of(&*payload))
}

pub(super) fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
