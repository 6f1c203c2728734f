//! The common shape of several (`at::infer_size`).

use crate::error::{Error, Result};
use crate::tensor::Dims;

/// The shape that both broadcast to: aligned at the last dimension, sizes equal or one of them 1.
pub(crate) fn broadcast(a: &[i64], b: &[i64]) -> Result<Dims> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut sizes = Dims::from(long);
    let lead = long.len() - short.len();
    for (i, &size) in short.iter().enumerate() {
        let at = lead + i;
        if sizes[at] == 1 {
            sizes[at] = size;
        } else if size != 1 && size != sizes[at] {
            // PyTorch's text, which counts dimensions of the longer shape.
            let (of_a, of_b) = if a.len() >= b.len() { (sizes[at], size) } else { (size, sizes[at]) };
            return Err(Error::shape(format!(
                "The size of tensor a ({of_a}) must match the size of tensor b ({of_b}) at non-singleton \
                 dimension {at}"
            )));
        }
    }
    Ok(sizes)
}
