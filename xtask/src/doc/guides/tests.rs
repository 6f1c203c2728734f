use super::{Guide, anchor, read, root};

/// Two guides that stand in this crate's folder, which exists, under names that do not.
fn guide(name: &str, text: &str) -> Guide {
    Guide::new(root().join("xtask").join(name), text.to_owned())
}

#[test]
fn the_guides_of_the_repository_have_no_broken_link() {
    let guides = read(&root()).unwrap();
    assert!(guides.iter().any(|guide| guide.page == "index.html"));
}

#[test]
fn a_link_to_nothing_is_found() {
    let guides = [guide(
        "a.md",
        "# A title\n[here](#a-title) [lost](#b) [file](Cargo.toml) [gone](gone.md) [web](https://example.org/gone.md)",
    )];
    let broken = guides[0].broken_links(&guides);
    let broken: Vec<_> = broken.iter().map(|text| text.split_once(": ").unwrap().1).collect();
    assert_eq!(broken, ["#b", "gone.md"]);
}

#[test]
fn links_between_guides_lead_to_their_pages_and_others_are_dropped() {
    let architecture = Guide::new(root().join("ARCHITECTURE.md").canonicalize().unwrap(), "# B".to_owned());
    let guides = [guide("a.md", "# A\n[b](../ARCHITECTURE.md#b) [source](Cargo.toml) [a](#a)"), architecture];
    let html = guides[0].html(&guides);
    assert_eq!(
        html,
        "<h1 id=\"a\">A</h1>\n<p><a href=\"ARCHITECTURE.html#b\">b</a> source <a href=\"#a\">a</a></p>\n"
    );
}

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(anchor("The `Driver` trait, its rules"), "the-driver-trait-its-rules");
}
