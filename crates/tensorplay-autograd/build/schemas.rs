//! The operators of `aten`, as its build script lists them.

use std::collections::BTreeMap;

/// One overload.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) handle: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Names and Rust types.
    pub(crate) arguments: Vec<(String, String)>,
}

/// All overloads, by name.
pub(crate) type Schemas = BTreeMap<String, Schema>;

pub(crate) fn read(text: &str) -> Result<Schemas, String> {
    let mut schemas = Schemas::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [handle, name, kind, arguments, _] = fields[..] else {
            return Err(format!("`{line}` is no line of a list of schemas"));
        };
        let arguments = arguments.split(';').filter_map(|argument| argument.split_once('|'));
        let arguments = arguments.map(|(name, ty)| (name.to_owned(), ty.to_owned())).collect();
        let (handle, kind) = (handle.to_owned(), kind.to_owned());
        schemas.insert(name.to_owned(), Schema { handle, name: name.to_owned(), kind, arguments });
    }
    Ok(schemas)
}

impl Schema {
    /// The name without its overload.
    pub(crate) fn base(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }

    /// The name of the overload's in-place form.
    pub(crate) fn in_place_name(&self) -> String {
        match self.name.split_once('.') {
            Some((base, overload)) => format!("{base}_.{overload}"),
            None => format!("{}_", self.name),
        }
    }
}
