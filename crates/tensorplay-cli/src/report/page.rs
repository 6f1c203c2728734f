//! The page: a template, a style sheet, a script and the data, in one file that fetches nothing.

use super::data::PageData;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPTS: [&str; 3] =
    [include_str!("page/model.js"), include_str!("page/draw.js"), include_str!("page/main.js")];

/// The page of some data. The same data give the same bytes.
pub(super) fn page(data: &PageData) -> String {
    let json = serde_json::to_string(data).expect("numbers and strings have a JSON form");
    // In a script element only its end tag would be read as HTML.
    let json = json.replace('<', "\\u003c");
    let title = format!("{} - memory report", escaped(&data.file));
    let script = SCRIPTS.concat();
    let parts = [("title", title.as_str()), ("style", STYLE), ("data", &json), ("script", &script)];
    let mut page = String::with_capacity(TEMPLATE.len() + STYLE.len() + json.len() + script.len());
    let mut rest = TEMPLATE;
    // In the order of the template, so that what is put in is not looked at.
    for (name, part) in parts {
        let (before, after) =
            rest.split_once(&format!("{{{{{name}}}}}")).expect("the template has each part");
        page += before;
        page += part;
        rest = after;
    }
    page + rest
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
