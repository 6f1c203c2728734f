//! Text for people to read: numbers in groups, words in lines.

/// Lines are broken here.
const WIDTH: usize = 90;

/// Prose in lines; `first` stands before the first, and as much space before the others.
pub(crate) fn wrapped(first: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words(text) {
        if !is_empty && line.len() + word.len() >= WIDTH {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(first.len());
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += &word;
        is_empty = false;
    }
    lines += line.trim_end();
    lines.push('\n');
    lines
}

/// The words of a text, each number with its unit.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_unit =
            matches!(word.trim_end_matches(['.', ',', ';']), "B" | "bytes" | "KiB" | "MiB" | "GiB" | "TiB");
        match words.last_mut() {
            Some(number) if is_unit => *number += &format!(" {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// `1 event`, `23,105 events`.
pub(crate) fn counted(count: impl ToString, noun: &str) -> String {
    let count = count.to_string();
    format!("{} {noun}{}", grouped(&count), if count == "1" { "" } else { "s" })
}

/// A number with commas between its thousands.
pub(crate) fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
