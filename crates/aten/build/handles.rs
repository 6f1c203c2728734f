//! `handles.rs`: a typed handle for each overload.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::Overload;
use super::names;
use super::rust_types::{self, Borrow};

pub(crate) fn write(overloads: &[Overload]) -> Result<String, String> {
    let mut out = String::from(USES);
    let mut owners: HashMap<String, &Overload> = HashMap::new();
    for overload in overloads {
        let name = names::handle(overload);
        if let Some(other) = owners.insert(name.clone(), overload) {
            return Err(overload.fault(format_args!(
                "its handle `{name}` is that of {}:{}: {} already",
                other.path,
                other.line,
                other.schema.full_name()
            )));
        }
        let schema = &overload.schema;
        let arguments: Vec<_> = schema
            .arguments
            .iter()
            .map(|argument| rust_types::argument(&argument.ty, Borrow::Static))
            .collect();
        let returned = rust_types::returned(schema).map_err(|what| overload.fault(what))?;
        let arrow = if returned == "()" { String::new() } else { format!(" -> {returned}") };
        let _ = write!(
            out,
            "\n/// {}\n///\n/// `{}`\npub static {name}: Op<fn({}){arrow}> = Op::new(\"aten::{}\", \"{}\");\n",
            overload.docs.join("\n/// "),
            overload.text,
            arguments.join(", "),
            schema.name,
            schema.overload
        );
    }
    Ok(out)
}

const USES: &str = "\
#[allow(unused_imports)]
use c10_core::{Device, Layout, MemoryFormat, Scalar, ScalarType};

#[allow(unused_imports)]
use crate::dispatch::Op;
#[allow(unused_imports)]
use crate::random::Generator;
#[allow(unused_imports)]
use crate::tensor::Tensor;
";
