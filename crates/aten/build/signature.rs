//! Which part each argument of an overload plays in its method.

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

/// What a `TensorOptions` carries, by the argument's name and the accessor.
const TENSOR_OPTIONS: [(&str, &str); 4] = [
    ("dtype", "dtype_opt"),
    ("layout", "layout_opt"),
    ("device", "device_opt"),
    ("pin_memory", "pinned_memory_opt"),
];

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
            let accessor = folded.and_then(|start| accessor(argument, index.checked_sub(start)?));
            signature.add(index, argument, accessor).map_err(|what| overload.fault(what))?;
        }
        Ok(signature)
    }

    fn add(&mut self, index: usize, argument: &Argument, accessor: Option<&str>) -> Result<(), String> {
        if index == 0 && self.receiver {
            self.call.push("self".to_owned());
            return Ok(());
        }
        let name = names::parameter(&argument.name);
        let default = match &argument.default {
            Some(text) => Some((defaults::expression(&argument.ty, text)?, text)),
            None => None,
        };
        if let (Some(accessor), Some((default, _))) = (accessor, &default) {
            self.makes_tensor = true;
            let otherwise = if default == "None" { String::new() } else { format!(".or({default})") };
            self.call.push(format!("tensor_options.{accessor}(){otherwise}"));
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

/// Where the arguments of a `TensorOptions` begin, if they are there in a row.
fn tensor_options(arguments: &[Argument]) -> Option<usize> {
    arguments.windows(TENSOR_OPTIONS.len()).position(|window| {
        window.iter().zip(TENSOR_OPTIONS).all(|(argument, (name, _))| {
            argument.keyword_only
                && argument.ty.optional
                && argument.default.is_some()
                && argument.name == name
        })
    })
}

/// How the argument at some place after the first of them is read from a `TensorOptions`.
fn accessor(argument: &Argument, place: usize) -> Option<&'static str> {
    match TENSOR_OPTIONS.get(place) {
        Some((_, accessor)) => Some(accessor),
        None if place == TENSOR_OPTIONS.len()
            && argument.ty.base == Base::MemoryFormat
            && argument.ty.optional =>
        {
            Some("memory_format_opt")
        }
        None => None,
    }
}
