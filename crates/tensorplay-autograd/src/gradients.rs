//! [`Gradients`]: gradients on their way, each defined or not.

use aten::Tensor;
use smallvec::SmallVec;

/// Gradients of a node's outputs or inputs. `None` stands for zeros that nobody made.
pub(crate) type Gradients = SmallVec<[Option<Tensor>; 2]>;
