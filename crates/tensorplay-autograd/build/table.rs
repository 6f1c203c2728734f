//! One table of derivatives.

/// One operator.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) formulas: Vec<Formula>,
    /// Results without a gradient.
    pub(crate) without: Vec<usize>,
    /// The node's name, where it is not the operator's.
    pub(crate) node: Option<String>,
}

/// One line of it.
#[derive(Debug)]
pub(crate) struct Formula {
    pub(crate) line: usize,
    pub(crate) arguments: Vec<String>,
    pub(crate) text: String,
}

impl Entry {
    pub(crate) fn fault(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {}: {what}", self.path, self.name)
    }
}

pub(crate) fn read(
    path: &str,
    text: &str,
    entries: &mut Vec<Entry>,
    none: &mut Vec<(String, String)>,
) -> Result<(), String> {
    for (index, line) in text.lines().enumerate() {
        let (number, content) = (index + 1, line.trim());
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let fault = |what: &str| format!("{path}:{number}: {what}");
        let indent = line.len() - line.trim_start().len();
        match indent {
            0 => match content.strip_prefix("none:") {
                Some(names) => {
                    none.extend(names.split_whitespace().map(|name| (name.to_owned(), fault("none"))));
                }
                None => entries.push(Entry {
                    path: path.to_owned(),
                    line: number,
                    name: content.to_owned(),
                    formulas: Vec::new(),
                    without: Vec::new(),
                    node: None,
                }),
            },
            2 => {
                let entry = entries.last_mut().ok_or_else(|| fault("a formula without an operator"))?;
                let (arguments, text) =
                    content.split_once(':').ok_or_else(|| fault("a formula is `argument: expression`"))?;
                if arguments == "node" {
                    entry.node = Some(text.trim().to_owned());
                    continue;
                }
                if arguments == "without" {
                    for result in text.split_whitespace() {
                        let at = result.strip_prefix("result").and_then(|digits| digits.parse().ok());
                        entry.without.push(at.ok_or_else(|| fault("`without:` names results"))?);
                    }
                    continue;
                }
                entry.formulas.push(Formula {
                    line: number,
                    arguments: arguments.split(',').map(|name| name.trim().to_owned()).collect(),
                    text: text.trim().to_owned(),
                });
            }
            _ => {
                let last = entries.last_mut().and_then(|entry| entry.formulas.last_mut());
                let last = last.ok_or_else(|| fault("this goes on with no formula"))?;
                last.text.push(' ');
                last.text.push_str(content);
            }
        }
    }
    Ok(())
}
