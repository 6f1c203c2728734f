//! How the parts of a module are found: [`Visitor`], [`VisitorMut`], [`Part`] and the macro
//! [`parts!`](crate::parts), which writes the two methods that every [`Module`] has.

use super::module::Module;
use super::parameter::{Buffer, Parameter, Training};

/// Is shown the parts of a module, each with its name there.
pub trait Visitor {
    /// A parameter of the module itself.
    fn parameter(&mut self, name: &str, parameter: &Parameter);

    /// A buffer of the module itself.
    fn buffer(&mut self, name: &str, buffer: &Buffer);

    /// A module inside it. To see its parts too, call [`Module::visit`] on it.
    fn module(&mut self, name: &str, module: &dyn Module);
}

/// As [`Visitor`], with leave to change what it is shown.
pub trait VisitorMut {
    /// A parameter of the module itself.
    fn parameter(&mut self, name: &str, parameter: &mut Parameter) {
        let _ = (name, parameter);
    }

    /// A buffer of the module itself.
    fn buffer(&mut self, name: &str, buffer: &mut Buffer) {
        let _ = (name, buffer);
    }

    /// Whether the module is being trained, where it matters to it.
    fn training(&mut self, training: &mut Training) {
        let _ = training;
    }

    /// A module inside it.
    fn module(&mut self, name: &str, module: &mut dyn Module);
}

/// What may be named in [`parts!`](crate::parts): a parameter, a buffer, a module, whether it is being trained; one
/// that may be missing (`Option`); several in a row, named by number (`Vec`, PyTorch's `ModuleList`).
pub trait Part {
    /// Shows itself.
    fn show(&self, name: &str, visitor: &mut dyn Visitor);

    /// Shows itself, to be changed.
    fn show_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut);
}

impl<M: Module> Part for M {
    fn show(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.module(name, self);
    }

    fn show_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        visitor.module(name, self);
    }
}

impl Part for Parameter {
    fn show(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.parameter(name, self);
    }

    fn show_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        visitor.parameter(name, self);
    }
}

impl Part for Buffer {
    fn show(&self, name: &str, visitor: &mut dyn Visitor) {
        visitor.buffer(name, self);
    }

    fn show_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        visitor.buffer(name, self);
    }
}

impl Part for Training {
    fn show(&self, _: &str, _: &mut dyn Visitor) {}

    fn show_mut(&mut self, _: &str, visitor: &mut dyn VisitorMut) {
        visitor.training(self);
    }
}

impl<P: Part> Part for Option<P> {
    fn show(&self, name: &str, visitor: &mut dyn Visitor) {
        if let Some(part) = self {
            part.show(name, visitor);
        }
    }

    fn show_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        if let Some(part) = self {
            part.show_mut(name, visitor);
        }
    }
}

/// A module of its own, so that its parts are named `list.0`, `list.1` and so on.
impl<P: Part + std::fmt::Debug + Send + Sync> Module for Vec<P> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        for (index, part) in self.iter().enumerate() {
            part.show(&index.to_string(), visitor);
        }
    }

    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        for (index, part) in self.iter_mut().enumerate() {
            part.show_mut(&index.to_string(), visitor);
        }
    }
}

/// Writes the methods [`visit`](crate::nn::Module::visit) and [`visit_mut`](crate::nn::Module::visit_mut) of a
/// module, from the fields that are its [parts](crate::nn::Part). Parameters and buffers come first, as in PyTorch's
/// state dicts, then the modules inside it.
///
/// ```
/// use tensorplay::prelude::*;
///
/// #[derive(Debug)]
/// struct Net {
///     hidden: nn::Linear,
///     head: nn::Linear,
/// }
///
/// impl Module for Net {
///     tensorplay::parts!(hidden, head);
/// }
///
/// impl Forward for Net {
///     fn forward(&self, input: &Tensor) -> Result<Tensor> {
///         self.head.forward(&self.hidden.forward(input)?.relu()?)
///     }
/// }
///
/// let net = Net { hidden: nn::Linear::new(3, 4)?, head: nn::Linear::new(4, 1)? };
/// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["hidden.weight", "hidden.bias", "head.weight", "head.bias"]);
/// # Ok::<(), tensorplay::Error>(())
/// ```
#[macro_export]
macro_rules! parts {
    ($($field:ident),* $(,)?) => {
        fn visit(&self, visitor: &mut dyn $crate::nn::Visitor) {
            let _ = &visitor;
            $($crate::nn::Part::show(&self.$field, stringify!($field), visitor);)*
        }

        fn visit_mut(&mut self, visitor: &mut dyn $crate::nn::VisitorMut) {
            let _ = &visitor;
            $($crate::nn::Part::show_mut(&mut self.$field, stringify!($field), visitor);)*
        }
    };
}
