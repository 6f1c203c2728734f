//! Which part each argument of an overload plays in its method.

use std::ops::Range;

use super::Overload;
use super::defaults;
use super::names;
use super::rust_types::{self, Borrow};
use super::schema::{Argument, Base};

/// The method's parameters, and what the handle is called with.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) receiver: bool,
    /// `name: type` of what has no default, in order.
    pub(crate) required: Vec<Parameter>,
    /// What has a default, and goes into the struct of options.
    pub(crate) fields: Vec<Field>,
    /// Whether a `TensorOptions` carries the arguments that say how a new tensor is to be.
    pub(crate) makes_tensor: bool,
    /// Where results go.
    pub(crate) outs: Vec<Parameter>,
    /// The handle's arguments, in order.
    pub(crate) call: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) ty: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) ty: String,
    pub(crate) borrows: bool,
    pub(crate) default: String,
    pub(crate) shown: String,
}

/// What a `TensorOptions` carries, in the order of schemas; `memory_format` may follow.
const TENSOR_OPTIONS: [&str; 4] = ["dtype", "layout", "device", "pin_memory"];

impl Signature {
    pub(crate) fn of(overload: &Overload) -> Result<Self, String> {
        let arguments = &overload.schema.arguments;
        let mut signature = Self {
            receiver: overload.schema.has_receiver(),
            required: Vec::new(),
            fields: Vec::new(),
            makes_tensor: false,
            outs: Vec::new(),
            call: Vec::new(),
        };
        let folded = tensor_options(arguments);
        for (index, argument) in arguments.iter().enumerate() {
            let is_folded = folded.as_ref().is_some_and(|folded| folded.contains(&index));
            signature.add(index, argument, is_folded).map_err(|what| overload.fault(what))?;
        }
        Ok(signature)
    }

    fn add(&mut self, index: usize, argument: &Argument, is_folded: bool) -> Result<(), String> {
        if index == 0 && self.receiver {
            self.call.push("self".to_owned());
            return Ok(());
        }
        let name = names::parameter(&argument.name);
        let default = match &argument.default {
            Some(text) => Some((defaults::expression(&argument.ty, text)?, text)),
            None => None,
        };
        if let (true, Some((default, _))) = (is_folded, &default) {
            self.makes_tensor = true;
            let otherwise = if default == "None" { String::new() } else { format!(".or({default})") };
            self.call.push(format!("tensor_options.{name}{otherwise}"));
            return Ok(());
        }
        if let Some((default, text)) = default {
            self.call.push(format!("options.{name}"));
            let ty = rust_types::argument(&argument.ty, Borrow::Named);
            let borrows = rust_types::borrows(&argument.ty);
            self.fields.push(Field { name, ty, borrows, default, shown: defaults::shown(text) });
            return Ok(());
        }
        let is_scalar =
            argument.ty.base == Base::Scalar && argument.ty.list.is_none() && !argument.ty.optional;
        self.call.push(if is_scalar { format!("{name}.into()") } else { name.clone() });
        let ty = match is_scalar {
            true => "impl Into<Scalar>".to_owned(),
            false => rust_types::argument(&argument.ty, Borrow::Elided),
        };
        let parameters = if argument.is_out() { &mut self.outs } else { &mut self.required };
        parameters.push(Parameter { name, ty });
        Ok(())
    }
}

/// The arguments that a `TensorOptions` stands for, if they are there in a row.
fn tensor_options(arguments: &[Argument]) -> Option<Range<usize>> {
    let is_option = |argument: &Argument, name: &str| {
        argument.keyword_only && argument.ty.optional && argument.default.is_some() && argument.name == name
    };
    let start = arguments.windows(TENSOR_OPTIONS.len()).position(|window| {
        window.iter().zip(TENSOR_OPTIONS).all(|(argument, name)| is_option(argument, name))
    })?;
    let end = start + TENSOR_OPTIONS.len();
    let more = arguments.get(end).is_some_and(|next| is_option(next, "memory_format"));
    Some(start..end + usize::from(more))
}
