//! The structs that carry what a method's schema gives defaults to.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::names;
use super::signature::{Field, Signature};

/// The structs written so far. An in-place or out form shares the struct of the plain form above it in the
/// tables where the options are equal.
#[derive(Debug, Default)]
pub(crate) struct Structs {
    by_name: HashMap<String, Vec<Field>>,
}

impl Structs {
    /// The struct for a method's options, with its lifetime, and the text that defines it where it is new.
    pub(crate) fn of(
        &mut self,
        method: &str,
        signature: &mut Signature,
    ) -> Option<Result<(String, String), String>> {
        if signature.fields.is_empty() {
            return None;
        }
        let fields = std::mem::take(&mut signature.fields);
        let shared = names::options_struct(names::family(method));
        let own = names::options_struct(method);
        let lifetime = if fields.iter().any(|field| field.borrows) { "<'_>" } else { "" };
        if self.by_name.get(&shared) == Some(&fields) {
            return Some(Ok((format!("{shared}{lifetime}"), String::new())));
        }
        let is_plain = names::family(method) == method;
        let name = if is_plain { shared } else { own };
        let text = define(&name, method, &fields);
        Some(match self.by_name.insert(name.clone(), fields) {
            None => Ok((format!("{name}{lifetime}"), text)),
            Some(_) => Err(format!("its options `{name}` are those of another method already")),
        })
    }
}

fn define(name: &str, method: &str, fields: &[Field]) -> String {
    let lifetime = if fields.iter().any(|field| field.borrows) { "<'a>" } else { "" };
    let elided = if lifetime.is_empty() { "" } else { "<'_>" };
    let mut out =
        format!("\n/// What `{method}` takes beside its required arguments, each with PyTorch's default.\n");
    let _ = writeln!(out, "#[derive(Clone, Copy, Debug)]\npub struct {name}{lifetime} {{");
    for field in fields {
        let _ = writeln!(out, "    /// By default `{}`.\n    pub {}: {},", field.shown, field.name, field.ty);
    }
    let _ = writeln!(
        out,
        "}}\n\nimpl Default for {name}{elided} {{\n    fn default() -> Self {{\n        Self {{"
    );
    for field in fields {
        let _ = writeln!(out, "            {}: {},", field.name, field.default);
    }
    out.push_str("        }\n    }\n}\n");
    out
}
