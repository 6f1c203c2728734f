//! `cargo xtask doc`: one site in `target/doc`, of the crates' pages and the guides.

mod guides;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::workspace::{cargo, libraries, root, target_dir};
use crate::{Result, step};

use guides::Guide;

/// Builds the site and says where it is.
///
/// # Errors
/// As [`build`].
pub(crate) fn run() -> Result {
    build()?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the site.
///
/// # Errors
/// rustdoc warns of anything, a link between the guides leads nowhere, or a file cannot be written.
pub(crate) fn build() -> Result<()> {
    let guides = guides::read(&root())?;
    let mut rustdoc = cargo();
    rustdoc.args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    for library in libraries()? {
        rustdoc.args(["--package", library.name.as_str()]);
    }
    step::must_succeed(&mut rustdoc)?;

    let site = target_dir()?.join("doc");
    let folder = site.join("guides");
    std::fs::create_dir_all(&folder)?;
    for guide in &guides {
        std::fs::write(folder.join(&guide.page), page(&guide.title, "../", &guide.html(&guides)))?;
    }
    let index = site.join("index.html");
    std::fs::write(&index, page("TensorPlay", "", &contents(&site, &guides)?))?;
    println!("{} guides; the site is {}", guides.len(), index.display());
    Ok(())
}

/// The body of the first page: the crates, then the guides.
fn contents(site: &Path, guides: &[Guide]) -> Result<String> {
    let mut body = String::from("<h1>TensorPlay</h1>\n<h2>Crates</h2>\n<dl>\n");
    for library in libraries()? {
        let link = format!("{}/index.html", library.name.replace('-', "_"));
        if !site.join(&link).exists() {
            return Err(format!("rustdoc wrote no page for {}", library.name).into());
        }
        let description = library.description.unwrap_or_default();
        writeln!(body, "<dt><a href=\"{link}\">{}</a></dt><dd>{description}</dd>", library.name)?;
    }
    body.push_str("</dl>\n<h2>Guides</h2>\n<ul>\n");
    for guide in guides {
        writeln!(body, "<li><a href=\"guides/{}\">{}</a></li>", guide.page, guide.title)?;
    }
    body.push_str("</ul>\n");
    Ok(body)
}

/// A whole page. `up` leads to the site's root.
fn page(title: &str, up: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<nav><a href=\"{up}index.html\">TensorPlay</a></nav>\n\
         {body}</body>\n</html>\n"
    )
}

const STYLE: &str = "body{max-width:50rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 sans-serif}\
    pre,code{background:#f4f4f4;font-size:.9rem}pre{padding:.7rem;overflow-x:auto}\
    table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.3rem .6rem;text-align:left}";
