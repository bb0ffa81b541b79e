//! An incident with three causes, found and ended with the page alone.

use std::time::Duration;

use serde_json::json;
use sluicegate_testkit::proxy::{Direction, Fault, Proxy};
use sluicegate_testkit::servers::{fresh_prefix, shared};
use sluicegate_testkit::wait::until_seldom;
use tokio::time::Instant;

use super::{Site, empty_browser};

/// The time in which an operator finds a cause and its remedy.
const MINUTE: Duration = Duration::from_secs(60);

/// Returns limits in a server behind a proxy.
fn limits(proxy: &Proxy, prefix: &str, api: &str) -> String {
    format!(
        "store: \"{}\"\nredis: {{prefix: \"{prefix}\"}}\nlimits:\n  \
         login: {{policies: [\"gcra 5/h\"], ban: 10000/h for 1h, deadline: 400ms}}\n  \
         api: {{policies: [\"{api}\"], deadline: 400ms}}\n",
        proxy.url(),
    )
}

/// Handles an incident from the start of an empty browser to the remedy, in less than a minute.
///
/// The time includes that of the browser, and of other tests on the machine. It doesn't include that of reading.
fn handle(what: &str, site: &mut Site, by: impl FnOnce(&mut Site)) {
    let begun = Instant::now();
    std::mem::replace(&mut site.browser, empty_browser(1600, 1000)).finish();
    site.open("");
    by(site);
    let took = begun.elapsed();
    assert!(took < MINUTE, "{what}: {took:?}");
}

/// One tenant retries without a pause, a reload sets a limit to a tenth, and the store becomes slow. The first two are
/// there together.
#[test]
fn a_storm_a_wrong_reload_and_a_slow_store_are_found_and_ended() {
    let prefix = fresh_prefix("incident");
    let server = shared().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let mut site =
        Site::start_with(&limits(&proxy, &prefix, "fixed_window 1000/h"), &[], 1600, 1000);
    site.check("api", "shop", 150);
    site.check("login", "acme", 60);
    site.check("login", "alice", 2);
    site.file.replace(&limits(&proxy, &prefix, "fixed_window 100/h"));
    until_seldom("the reload", || {
        let limits = site.service.get("/v1/limits").body;
        if limits.contains("fixed_window 100/h") { Ok(()) } else { Err(limits) }
    });
    site.check("api", "shop", 30);
    handle("the retry storm of one tenant", &mut site, end_the_storm);
    handle("the reload", &mut site, undo_the_reload);
    proxy.set(Direction::Replies, Fault::Delay(Duration::from_millis(250)));
    site.check("api", "shop", 12);
    handle("the slow store", &mut site, |site| {
        site.browser.wait_for(".problems", "The store is slow");
        site.browser.wait_for(".problems", "Look for load on the store");
    });
    proxy.heal();

    // The store is unreachable.
    proxy.set(Direction::Replies, Fault::Hold);
    site.check("api", "shop", 3);
    site.browser.wait_for(".problems", "The store doesn't answer");
    site.browser.wait_for(".figure .value.bad", "down");
    proxy.heal();
    site.browser.wait(
        "the store is back",
        "!document.querySelector('.problems').innerText.includes('The store doesn')",
    );
    site.browser.finish();
}

fn end_the_storm(site: &mut Site) {
    let browser = &mut site.browser;
    browser.wait_for(".problems", "Key `acme` has 100 % of the denials of limit `login`.");
    browser.wait_for(".problems", "Ask its owner to slow down");
    browser.click(".denied-now", "acme");
    browser.wait_for(".verdict", "Denied by gcra");
    browser.click(".drawer", "Ban…");
    browser.click("#dialog", "Ban");
    browser.wait_for(".verdict", "Banned");
    let banned = site.service.get("/v1/bans?limit=login").json();
    assert_eq!(banned["bans"][0]["key"], "acme");
}

fn undo_the_reload(site: &mut Site) {
    let browser = &mut site.browser;
    for part in [
        "Limit `api` denied 100 % of its requests since the reload of ",
        "UTC, and 0 % before: policy `fixed_window` changed from `fixed_window 1000/h` to `fixed_window 100/h`.",
        "restore the file or override the limit",
    ] {
        browser.wait_for(".problems", part);
    }
    browser.wait_for(".denied-now tbody tr", "api");
    browser.click(".problems", "Configuration");
    browser.wait_for(".reloads", "changed from `fixed_window 1000/h` to `fixed_window 100/h`");
    // The remedy until the file is correct.
    browser.click("nav", "Now");
    browser.click("tbody th", "api");
    browser.click(".limit-details", "Override the limit…");
    browser.fill_field("#dialog", "Effect", "policies");
    browser.fill_field("#dialog", "Policies, one a line", "fixed_window 1000/h");
    browser.click("#dialog", "Set the override");
    browser.wait_for("tbody .policies", "fixed_window 1000/h");
    let allowed = site.service.call("check", "api", "shop", &json!({}));
    assert_eq!(allowed.status, 200, "{}", allowed.body);
}
