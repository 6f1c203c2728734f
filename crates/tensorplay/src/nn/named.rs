//! Visitors that walk a whole tree of modules: those that list tensors by name, and the one that switches training.

use aten::Tensor;

use super::module::Module;
use super::parameter::{Buffer, Parameter, Training};
use super::visit::{Visitor, VisitorMut};

/// Names and tensors in the order in which they were seen.
pub(super) type Named = Vec<(String, Tensor)>;

macro_rules! lister {
    ($(#[$docs:meta])* $Name:ident, parameters: $parameters:literal, buffers: $buffers:literal) => {
        $(#[$docs])*
        pub(super) struct $Name<'a> {
            found: &'a mut Named,
            /// The names of the modules around, each with its point.
            prefix: String,
        }

        impl<'a> $Name<'a> {
            pub(super) fn new(found: &'a mut Named) -> Self {
                Self { found, prefix: String::new() }
            }
        }

        impl Visitor for $Name<'_> {
            fn parameter(&mut self, name: &str, parameter: &Parameter) {
                if $parameters {
                    self.found.push((format!("{}{name}", self.prefix), parameter.tensor().clone()));
                }
            }

            fn buffer(&mut self, name: &str, buffer: &Buffer) {
                if $buffers {
                    self.found.push((format!("{}{name}", self.prefix), buffer.tensor().clone()));
                }
            }

            fn module(&mut self, name: &str, module: &dyn Module) {
                let outer = self.prefix.len();
                self.prefix.push_str(name);
                self.prefix.push('.');
                module.visit(self);
                self.prefix.truncate(outer);
            }
        }
    };
}

lister!(
    /// Lists parameters.
    Parameters, parameters: true, buffers: false
);
lister!(
    /// Lists buffers.
    Buffers, parameters: false, buffers: true
);
lister!(
    /// Lists both, as a state dict has them.
    All, parameters: true, buffers: true
);

/// Each tensor once, under its first name.
pub(super) fn distinct(all: Named) -> Named {
    let mut kept: Named = Vec::with_capacity(all.len());
    for (name, tensor) in all {
        if !kept.iter().any(|(_, other)| other.is_same(&tensor)) {
            kept.push((name, tensor));
        }
    }
    kept
}

/// Switches training in the whole tree.
pub(super) struct Train(pub(super) Training);

impl VisitorMut for Train {
    fn training(&mut self, training: &mut Training) {
        *training = self.0;
    }

    fn module(&mut self, _: &str, module: &mut dyn Module) {
        module.visit_mut(self);
    }
}
