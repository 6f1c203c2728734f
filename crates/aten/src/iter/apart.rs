//! Whether several threads may share a walk.
//!
//! The overlap rules of PyTorch let operands through that are too hard to judge: outputs whose elements share
//! memory (`as_strided`), inputs that lie across an output. One thread walks them soundly, in some order; two
//! would race. So a walk is shared only if each element of an output is surely one place of memory, which no
//! other element of the walk reads or writes.

use std::ops::Range;

use smallvec::SmallVec;

use super::operand::{Operand, Source};
use super::plan::General;

/// Whether threads that take different elements of the walk never touch the same memory, but to read it.
pub(super) fn threads_stay_apart(general: &General<'_>, outputs: usize) -> bool {
    let (written, read) = general.operands.split_at(outputs);
    written.iter().enumerate().all(|(i, output)| {
        has_own_places(&general.sizes, output)
            && written[..i].iter().all(|other| bytes_apart(output, other))
            && read.iter().all(|input| bytes_apart(output, input) || same_places(output, input))
    })
}

/// Each dimension's step is beyond all that the smaller steps reach.
fn has_own_places(sizes: &[i64], output: &Operand<'_>) -> bool {
    let mut dims: SmallVec<[(i64, i64); 6]> = output
        .strides
        .iter()
        .zip(sizes)
        .filter(|&(_, &size)| size > 1)
        .map(|(&stride, &size)| (stride, size))
        .collect();
    dims.sort_unstable();
    let mut reach = output.dtype.element_size() as i64;
    dims.into_iter().all(|(stride, size)| {
        let beyond = stride >= reach;
        reach = stride.saturating_mul(size - 1).saturating_add(reach);
        beyond
    })
}

fn bytes_apart(a: &Operand<'_>, b: &Operand<'_>) -> bool {
    match (&a.source, &b.source) {
        (Source::Borrowed(of_a), Source::Borrowed(of_b)) => {
            let (a, b) = (bytes(a), bytes(b));
            !of_a.storage.is_same(&of_b.storage) || a.end <= b.start || b.end <= a.start
        }
        // Everything else is this call's own.
        _ => true,
    }
}

fn same_places(a: &Operand<'_>, b: &Operand<'_>) -> bool {
    a.begin_bytes == b.begin_bytes
        && a.strides == b.strides
        && a.dtype.element_size() == b.dtype.element_size()
}

fn bytes(operand: &Operand<'_>) -> Range<usize> {
    operand.begin_bytes..operand.end_bytes
}
