//! The configurations of the page about proxies.

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proxies.md");

/// Returns the code block whose first line is a comment with this name, without that line.
pub(super) fn block(name: &str) -> String {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let blocks = page.split("\n```").skip(1).step_by(2);
    let mut named = blocks.filter_map(|block| {
        let (_, code) = block.split_once('\n')?;
        let (first, rest) = code.split_once('\n')?;
        let own = first.trim_start_matches(['#', '-', ' ']);
        (own == name).then(|| format!("{rest}\n"))
    });
    let found = named.next().unwrap_or_else(|| panic!("the page has no {name}"));
    assert!(named.next().is_none(), "the page has {name} twice");
    found
}
