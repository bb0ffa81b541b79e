//! Measures how soon the page appears.

use std::fmt::Write as _;

use serde_json::json;

use super::Site;

/// Target of the first contentful paint, in ms.
const TARGET: f64 = 300.0;

/// The first contentful paint of a page with one word on a free machine, in ms.
const WORD: f64 = 60.0;

/// When the first content was painted.
const PAINTED: &str = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";

/// Notes when the first row of a limit can be seen.
const FIRST_ROW: &str = r"
    requestAnimationFrame(function look() {
        if (document.querySelector('tbody th button')) globalThis.firstRow = performance.now();
        else requestAnimationFrame(look);
    });
";

/// Number of measured loads: more than a browser has connections to an address, which pages that were left must not keep.
const LOADS: usize = 9;

/// The page of a service with 10,000 limits, from an empty cache.
#[test]
fn the_first_paint_is_within_300_ms() {
    let mut limits = String::from("limits:\n");
    for index in 0..10_000 {
        let _ = writeln!(limits, "  limit-{index:05}: {{policies: [gcra 5/h]}}");
    }
    let mut site = Site::start_with(&limits, &[], 1600, 1000);
    for limit in ["limit-00001", "limit-04711", "limit-09999"] {
        site.check(limit, "mallory", 30);
    }
    let browser = &mut site.browser;
    browser.call("Network.enable", json!({}));
    browser.call("Network.setCacheDisabled", json!({"cacheDisabled": true}));
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": FIRST_ROW}));
    let [mut words, mut paints, mut rows] = [const { Vec::new() }; 3];
    for _ in 0..LOADS {
        browser.open("data:text/html,<p>word");
        browser.wait("the paint of a word", &format!("location.protocol === 'data:' && {PAINTED}"));
        words.push(browser.eval(PAINTED).as_f64().unwrap());
        browser.open(&format!("http://{}/", site.service.address()));
        browser.wait_for("#live", "live");
        browser.wait("the first paint and a row", &format!("globalThis.firstRow && {PAINTED}"));
        let [first, content, row] =
            ["performance.getEntriesByName('first-paint')[0].startTime", PAINTED, "firstRow"]
                .map(|time| browser.eval(time).as_f64().unwrap());
        assert!(first <= content, "{first} {content}");
        paints.push(content);
        rows.push(row);
    }
    let [word, paint, row] = [&mut words, &mut paints, &mut rows].map(|times| {
        times.sort_by(f64::total_cmp);
        times[LOADS / 2]
    });
    println!(
        "first contentful paint in ms: {paint:.0} of {paints:.0?}, of a word: {word:.0} of {words:.0?}; first row of a \
         limit: {row:.0}"
    );
    // Other tests use the processors too, and slow any page down. So the bound grows with the time of a page with one
    // word. On a free machine the bound is the target. Both times are medians.
    let slowness = (word / WORD).max(1.0);
    assert!(paint < TARGET * slowness, "{paint}, and {word} for a word");
    site.browser.finish();
}
