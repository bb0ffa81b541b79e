//! The rights in the documentation.

#![allow(clippy::panic, reason = "the helpers of tests may do what tests may")]

use sluicegate_testkit::servers::Server;

/// Returns the rules of the user in `docs/stores.md`, with the password `pw`, for keys with this prefix.
pub(crate) fn documented(prefix: &str) -> Vec<String> {
    of_lines(prefix, |line| !line.ends_with("# a cluster"))
}

/// Returns the rules of that user, including those for clusters.
pub(crate) fn documented_for_clusters(prefix: &str) -> Vec<String> {
    of_lines(prefix, |_| true)
}

fn of_lines(prefix: &str, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let text = include_str!("../../../../docs/stores.md");
    let lines = text.lines().filter_map(|line| line.strip_prefix("ACL SETUSER limiter "));
    let rules = lines
        .filter(|line| is_meant(line))
        .flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
    let rules: Vec<String> = rules
        .map(|rule| rule.replace(">PASSWORD", ">pw").replace("~sg", &format!("~{prefix}")))
        .collect();
    assert!(rules.len() > 10, "{rules:?}");
    rules
}

/// Sets exactly these rules for a user.
pub(crate) fn set_user(server: &Server, user: &str, rules: &[String]) {
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    server.set_user(user, &rules).unwrap_or_else(|error| panic!("{rules:?}: {error}"));
}
