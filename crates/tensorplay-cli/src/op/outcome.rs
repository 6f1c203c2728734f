//! [`Outcome`]: what came of a call here, and its line in a file of results.

use serde_json::Value as Json;

use super::values::{CaseValue, write_list, write_string};

/// What came of a call.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// Results.
    Returned {
        out: Vec<CaseValue>,
        /// Arguments by path: those that the schema marks as written, and any other that changed.
        mutated: Vec<(String, CaseValue)>,
        alias: Vec<Alias>,
        /// The gradients of arguments by path, `Null` where there is none; `None` when none were asked for.
        grads: Option<Vec<(String, CaseValue)>>,
    },
    /// An error.
    Refused { text: String, kind: String },
    /// The operator did what none may: it panicked, or it refused with something already done.
    Faulty(String),
    /// There is no such operator.
    Missing,
}

/// An output that shares its storage with an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alias {
    /// The path of the output.
    pub(super) out: String,
    /// The path of the argument.
    pub(super) arg: String,
    /// Where in the argument's data the output begins, in the output's elements.
    pub(super) offset: i64,
}

impl Alias {
    /// Reads a list of them; nothing is an empty one.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn list_from_json(json: Option<&Json>) -> Result<Vec<Self>, String> {
        let read = |item: &Json| {
            let text = |name| item.get(name).and_then(Json::as_str).map(str::to_owned);
            Some(Self { out: text("out")?, arg: text("arg")?, offset: item.get("offset")?.as_i64()? })
        };
        let Some(json) = json else { return Ok(Vec::new()) };
        let aliases = json.as_array().and_then(|items| items.iter().map(read).collect());
        aliases.ok_or_else(|| "`alias` is a list of objects with `out`, `arg` and `offset`".into())
    }
}

impl Outcome {
    /// The refusal that an error is.
    pub(super) fn of_error(error: &aten::Error) -> Self {
        Self::Refused { text: error.to_string(), kind: format!("{:?}", error.kind()) }
    }

    /// The line about the case of this number.
    pub(super) fn to_line(&self, line: u64) -> String {
        let mut text = format!(r#"{{"line":{line},"#);
        match self {
            Self::Returned { out, mutated, alias, grads } => {
                text.push_str(r#""out":"#);
                write_list(out, &mut text);
                text.push_str(r#","mutated":"#);
                write_named(mutated, &mut text);
                text.push_str(r#","alias":["#);
                write_joined(alias, &mut text, |Alias { out, arg, offset }, text| {
                    text.push_str(r#"{"out":"#);
                    write_string(out, text);
                    text.push_str(r#","arg":"#);
                    write_string(arg, text);
                    text.push_str(&format!(r#","offset":{offset}}}"#));
                });
                text.push(']');
                if let Some(grads) = grads {
                    text.push_str(r#","grads":"#);
                    write_named(grads, &mut text);
                }
            }
            Self::Refused { text: reason, kind } => {
                text.push_str(r#""error":"#);
                write_string(reason, &mut text);
                text.push_str(r#","kind":"#);
                write_string(kind, &mut text);
            }
            // Without an `error`, because this is no refusal.
            Self::Faulty(reason) => {
                text.push_str(r#""out":[],"fault":"#);
                write_string(reason, &mut text);
            }
            Self::Missing => text.push_str(r#""missing":true"#),
        }
        text.push_str("}\n");
        text
    }
}

fn write_named(values: &[(String, CaseValue)], text: &mut String) {
    text.push('{');
    write_joined(values, text, |(path, value), text| {
        write_string(path, text);
        text.push(':');
        value.write_to(text);
    });
    text.push('}');
}

fn write_joined<T>(items: &[T], text: &mut String, write: impl Fn(&T, &mut String)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(item, text);
    }
}
