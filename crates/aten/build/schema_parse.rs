//! The part of PyTorch's schema grammar that operator tables use, read in one pass over each piece.

use super::schema::{Argument, Base, List, Schema, Type};

/// Reads `name.overload(arguments) -> returns`.
pub(crate) fn parse(text: &str) -> Result<Schema, String> {
    let (head, returns) = text
        .rsplit_once("->")
        .filter(|(head, _)| head.trim_end().ends_with(')'))
        .ok_or_else(|| format!("`{text}` is not `name.overload(arguments) -> returns`"))?;
    let (name, arguments) =
        head.trim_end().split_once('(').ok_or_else(|| format!("`{text}` has no list of arguments"))?;
    let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
    let (name, overload) = name.split_once('.').unwrap_or((name, ""));
    for part in [name, overload] {
        if !part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("`{part}` is not the name of an operator or overload"));
        }
    }
    if name.is_empty() || overload == "default" {
        return Err("an operator needs a name, and its default overload has none".to_owned());
    }
    Ok(Schema {
        name: name.to_owned(),
        overload: overload.to_owned(),
        arguments: parse_arguments(arguments)?,
        returns: parse_returns(returns.trim())?,
    })
}

fn parse_arguments(text: &str) -> Result<Vec<Argument>, String> {
    let mut arguments: Vec<Argument> = Vec::new();
    let mut keyword_only = false;
    for piece in split_at_commas(text)? {
        if piece == "*" {
            if std::mem::replace(&mut keyword_only, true) {
                return Err("a second `*` among the arguments".to_owned());
            }
            continue;
        }
        let argument = parse_argument(piece, keyword_only)?;
        if arguments.iter().any(|before| before.name == argument.name) {
            return Err(format!("two arguments are named `{}`", argument.name));
        }
        let follows_default = arguments.last().is_some_and(|before| before.default.is_some());
        if !keyword_only && argument.default.is_none() && follows_default {
            return Err(format!("`{}` has no default and follows one that has", argument.name));
        }
        arguments.push(argument);
    }
    Ok(arguments)
}

/// `TYPE name` or `TYPE name=default`.
fn parse_argument(piece: &str, keyword_only: bool) -> Result<Argument, String> {
    let (declared, default) = match piece.split_once('=') {
        Some((declared, default)) => (declared.trim_end(), Some(default.trim().to_owned())),
        None => (piece, None),
    };
    let (ty, name) =
        declared.rsplit_once(' ').ok_or_else(|| format!("the argument `{piece}` lacks a type or a name"))?;
    Ok(Argument { ty: parse_type(ty.trim())?, name: name.to_owned(), default, keyword_only })
}

/// `()`, one type, or `(TYPE name, …)`, whose names are left out.
fn parse_returns(text: &str) -> Result<Vec<Type>, String> {
    if let Some(list) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        let pieces = split_at_commas(list)?;
        return pieces.into_iter().map(|piece| parse_type(without_name(piece))).collect();
    }
    Ok(vec![parse_type(text)?])
}

/// A return without the name that may follow its type: `Tensor(a -> *) x` has blanks in the type, too.
fn without_name(piece: &str) -> &str {
    match piece.rsplit_once(' ') {
        Some((ty, name)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => ty,
        _ => piece,
    }
}

fn parse_type(text: &str) -> Result<Type, String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (base, mut rest) = text.split_at(end);
    let base = match base {
        "Tensor" => Base::Tensor,
        "int" | "SymInt" => Base::Int,
        "float" => Base::Float,
        "bool" | "SymBool" => Base::Bool,
        "Scalar" => Base::Scalar,
        "str" => Base::Str,
        "ScalarType" => Base::ScalarType,
        "Layout" => Base::Layout,
        "Device" => Base::Device,
        "MemoryFormat" => Base::MemoryFormat,
        "Generator" => Base::Generator,
        other => return Err(format!("`{other}` in `{text}` is not a type of operator tables")),
    };
    let mut ty = Type { base, written: false, list: None, optional: false };
    if let Some(after) = rest.strip_prefix('(') {
        let (alias, after) =
            after.split_once(')').ok_or_else(|| format!("`{text}` has an open alias mark"))?;
        ty.written = alias.contains('!');
        rest = after;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('?') {
            if std::mem::replace(&mut ty.optional, true) {
                return Err(format!("`{text}` is optional twice"));
            }
            rest = after;
        } else if let Some((length, after)) = rest.strip_prefix('[').and_then(|list| list.split_once(']')) {
            if ty.list.is_some() {
                return Err(format!("`{text}` is a list of lists"));
            }
            let length = match length {
                "" => None,
                digits => Some(digits.parse().map_err(|_| format!("`{digits}` in `{text}` is no length"))?),
            };
            ty.list = Some(List { length, of_optional: std::mem::take(&mut ty.optional) });
            rest = after;
        } else {
            return Err(format!("`{rest}` in `{text}` is no suffix of a type"));
        }
    }
    Ok(ty)
}

/// The pieces between commas that stand in no brackets and no quotes.
fn split_at_commas(text: &str) -> Result<Vec<&str>, String> {
    let mut pieces = Vec::new();
    let (mut depth, mut quote, mut start) = (0_usize, None, 0);
    for (index, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => {
                depth = depth.checked_sub(1).ok_or_else(|| format!("`{text}` closes what is not open"))?;
            }
            (None, ',') if depth == 0 => {
                pieces.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    if depth > 0 || quote.is_some() {
        return Err(format!("`{text}` leaves a bracket or a quote open"));
    }
    let last = text[start..].trim();
    if !last.is_empty() || !pieces.is_empty() {
        pieces.push(last);
    }
    Ok(pieces)
}
