//! The identifiers of a formula.

/// A piece of an expression: an identifier that stands for a value, or anything else.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Name(&'a str),
    Other(&'a str),
}

/// Cuts an expression. Names after a dot, before `::`, `!` or `{` and in texts are not values.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut after_dot = false;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let end = rest[1..].find('"').map_or(rest.len(), |at| at + 2);
            pieces.push(Piece::Other(&rest[..end]));
            rest = &rest[end..];
            after_dot = false;
        } else if c.is_ascii_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let is_path = after.starts_with("::") || after.starts_with('!');
            pieces.push(if after_dot || is_path { Piece::Other(name) } else { Piece::Name(name) });
            rest = after;
            after_dot = false;
        } else if c.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            pieces.push(Piece::Other(&rest[..end]));
            rest = &rest[end..];
            after_dot = false;
        } else {
            let (other, after) = rest.split_at(c.len_utf8());
            pieces.push(Piece::Other(other));
            after_dot =
                c == '.' || (c == ':' && pieces.len() > 1 && pieces[pieces.len() - 2] == Piece::Other(":"));
            rest = after;
        }
    }
    pieces
}
