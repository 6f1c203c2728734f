//! [`InferredSchema`]: what the Rust type of a kernel says of its operator's schema.

use std::fmt;

use super::arg_type::ArgType;
use super::schema::FunctionSchema;
use super::signature::Signature;

/// The types of a typed kernel's arguments and returns, each by the names in the schema grammar that it may
/// stand for.
#[derive(Clone, Debug)]
pub(super) struct InferredSchema {
    arguments: Vec<&'static [&'static str]>,
    /// `None` when what it returns is the arguments that it writes.
    returns: Option<Vec<&'static [&'static str]>>,
}

impl InferredSchema {
    pub(super) fn of<S: Signature>() -> Self {
        Self { arguments: S::argument_names(), returns: S::return_names() }
    }

    /// Why a kernel of this type is none of the schema's operator.
    pub(super) fn mismatch(&self, schema: &FunctionSchema) -> Option<String> {
        let expected: Vec<_> = schema.arguments().iter().map(|argument| &argument.arg_type).collect();
        if let Some(reason) = mismatch("argument", &expected, &self.arguments) {
            return Some(reason);
        }
        let expected: Vec<_> = schema.returns().iter().map(|result| &result.arg_type).collect();
        match &self.returns {
            Some(returns) => mismatch("return", &expected, returns),
            None => schema
                .returns()
                .iter()
                .any(|result| !result.alias.as_ref().is_some_and(|alias| alias.is_write))
                .then(|| format!("The number of returns is different. {} vs 0.", expected.len())),
        }
    }
}

fn mismatch(what: &str, expected: &[&ArgType], found: &[&'static [&'static str]]) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!("The number of {what}s is different. {} vs {}.", expected.len(), found.len()));
    }
    // A schema's returned `Tensor` may be undefined, which in Rust its type says.
    let may_be_undefined =
        |at: usize, name: &str| what == "return" && name == "Tensor" && found[at].contains(&"Tensor?");
    let differs = |&at: &usize| {
        let name = unsized_name(expected[at]);
        !found[at].contains(&name.as_str()) && !may_be_undefined(at, &name)
    };
    (0..expected.len())
        .find(differs)
        .map(|at| format!("Type mismatch in {what} {}: {} vs {}.", at + 1, expected[at], found[at][0]))
}

/// The type's name without the size of a list: a slice may be of any.
fn unsized_name(arg_type: &ArgType) -> String {
    match arg_type {
        ArgType::List { element, .. } => format!("{}[]", unsized_name(element)),
        ArgType::Optional(inner) => format!("{}?", unsized_name(inner)),
        other => other.to_string(),
    }
}

impl fmt::Display for InferredSchema {
    /// `(Tensor _0, int _1) -> Tensor _0`, as PyTorch prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[&'static [&'static str]]| {
            types
                .iter()
                .enumerate()
                .map(|(i, names)| format!("{} _{i}", names[0]))
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(f, "({}) -> ", list(&self.arguments))?;
        match self.returns.as_deref() {
            Some(single @ [_]) => f.write_str(&list(single)),
            returns => write!(f, "({})", list(returns.unwrap_or(&[]))),
        }
    }
}
