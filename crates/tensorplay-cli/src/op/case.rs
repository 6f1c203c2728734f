//! [`Case`]: a recorded call, and what PyTorch did.

use c10_core::ScalarType;
use serde_json::{Map, Value as Json};

use super::gradients::Gradients;
use super::outcome::Alias;
use super::values::CaseValue;

/// One line of a file of cases.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// `namespace::name.overload`.
    pub(super) op: String,
    pub(super) args: Vec<CaseValue>,
    pub(super) kwargs: Vec<(String, CaseValue)>,
    pub(super) expected: Expected,
    /// Whether the overload is of the Core ATen set.
    pub(super) is_core: bool,
}

/// What PyTorch did.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// It gave results.
    Results(Results),
    /// It gave results, and gradients of its arguments.
    Gradients(Gradients),
    /// It raised this exception.
    Refusal { exception: String },
}

/// What a call gave, and how it is to be compared.
#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) out: Vec<CaseValue>,
    /// Arguments by path, and their values after the call.
    pub(super) mutated: Vec<(String, CaseValue)>,
    pub(super) alias: Vec<Alias>,
    /// The type that promotion gives, where that is what was recorded.
    pub(super) promoted: Option<ScalarType>,
    /// Whether values are the same at every run: neither random nor uninitialised.
    pub(super) has_values: bool,
    /// Whether other values would be as right.
    pub(super) is_ambiguous: bool,
}

impl Case {
    /// Reads a line.
    ///
    /// # Errors
    /// It is no call of an operator; what is wrong, behind the place in the line.
    pub(super) fn from_line(line: &str) -> Result<Self, String> {
        let json: Json = serde_json::from_str(line).map_err(|error| {
            // It is one line.
            error.to_string().replace(" at line 1 column ", " at column ")
        })?;
        let fields = json.as_object().ok_or("a case is an object")?;
        let op = fields.get("op").and_then(Json::as_str).ok_or("a case has an `op`")?;
        if !op.contains("::") {
            return Err(format!("{op:?} is no `namespace::name.overload`"));
        }
        let (args, kwargs) = (list(fields, "args")?, named(fields, "kwargs")?);
        let expected = match fields.get("error") {
            Some(exception) => Expected::Refusal {
                exception: exception.as_str().ok_or("`error` is the name of an exception")?.to_owned(),
            },
            None if fields.contains_key("grads") => Expected::Gradients(Gradients::from_json(fields)?),
            None => Expected::Results(Results::from_json(fields)?),
        };
        let case = Self { op: op.to_owned(), args, kwargs, expected, is_core: flag(fields, "core")? };
        match case.leaves().iter().find(|path| !matches!(case.argument(path), Some(CaseValue::Tensor(_)))) {
            Some(path) => Err(format!("requires_grad: no argument {path} is a tensor")),
            None => Ok(case),
        }
    }

    /// The paths of the arguments whose gradients were recorded.
    pub(super) fn leaves(&self) -> &[String] {
        match &self.expected {
            Expected::Gradients(gradients) => &gradients.leaves,
            _ => &[],
        }
    }

    /// The argument of a path: a position or a keyword, then places in lists.
    fn argument(&self, path: &str) -> Option<&CaseValue> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let argument = match first.parse::<usize>() {
            Ok(position) => self.args.get(position),
            Err(_) => self.kwargs.iter().find(|(name, _)| name == first).map(|(_, value)| value),
        };
        rest.map_or(argument, |rest| argument?.item(rest))
    }

    /// Whether Python refused the call before an overload was chosen, so that there is none to call.
    pub(super) fn is_of_no_overload(&self) -> bool {
        self.op.ends_with(".*")
    }
}

impl Results {
    fn from_json(fields: &Map<String, Json>) -> Result<Self, String> {
        let promoted = match fields.get("result") {
            None => None,
            Some(name) => {
                let name = name.as_str().ok_or("`result` is the name of a type")?;
                Some(name.parse().map_err(|error: c10_core::Error| error.to_string())?)
            }
        };
        Ok(Self {
            out: list(fields, "out")?,
            mutated: named(fields, "mutated")?,
            alias: Alias::list_from_json(fields.get("alias"))?,
            promoted,
            has_values: !flag(fields, "random")? && !flag(fields, "uninit")?,
            is_ambiguous: fields.get("ambiguous").is_some_and(|kind| !kind.is_null()),
        })
    }
}

/// A list that has to be there.
pub(super) fn list(fields: &Map<String, Json>, name: &str) -> Result<Vec<CaseValue>, String> {
    let items = fields.get(name).and_then(Json::as_array).ok_or_else(|| format!("`{name}` is a list"))?;
    CaseValue::list_from_json(items).map_err(|reason| format!("{name}.{reason}"))
}

/// Values by name; none when it is not there.
pub(super) fn named(fields: &Map<String, Json>, name: &str) -> Result<Vec<(String, CaseValue)>, String> {
    let Some(json) = fields.get(name) else { return Ok(Vec::new()) };
    let values = json.as_object().ok_or_else(|| format!("`{name}` is an object"))?;
    let read = |(key, value): (&String, &Json)| match CaseValue::from_json(value) {
        Ok(value) => Ok((key.clone(), value)),
        Err(reason) => Err(format!("{name}.{key}: {reason}")),
    };
    values.iter().map(read).collect()
}

/// `false` when it is not there.
fn flag(fields: &Map<String, Json>, name: &str) -> Result<bool, String> {
    match fields.get(name) {
        None => Ok(false),
        Some(json) => json.as_bool().ok_or_else(|| format!("`{name}` is true or false")),
    }
}
