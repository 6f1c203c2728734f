//! The guides: Markdown files of the repository, their links checked, as pages of the site.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::Result;
use crate::workspace::root;

/// Guides that stand in the root.
const IN_ROOT: &[&str] = &["README.md", "ARCHITECTURE.md", "CHANGELOG.md"];

/// One Markdown file.
#[derive(Debug)]
pub(crate) struct Guide {
    path: PathBuf,
    text: String,
    /// The file name of its page on the site.
    pub(crate) page: String,
    /// Its first heading.
    pub(crate) title: String,
    /// The anchors of its headings, as GitHub forms them.
    anchors: Vec<String>,
}

/// Reads all guides below `root`, those of `docs/` last, and checks the links between them.
///
/// # Errors
/// A file cannot be read, or a link leads to a file or heading that is not there: the text lists each.
pub(crate) fn read(root: &Path) -> Result<Vec<Guide>> {
    let mut paths: Vec<PathBuf> = IN_ROOT.iter().map(|name| root.join(name)).collect();
    let in_docs = std::fs::read_dir(root.join("docs"))?.collect::<std::io::Result<Vec<_>>>()?;
    let in_docs: BTreeSet<PathBuf> = in_docs.iter().map(std::fs::DirEntry::path).collect();
    paths.extend(in_docs.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "md")));
    let guides = paths.into_iter().map(Guide::read).collect::<Result<Vec<_>>>()?;

    let broken: Vec<String> = guides.iter().flat_map(|guide| guide.broken_links(&guides)).collect();
    if !broken.is_empty() {
        return Err(format!("links that lead nowhere:\n  {}", broken.join("\n  ")).into());
    }
    Ok(guides)
}

impl Guide {
    fn read(path: PathBuf) -> Result<Self> {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Guide::new(path.canonicalize()?, text))
    }

    fn new(path: PathBuf, text: String) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let in_docs = path.parent().is_some_and(|folder| folder.ends_with("docs"));
        let page = if in_docs && stem == "README" { "index.html".to_owned() } else { format!("{stem}.html") };
        let headings = headings(&text);
        let title = headings.first().cloned().unwrap_or(stem);
        let anchors = headings.iter().map(|heading| anchor(heading)).collect();
        Guide { path, text, page, title, anchors }
    }

    /// The guide as HTML, its links to other guides leading to their pages. What the site does not have (source
    /// files, licences) is named without a link.
    pub(crate) fn html(&self, guides: &[Guide]) -> String {
        let mut anchors = self.anchors.iter();
        let mut dropped = 0;
        let events = parse(&self.text).filter_map(|event| match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = anchors.next().map(|anchor| CowStr::from(anchor.clone()));
                Some(Event::Start(Tag::Heading { level, id, classes, attrs }))
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let Some(dest_url) = self.link_on_site(&dest_url, guides) else {
                    dropped += 1;
                    return None;
                };
                Some(Event::Start(Tag::Link { link_type, dest_url: dest_url.into(), title, id }))
            }
            // Links do not nest: the next end is that of the link just dropped.
            Event::End(TagEnd::Link) if dropped > 0 => {
                dropped -= 1;
                None
            }
            other => Some(other),
        });
        let mut page = String::new();
        html::push_html(&mut page, events);
        page
    }

    fn link_on_site(&self, link: &str, guides: &[Guide]) -> Option<String> {
        if is_outside(link) {
            return Some(link.to_owned());
        }
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let page = if file.is_empty() { "" } else { self.linked(file, guides)?.page.as_str() };
        Some(if anchor.is_empty() { page.to_owned() } else { format!("{page}#{anchor}") })
    }

    fn broken_links(&self, guides: &[Guide]) -> Vec<String> {
        let links = parse(&self.text).filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.into_string())
            }
            _ => None,
        });
        let broken = links.filter(|link| !is_outside(link) && !self.link_holds(link, guides));
        let root = root();
        let name = self.path.strip_prefix(&root).unwrap_or(&self.path).display();
        broken.map(|link| format!("{name}: {link}")).collect()
    }

    fn link_holds(&self, link: &str, guides: &[Guide]) -> bool {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        if !file.is_empty() && !self.folder().join(file).exists() {
            return false;
        }
        let target = if file.is_empty() { Some(self) } else { self.linked(file, guides) };
        anchor.is_empty() || target.is_some_and(|target| target.anchors.iter().any(|there| there == anchor))
    }

    /// The guide that a link's file part leads to.
    fn linked<'a>(&self, file: &str, guides: &'a [Guide]) -> Option<&'a Guide> {
        let path = self.folder().join(file).canonicalize().ok()?;
        guides.iter().find(|guide| guide.path == path)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

fn parse(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Leads to another site: not ours to check.
fn is_outside(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:")
}

/// The text of each heading, in order.
fn headings(text: &str) -> Vec<String> {
    let mut headings = Vec::new();
    let mut open = false;
    for event in parse(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                headings.push(String::new());
                open = true;
            }
            Event::End(TagEnd::Heading(_)) => open = false,
            Event::Text(part) | Event::Code(part) if open => {
                headings.last_mut().expect("a heading is open").push_str(&part);
            }
            _ => {}
        }
    }
    headings
}

/// A heading's anchor: lower case, spaces as hyphens, no other punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests;
