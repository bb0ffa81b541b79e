//! The snippets of the documentation.

use sluicegate_testkit::servers::EnvoyServer;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/envoy.md");

pub(super) fn page() -> String {
    std::fs::read_to_string(PAGE).unwrap()
}

/// Returns the YAML of the page that begins with this field.
pub(super) fn snippets(page: &str, field: &str) -> Vec<String> {
    let code = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    code.filter(|code| code.starts_with(field)).map(str::to_owned).collect()
}

#[test]
fn envoy_accepts_the_documented_configuration() {
    let page = page();
    let filters = snippets(&page, "http_filters:");
    let clusters = snippets(&page, "clusters:");
    let of_routes = snippets(&page, "typed_per_filter_config:");
    assert_eq!((filters.len(), clusters.len(), of_routes.len()), (2, 1, 2));
    let route = |settings: &String| {
        let settings: String = settings.lines().map(|line| format!("  {line}\n")).collect();
        format!("- match: {{prefix: /}}\n  route: {{cluster: upstream}}\n{settings}")
    };
    let routes: String = of_routes.iter().map(route).collect();
    for filters in filters {
        let documented = EnvoyServer::calling("127.0.0.1:1".parse().unwrap())
            .filters(&filters)
            .routes(&routes)
            .clusters(&clusters[0]);
        documented.validate().unwrap();
    }
    let wrong = EnvoyServer::calling("127.0.0.1:1".parse().unwrap()).filters("- {nam: x}");
    assert!(wrong.validate().unwrap_err().to_string().contains("nam"));
}
