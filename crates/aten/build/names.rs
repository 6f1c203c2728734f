//! How overloads, arguments and options are called in Rust.
//!
//! A method is called as its operator, then `_` and the overload in snake case. Overloads that say nothing
//! that Rust's types do not say add nothing (`Tensor`, `self`, `int`, `IntList`, `memory_format`, …). Out forms
//! end in `_out`, in-place ones in `_`.

use super::Overload;

/// The name of an overload's handle: `add_.Tensor` is `ADD__TENSOR`.
pub(crate) fn handle(overload: &Overload) -> String {
    overload.schema.full_name().replace('.', "_").to_ascii_uppercase()
}

/// The name of an overload's method, if it is to have one.
pub(crate) fn method(overload: &Overload) -> Option<String> {
    match overload.rust_name.as_deref() {
        Some("-") => return None,
        Some(name) => return Some(name.to_owned()),
        None => {}
    }
    let schema = &overload.schema;
    let in_place = schema.name.ends_with('_') && !schema.name.ends_with("__");
    let base = if in_place { schema.name.trim_end_matches('_') } else { &schema.name };
    let (stem, out) = match schema.overload.strip_suffix("out") {
        Some(stem) if stem.is_empty() || stem.ends_with('_') => (stem.trim_end_matches('_'), "_out"),
        _ => (schema.overload.as_str(), ""),
    };
    let stem = telling_part(stem);
    let mut name = base.to_owned();
    if !stem.is_empty() {
        name.push('_');
        name.push_str(&snake(stem));
    }
    name.push_str(out);
    if in_place {
        name.push('_');
    }
    Some(not_a_keyword(name))
}

/// What of an overload's name a method's name repeats.
fn telling_part(overload: &str) -> &str {
    let trimmed =
        overload.strip_suffix("_IntList").or_else(|| overload.strip_suffix("_int")).unwrap_or(overload);
    match trimmed {
        "Tensor" | "self" | "default" | "memory_format" | "int" | "IntList" => "",
        telling => telling,
    }
}

/// The method that takes the options: `add_with`, and `add_with_` in place.
pub(crate) fn method_with(method: &str) -> String {
    match method.strip_suffix('_') {
        Some(base) if !base.ends_with('_') => format!("{base}_with_"),
        _ => format!("{method}_with"),
    }
}

/// A method's name without the marks of its in-place and out forms: forms with equal options share them.
pub(crate) fn family(method: &str) -> &str {
    method.trim_end_matches('_').trim_end_matches("_out")
}

/// The struct of a method's options.
pub(crate) fn options_struct(method: &str) -> String {
    let in_place = if method.ends_with('_') && !method.ends_with("__") { "InPlace" } else { "" };
    format!("{}{in_place}Options", camel(method))
}

/// The name of a parameter or field.
pub(crate) fn parameter(argument: &str) -> String {
    match argument {
        "self" => "input".to_owned(),
        _ => not_a_keyword(snake(argument)),
    }
}

/// `SomeName` and `LU_data` as `some_name` and `lu_data`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = None;
    for c in name.chars() {
        if c.is_ascii_uppercase()
            && before.is_some_and(|b: char| b.is_ascii_lowercase() || b.is_ascii_digit())
        {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
        before = Some(c);
    }
    out
}

/// `_some_name` as `_SomeName`.
fn camel(name: &str) -> String {
    let mut out = String::from(if name.starts_with('_') { "_" } else { "" });
    for part in name.split('_') {
        let mut letters = part.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.extend(letters);
    }
    out
}

fn not_a_keyword(name: String) -> String {
    const KEYWORDS: [&str; 51] = [
        "as", "break", "const", "continue", "crate", "else", "enum", "extern", "false", "fn", "for", "if",
        "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self", "static",
        "struct", "super", "trait", "true", "type", "unsafe", "use", "where", "while", "async", "await",
        "dyn", "abstract", "become", "box", "do", "final", "macro", "override", "priv", "typeof", "unsized",
        "virtual", "yield", "try", "gen",
    ];
    if KEYWORDS.contains(&name.as_str()) { name + "_" } else { name }
}
