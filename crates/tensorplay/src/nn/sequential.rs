//! [`Sequential`]: modules one after another.

use aten::{Result, Tensor};

use super::module::{Forward, Module};
use super::visit::{Part, Visitor, VisitorMut};

/// Modules one after another, named by number (`torch.nn.Sequential`).
///
/// ```
/// use tensorplay::prelude::*;
///
/// let model = nn::Sequential::new().push(nn::Linear::new(4, 8)?).push(nn::Relu).push(nn::Linear::new(8, 2)?);
/// let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0.weight", "0.bias", "2.weight", "2.bias"]);
/// assert_eq!(*model.forward(&Tensor::zeros(&[3, 4], ScalarType::Float32)?)?.sizes(), [3, 2]);
/// # Ok::<(), tensorplay::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Sequential {
    modules: Vec<Box<dyn Forward>>,
}

impl Sequential {
    /// With nothing in it: it gives back what it is given.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more module at its end.
    #[must_use]
    pub fn push(mut self, module: impl Forward + 'static) -> Self {
        self.modules.push(Box::new(module));
        self
    }

    /// The modules in order.
    pub fn modules(&self) -> &[Box<dyn Forward>] {
        &self.modules
    }
}

impl Module for Sequential {
    fn visit(&self, visitor: &mut dyn Visitor) {
        for (index, module) in self.modules.iter().enumerate() {
            module.show(&index.to_string(), visitor);
        }
    }

    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        for (index, module) in self.modules.iter_mut().enumerate() {
            module.show_mut(&index.to_string(), visitor);
        }
    }
}

impl Forward for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.modules.iter().try_fold(input.clone(), |x, module| module.forward(&x))
    }
}
