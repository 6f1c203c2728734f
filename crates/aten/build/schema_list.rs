//! `schemas.rs`: every overload's schema and documentation, for registration and listing.

use std::fmt::Write as _;

use super::Overload;
use super::names;
use super::rust_types::{self, Borrow};
use super::schema::Argument;

pub(crate) fn write(overloads: &[Overload]) -> String {
    let mut out = String::from("pub(crate) static SCHEMAS: &[SchemaLine] = &[\n");
    for overload in overloads {
        let _ = writeln!(
            out,
            "    SchemaLine {{\n        group: {:?},\n        schema: {:?},\n        docs: {:?},\n        \
             dtypes: {:?},\n    }},",
            overload.group,
            overload.text,
            overload.docs.join("\n"),
            overload.dtypes,
        );
    }
    out.push_str("];\n");
    out
}

/// For other build scripts, a line an overload, with tabs between: the handle, the name, the kind, the arguments
/// (`name|type in Rust`, with `;` between) and how many results there are.
pub(crate) fn write_lines(overloads: &[Overload]) -> String {
    let line = |overload: &Overload| {
        let schema = &overload.schema;
        let kind = match () {
            () if schema.is_out() => "out",
            () if schema.is_in_place() => "in_place",
            () if overload.text.contains('!') => "writing",
            () if overload.text.contains("Tensor(a") => "view",
            () => "functional",
        };
        let argument = |argument: &Argument| {
            format!("{}|{}", argument.name, rust_types::argument(&argument.ty, Borrow::Static))
        };
        let arguments: Vec<_> = schema.arguments.iter().map(argument).collect();
        let (handle, name) = (names::handle(overload), schema.full_name());
        format!("{handle}\t{name}\t{kind}\t{}\t{}\n", arguments.join(";"), schema.returns.len())
    };
    overloads.iter().map(line).collect()
}
