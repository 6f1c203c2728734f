//! A table's lines, read into overloads.

use super::schema::Schema;
use super::schema_parse;

/// One entry of a table.
#[derive(Debug)]
pub(crate) struct Overload {
    /// The table's path, and the line of the schema.
    pub(crate) path: String,
    pub(crate) line: usize,
    /// The table's file name without its ending.
    pub(crate) group: String,
    pub(crate) schema: Schema,
    /// The schema as it is written, with the namespace.
    pub(crate) text: String,
    pub(crate) docs: Vec<String>,
    pub(crate) dtypes: Option<String>,
    pub(crate) rust_name: Option<String>,
}

impl Overload {
    /// A fault in this entry.
    pub(crate) fn fault(&self, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {}: {what}", self.path, self.line, self.schema.full_name())
    }
}

/// Reads one table.
pub(crate) fn read(path: &str, text: &str) -> Result<Vec<Overload>, String> {
    let group = std::path::Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut overloads: Vec<Overload> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fault = |what: &str| format!("{path}:{}: {what}", index + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            let last = overloads.last_mut().ok_or_else(|| fault("an indented line before any schema"))?;
            read_detail(last, line.trim()).map_err(|what| fault(&what))?;
            continue;
        }
        let schema = schema_parse::parse(line.trim_end()).map_err(|what| fault(&what))?;
        overloads.push(Overload {
            path: path.to_owned(),
            line: index + 1,
            group: group.clone(),
            schema,
            text: format!("aten::{}", line.trim_end()),
            docs: Vec::new(),
            dtypes: None,
            rust_name: None,
        });
    }
    match overloads.iter().find(|overload| overload.docs.is_empty()) {
        Some(overload) => {
            Err(overload.fault("says nothing about what it does: add an indented line below it"))
        }
        None => Ok(overloads),
    }
}

/// An indented line: a property of the entry above, or a line of its documentation.
fn read_detail(overload: &mut Overload, line: &str) -> Result<(), String> {
    let (slot, value) = if let Some(value) = line.strip_prefix("dtypes:") {
        (&mut overload.dtypes, value)
    } else if let Some(value) = line.strip_prefix("rust:") {
        (&mut overload.rust_name, value)
    } else {
        overload.docs.push(line.to_owned());
        return Ok(());
    };
    let value = value.trim();
    if value.is_empty() {
        return Err(format!("`{line}` has no value"));
    }
    match slot.replace(value.to_owned()) {
        Some(before) => Err(format!("`{line}` after `{before}`: one is enough")),
        None => Ok(()),
    }
}
