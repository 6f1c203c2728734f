//! [`Unpacked`]: what came out of hooks while a node runs.

use std::cell::RefCell;

use aten::{Result, Tensor};

use crate::node::Node;
use crate::saved::SavedTensor;

/// Each saved tensor is asked of its hooks once in a run, however many gradients need it: they may compute it again
/// for each time.
#[derive(Debug, Default)]
pub(crate) struct Unpacked(RefCell<Vec<(usize, Tensor)>>);

impl Unpacked {
    /// The tensor of `saved`, which stays where it is while this lives.
    pub(crate) fn unpack(&self, saved: &SavedTensor, node: &Node) -> Result<Tensor> {
        if !saved.is_packed() {
            return saved.unpack(node);
        }
        let place = std::ptr::from_ref(saved).addr();
        if let Some((_, tensor)) = self.0.borrow().iter().find(|(of, _)| *of == place) {
            return Ok(tensor.clone());
        }
        // Nothing is borrowed while the hook runs.
        let tensor = saved.unpack(node)?;
        self.0.borrow_mut().push((place, tensor.clone()));
        Ok(tensor)
    }
}
