//! [`Gradients`]: gradients on their way, each defined or not.

use aten::Tensor;
use smallvec::SmallVec;

/// Gradients of a node's outputs or inputs. `None` stands for zeros that nobody made.
pub(crate) type Gradients = SmallVec<[Option<Tensor>; 2]>;

/// So many that are not defined.
#[inline]
pub(crate) fn undefined(count: usize) -> Gradients {
    match count {
        1 => SmallVec::from_buf_and_len([None, None], 1),
        2 => SmallVec::from_buf([None, None]),
        _ => SmallVec::from_elem(None, count),
    }
}

/// Makes all of them undefined.
#[inline]
pub(crate) fn give_up(gradients: &mut Gradients) {
    gradients.iter_mut().for_each(|gradient| *gradient = None);
}

/// Makes them so many that are not defined.
#[inline]
pub(crate) fn undefine(gradients: &mut Gradients, count: usize) {
    match gradients.len() == count {
        true => give_up(gradients),
        false => *gradients = undefined(count),
    }
}
