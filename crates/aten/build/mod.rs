//! From operator tables to Rust: what the build script of `aten` runs.
//!
//! A table (`src/ops/GROUP.ops`) holds one overload after another:
//!
//! ```text
//! # Comments and empty lines are skipped.
//! add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
//!   What it does, in lines of Rust documentation.
//!   dtypes: all
//!   rust: add
//! ```
//!
//! The schema is written in PyTorch's grammar without its namespace, which is `aten`. `dtypes:` says in words
//! which dtypes are taken; `rust:` names the method where the rule of [`names`] gives none that is free, and
//! `rust: -` gives it none. From it come the typed handles, the methods of `Tensor` and the list of schemas that
//! are registered.
//!
//! It stands apart from `build.rs` so that the tests of the crate can run it on small tables.

mod table;
mod schema;
mod schema_parse;
mod names;
mod rust_types;
mod defaults;
mod handles;
mod signature;
mod options;
mod methods;
mod schema_list;

pub(crate) use table::Overload;

/// The files of Rust that the crate includes.
#[derive(Debug)]
pub(crate) struct Generated {
    pub(crate) handles: String,
    pub(crate) methods: String,
    pub(crate) schemas: String,
    /// The schemas, for build scripts of crates above.
    pub(crate) list: String,
}

/// Reads tables, each a path and its text, and writes the Rust for them.
///
/// # Errors
/// One line per fault, `path:line: what is wrong`.
pub(crate) fn generate(tables: &[(String, String)]) -> Result<Generated, String> {
    let mut overloads = Vec::new();
    let mut faults = Vec::new();
    for (path, text) in tables {
        match table::read(path, text) {
            Ok(read) => overloads.extend(read),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    Ok(Generated {
        handles: handles::write(&overloads)?,
        methods: methods::write(&overloads)?,
        schemas: schema_list::write(&overloads),
        list: schema_list::write_lines(&overloads),
    })
}
