//! [`Gradients`]: gradients on their way, each defined or not.

use aten::Tensor;
use smallvec::SmallVec;

/// Gradients of a node's outputs or inputs. `None` stands for zeros that nobody made.
pub(crate) type Gradients = SmallVec<[Option<Tensor>; 2]>;

/// So many that are not defined.
#[inline]
pub(crate) fn undefined(count: usize) -> Gradients {
    let mut gradients = Gradients::with_capacity(count);
    for _ in 0..count {
        gradients.push(None);
    }
    gradients
}
