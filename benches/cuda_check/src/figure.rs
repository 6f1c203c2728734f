//! A figure: what a part has measured or counted, as a line that `all` reads.

use serde::Serialize;

/// A name, a number and its unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

/// By this a line of a part's output is a figure.
const MARK: &str = "figure\t";
/// By this a line is a fact: a name and a text.
const FACT: &str = "fact\t";

/// Prints a figure.
pub(crate) fn print(name: &str, value: f64, unit: &str) {
    println!("{MARK}{name}\t{value}\t{unit}");
}

/// Prints a fact.
pub(crate) fn print_fact(name: &str, text: &str) {
    println!("{FACT}{name}\t{}", text.replace(['\n', '\t'], " "));
}

/// The figure of a line, where it is one.
pub(crate) fn read(line: &str) -> Option<Figure> {
    let mut fields = line.strip_prefix(MARK)?.split('\t');
    let (name, value, unit) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Figure { name: name.to_owned(), value: value.parse().ok()?, unit: unit.to_owned() })
}

/// The fact of a line, where it is one.
pub(crate) fn read_fact(line: &str) -> Option<(String, String)> {
    let (name, text) = line.strip_prefix(FACT)?.split_once('\t')?;
    Some((name.to_owned(), text.to_owned()))
}
