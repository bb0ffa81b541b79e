//! Tests the layout, the colors and the accessible names of the page.

use super::{Site, key_view};

const VIEWS: [&str; 5] = ["", "#/decisions", "#/what-if?limit=login", "#/config", "#/?limit=login"];

#[test]
fn no_view_is_wider_than_the_window() {
    let mut site = Site::start();
    site.check("login", &"long-".repeat(60), 9);
    site.check("login", "mallory", 9);
    let mut views: Vec<String> = VIEWS.map(str::to_owned).to_vec();
    views.push(key_view("login", &"long-".repeat(40)));
    for width in [430, 1024, 1600] {
        site.browser.resize(width, 900);
        for view in &views {
            site.open(view);
            site.browser.wait_for("main", "");
            if view.contains("limit=login") && view.starts_with("#/?") {
                site.browser.wait_for(".limit-details", "Most denied keys");
            }
            let over =
                "document.scrollingElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(site.browser.eval(over), 0, "{view} at {width}");
        }
    }
    site.browser.finish();
}

/// Text on its ground has a contrast of 4.5 or more, in both schemes.
#[test]
fn both_schemes_have_contrast() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    let contrast = r#"(() => {
        const numbers = text => text.match(/[\d.]+/g).map(Number);
        const light = text => {
            const [r, g, b] = numbers(text).map(part => part / 255).map(part => part <= .03928 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b;
        };
        const ground = node => {
            for (; node; node = node.parentElement) {
                const color = getComputedStyle(node).backgroundColor;
                if (numbers(color)[3] !== 0) return color;
            }
            return "rgb(255, 255, 255)";
        };
        const poor = [];
        for (const node of document.querySelectorAll("body *")) {
            const hasText = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
            if (!hasText || !node.checkVisibility() || node.closest(".hidden, .skip, :disabled")) continue;
            const [a, b] = [light(getComputedStyle(node).color), light(ground(node))].sort((x, y) => y - x);
            const ratio = (a + .05) / (b + .05);
            if (ratio < 4.5) poor.push(`${node.className} ${node.innerText.slice(0, 30)}: ${ratio.toFixed(2)}`);
        }
        return poor;
    })()"#;
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        site.browser.prefer("prefers-color-scheme", scheme);
        for view in
            VIEWS.iter().map(|view| (*view).to_owned()).chain([key_view("login", "mallory")])
        {
            site.open(&view);
            if view.contains("key") {
                site.browser.wait_for(".verdict", "Denied");
            }
            assert_eq!(site.browser.eval(contrast), serde_json::json!([]), "{scheme} {view}");
        }
        grounds.push(site.browser.eval("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1]);
    site.browser.prefer("prefers-reduced-motion", "reduce");
    let moves = "getComputedStyle(document.getElementById('drawer')).animationName";
    assert_eq!(site.browser.eval(moves), "none");
    site.browser.finish();
}

#[test]
fn a_screen_reader_gets_landmarks_and_a_name_for_everything() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    for view in VIEWS.iter().map(|view| (*view).to_owned()).chain([key_view("login", "mallory")]) {
        site.open(&view);
        if view.contains("key") {
            site.browser.wait_for(".verdict", "Denied");
        }
        let nodes = site.browser.accessible();
        for role in ["banner", "navigation", "main", "heading"] {
            assert!(nodes.iter().any(|(each, _)| each == role), "{view}: no {role}");
        }
        let with_names = [
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "checkbox",
            "image",
            "dialog",
            "table",
            "region",
        ];
        for (role, name) in &nodes {
            assert!(
                !with_names.contains(&role.as_str()) || !name.trim().is_empty(),
                "{view}: a {role} has no name"
            );
        }
        let headings = site.browser.eval(
            "[...document.querySelectorAll('h1')].filter(node => node.checkVisibility()).length",
        );
        assert_eq!(headings, 1, "{view}");
    }
    // Only problems interrupt a screen reader.
    let live = "[...document.querySelectorAll('[aria-live=assertive], [role=alert]')].map(node => node.className || node.id).filter(name => !/problem|stale|hidden/.test(name)).length";
    assert_eq!(site.browser.eval(live), 0);
    site.browser.finish();
}
