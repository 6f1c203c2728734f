//! A schema's types in Rust: as markers of a handle, and as parameters, fields and results of methods.

use super::schema::{Base, Schema, Type};

/// The lifetime that borrowed types are written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Borrow {
    /// `&T`, as parameters have it.
    Elided,
    /// `&'a T`, as the fields of options have it.
    Named,
    /// `&'static T`, as a handle's markers have it.
    Static,
}

/// The type of an argument.
pub(crate) fn argument(ty: &Type, borrow: Borrow) -> String {
    let r = match borrow {
        Borrow::Elided => "&",
        Borrow::Named => "&'a ",
        Borrow::Static => "&'static ",
    };
    let owned = owned(ty.base);
    let borrowed = matches!(ty.base, Base::Tensor | Base::Str | Base::Generator);
    let one = match ty.list {
        Some(list) if list.of_optional => format!("{r}[Option<{owned}>]"),
        Some(_) => format!("{r}[{owned}]"),
        None if borrowed => format!("{r}{owned}"),
        None => owned.to_owned(),
    };
    if ty.optional { format!("Option<{one}>") } else { one }
}

/// Whether the type of an argument borrows.
pub(crate) fn borrows(ty: &Type) -> bool {
    ty.list.is_some() || matches!(ty.base, Base::Tensor | Base::Str | Base::Generator)
}

/// The type of what a call returns: nothing where the results are arguments that it wrote.
pub(crate) fn returned(schema: &Schema) -> Result<String, String> {
    let written = schema.returns.iter().filter(|ty| ty.written).count();
    if written == schema.returns.len() {
        return Ok("()".to_owned());
    }
    if written > 0 {
        return Err("returns both written arguments and new results".to_owned());
    }
    let mut types = schema.returns.iter().map(one_returned).collect::<Result<Vec<_>, _>>()?;
    // Results that nobody asked for are undefined.
    if schema.arguments.iter().any(|argument| argument.name == "output_mask") {
        types.iter_mut().filter(|ty| *ty == "Tensor").for_each(|ty| "Option<Tensor>".clone_into(ty));
    }
    Ok(if types.len() == 1 { types.concat() } else { format!("({})", types.join(", ")) })
}

fn one_returned(ty: &Type) -> Result<String, String> {
    if ty.optional || ty.list.is_some_and(|list| list.of_optional) {
        return Err("returns something optional".to_owned());
    }
    let owned = match ty.base {
        Base::Str | Base::Generator => return Err(format!("returns a {:?}", ty.base)),
        base => owned(base),
    };
    Ok(if ty.list.is_some() { format!("Vec<{owned}>") } else { owned.to_owned() })
}

fn owned(base: Base) -> &'static str {
    match base {
        Base::Tensor => "Tensor",
        Base::Int => "i64",
        Base::Float => "f64",
        Base::Bool => "bool",
        Base::Scalar => "Scalar",
        Base::Str => "str",
        Base::ScalarType => "ScalarType",
        Base::Layout => "Layout",
        Base::Device => "Device",
        Base::MemoryFormat => "MemoryFormat",
        Base::Generator => "Generator",
    }
}
