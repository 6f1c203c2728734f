//! `schemas.rs`: every overload's schema and documentation, for registration and listing.

use std::fmt::Write as _;

use super::Overload;

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
