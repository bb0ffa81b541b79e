//! Tests the content of the page.

use serde_json::json;

use sluicegate_testkit::servers::shared;

use super::{LIMITS, Site, key_view};
use crate::support::{File, Service, own_store};

#[test]
fn the_first_view_says_who_is_denied_by_what_and_how_the_service_is() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    site.open("");
    let browser = &mut site.browser;
    browser.wait_for(".denied-now tbody tr", "mallory");
    let row = browser.text(".denied-now tbody tr");
    assert!(row.contains("login") && row.contains("gcra") && row.contains("4×"), "{row}");
    assert!(row.contains("passes in"), "{row}");
    for figure in [
        "Requests",
        "Denied",
        "Decision",
        "Store call",
        "Store",
        "Keys",
        "Leased units",
        "Processes",
    ] {
        browser.wait_for(".figure dt", figure);
    }
    browser.wait_for(".figure", "up");
    browser.wait_for(".about", "up ");
    let charts = "[...document.querySelectorAll('.figure svg')].every(svg => svg.getAttribute('aria-label'))";
    browser.wait("texts of the charts", charts);
    site.browser.finish();
}

#[test]
fn problems_lead_the_page_with_their_remedy_and_go_when_they_are_solved() {
    let mut site = Site::start();
    site.open("");
    site.browser.wait_for("#limits-place", "5 limits");
    assert_eq!(site.browser.text(".problems"), "");
    site.file.replace(&LIMITS.replace("gcra 5/h", "gcra 5/fortnight"));
    site.browser.wait_for(".problems li.error", "refused");
    assert_eq!(
        site.browser.eval(
            "document.querySelector('main section:not([hidden])').getAttribute('aria-label')"
        ),
        "Problems"
    );
    site.browser.wait("the title", "document.title.startsWith('1 problem')");
    site.browser.click(".problems", "Details");
    site.browser.wait_for(".problems pre", "^");
    site.file.replace(LIMITS);
    site.browser.wait("no problem", "document.querySelectorAll('.problems li').length === 0");
    site.browser.finish();
}

#[test]
fn a_row_of_a_limit_has_its_counts_its_keys_and_its_chart_and_opens() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    site.check("search", "bob", 5);
    site.open("");
    site.browser.wait("hatched bars", "document.querySelector('tbody .stack .shadow[d^=M]')");
    let browser = &mut site.browser;
    browser.wait("the row", "document.querySelector('tbody th button')?.innerText === 'login'");
    browser.wait_for("tbody .keys", "mallory");
    browser.wait_for("tbody .policies code", "gcra 5/h");
    browser.wait_for("tbody td", "5 / 4");
    browser.fill_field("main", "Show", "shadow");
    browser.wait_for("#limits-place", "1 to 1 of 1 limit");
    browser.wait_for("tbody th", "search");
    browser.fill_field("main", "Show", "all");
    browser.wait_for("#limits-place", "5 limits");
    browser.fill_field("main", "Search", "log");
    browser.wait_for("#limits-place", "1 to 1 of 1 limit");
    browser.click("tbody th", "login");
    browser.wait_for(".limit-details", "Most denied keys");
    browser.wait_for(".limit-details .facts", "line 3");
    browser.click(".limit-details .facts", "limits.yaml");
    browser.wait_for(".line.marked", "login");
    site.browser.finish();
}

/// The page asks for a window, so its size doesn't depend on the number of limits.
#[test]
fn ten_thousand_limits_have_a_window() {
    let limits: String = (0..10_000)
        .map(|index| format!("  limit-{index:05}: {{policies: [gcra 5/h]}}\n"))
        .collect();
    let mut site = Site::start_with(&format!("limits:\n{limits}"), &[], 1600, 1000);
    site.check("limit-04711", "mallory", 9);
    site.open("");
    let browser = &mut site.browser;
    browser.wait_for("#limits-place", "1 to 50 of 10,000 limits");
    browser.wait(
        "the denied one is first",
        "document.querySelector('tbody th button')?.innerText === 'limit-04711'",
    );
    assert_eq!(browser.eval("document.querySelectorAll('tbody th button').length"), 50);
    let nodes = browser.eval("document.querySelectorAll('*').length").as_u64().unwrap();
    assert!(nodes < 3000, "{nodes} elements");
    browser.fill_field("main", "Sort by", "name");
    browser.wait(
        "the names are in their order",
        "document.querySelector('tbody th button')?.innerText === 'limit-00000'",
    );
    browser.click("main", "Next");
    browser.wait_for("#limits-place", "51 to 100 of 10,000 limits");
    browser.wait_for("tbody th", "limit-00099");
    // A window that is chosen right after another order is of that order.
    browser.fill_field("main", "Sort by", "denied");
    browser.wait(
        "the denied one is first again",
        "document.querySelector('tbody th button')?.innerText === 'limit-04711'",
    );
    let both = "(() => { const [sort] = [...document.querySelectorAll('main select')].filter(list => list.value === 'denied'); \
                sort.value = 'name'; sort.dispatchEvent(new Event('input', {bubbles: true})); \
                [...document.querySelectorAll('main button')].find(button => button.innerText === 'Next').click(); })()";
    browser.eval(both);
    browser.wait_for("#limits-place", "51 to 100 of 10,000 limits");
    browser.wait_for("tbody th", "limit-00050");
    // Longer than the page waits for a further change.
    browser.eval("new Promise(done => setTimeout(done, 1500))");
    browser.wait_for("#limits-place", "51 to 100 of 10,000 limits");
    // Fewer limits than the window has skipped.
    browser.fill_field("main", "Search", "limit-0999");
    browser.click("main", "Next");
    browser.wait_for("#limits-place", "1 to 10 of 10 limits, of 10,000 in all");
    site.browser.finish();
}

#[test]
fn the_drawer_of_a_key_says_why_and_links_to_the_line() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    site.open(&key_view("login", "mallory"));
    let browser = &mut site.browser;
    browser.wait_for(".verdict", "Denied by gcra");
    browser.wait_for(".bars", "5 of 5 used, 0 left");
    browser.wait_for(".reasons", "gcra");
    browser.wait_for(".drawer .decided", "denied");
    browser.click(".reasons", "limits.yaml, line 3");
    browser.wait_for(".line.marked", "login");
    browser.wait("the line has the focus", "document.activeElement.className === 'line-number'");
    site.browser.finish();
}

#[test]
fn a_joint_decision_shows_each_limit_with_its_own_key() {
    let mut site = Site::start();
    let joint = json!({"limits": [{"limit": "api", "key": "alice"}, {"limit": "llm", "key": "acme", "cost": {"requests": 61}}]});
    assert_eq!(site.service.post("/v1/check", joint.to_string()).status, 429);
    let older = joint.to_string().replace("acme", "initech");
    assert_eq!(site.service.post("/v1/check", older).status, 429);
    site.open(&key_view("api", "alice"));
    site.browser.wait_for(".drawer .decided", "llm initech");
    site.browser.wait_for(".drawer", "llm acme");
    let text = site.browser.text(".drawer .decided");
    assert!(text.contains("api alice") && text.contains("llm: requests"), "{text}");
    site.browser.finish();
}

#[test]
fn holds_of_a_key_are_listed() {
    let mut site = Site::start();
    site.service.call("check", "jobs", "acme", &json!({"hold": "5min"}));
    site.open(&key_view("jobs", "acme"));
    site.browser.wait_for(".drawer .holds", "1 concurrency");
    site.browser.finish();
}

#[test]
fn decisions_are_filtered_grouped_and_stand_still_for_a_reader() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    site.check("api", "alice", 3);
    site.open("#/decisions");
    site.browser.wait_for("tbody tr", "4×");
    site.browser.wait_for("tbody tr", "api alice");
    site.browser.click(".head", "Pause");
    site.check("api", "bob", 2);
    site.browser.wait_for(".head", "2 new");
    assert!(!site.browser.text("tbody").contains("bob"));
    site.browser.click(".head", "Resume");
    site.browser.wait_for("tbody tr", "api bob");
    // The pointer in the list stops it too.
    let place = "(() => { const at = document.querySelector('.view:not([hidden]) tbody tr').getBoundingClientRect(); return [at.x + 40, at.y + 5]; })()";
    let place = site.browser.eval(place);
    site.browser.point(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    site.browser.wait_for(".head", "standing still");
    site.browser.point(1.0, 1.0);
    site.browser.wait_for(".head", "live");
    site.browser.fill_field("main", "Outcome", "denied");
    site.browser.wait("only denied ones", "[...document.querySelectorAll('.view:not([hidden]) tbody tr')].map(row => row.innerText.includes('denied')).join() === 'true'");
    site.browser.fill_field("main", "Limit", "login/../x");
    site.browser.wait_for("main", "No decision passes");
    site.browser.fill_field("main", "Limit", "login");
    site.browser.wait_for("tbody tr", "login mallory");
    let (name, text) = site.browser.downloaded(|browser| browser.click(".head", "Export"));
    assert_eq!(name, "decisions-login.jsonl");
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        rows.len() == 4
            && rows.iter().all(|row| row["key"] == "mallory" && row["allowed"] == false),
        "{text}"
    );
    site.browser.finish();
}

#[test]
fn the_configuration_has_its_file_its_history_and_the_fleet() {
    let mut site = Site::start();
    site.open("#/config?line=4");
    site.browser.wait_for(".line.marked", "api:");
    site.browser.wait_for("main", "1 process, one configuration");
    site.file.replace(&LIMITS.replace("gcra 5/h", "gcra 6/h"));
    sluicegate_testkit::wait::until_seldom("the reload", || {
        let of = site.service.get("/v1/config").json();
        of["text"].as_str().is_some_and(|text| text.contains("gcra 6/h")).then_some(()).ok_or(of)
    });
    site.open("#/config");
    site.browser.wait_for(".reloads", "applied");
    site.browser.wait_for(".file", "gcra 6/h");
    site.service.send("PUT", "/v1/limits/api/override", &[], br#"{"times":2,"note":"launch day"}"#);
    site.browser.click("main", "Newest changes");
    site.browser.wait_for("tbody tr", "launch day");
    site.browser.finish();
}

#[test]
fn the_process_that_differs_from_most_is_marked() {
    let text = own_store(shared().unwrap().url())
        + "limits: {api: {policies: [\"gcra 5/h\"], deadline: 5s}}\n";
    let file = File::new("limits.yaml", &text);
    let _same = Service::start(&["--config", file.path(), "--name", "same"]);
    let mut site = Site::start_with(&text, &["--name", "own"], 1600, 1000);
    // The newest one is not that of most.
    let other = File::new("limits.yaml", &text.replace("5/h", "6/h"));
    let _odd = Service::start(&["--config", other.path(), "--name", "odd"]);
    site.open("#/config");
    site.browser.wait_for("main", "2 configurations have decided at the same time");
    site.browser.wait_for("main", "don't have the one that most processes have");
    let marked = "[...document.querySelectorAll('td.bad')].map(of => of.parentNode.querySelector('th').innerText).join()";
    site.browser.wait("the mark", &format!("{marked} === 'odd'"));
    site.browser.finish();
}

/// A link to a limit finds it among those whose names contain its name.
#[test]
fn a_limit_is_found_by_its_link_with_all_its_overrides() {
    let many: String =
        (0..60).map(|index| format!("  a-login-{index}: {{policies: [gcra 5/h]}}\n")).collect();
    let mut site = Site::start_with(&format!("{LIMITS}{many}"), &[], 1600, 1000);
    for index in 10..35 {
        let path = format!("/v1/limits/login/overrides/key-{index}");
        site.service.send("PUT", &path, &[], br#"{"times":2}"#);
    }
    site.open("#/?limit=login");
    let browser = &mut site.browser;
    browser.wait("the limit", "document.querySelector('tbody th button')?.innerText === 'login'");
    browser.wait_for(".limit-details .facts", "key-29");
    assert!(!browser.text(".limit-details .facts").contains("key-30"));
    browser.click(".limit-details", "More overrides");
    browser.wait_for(".limit-details .facts", "key-34");
    browser.wait("no more", "[...document.querySelectorAll('.facts button')].every(of => of.hidden || of.innerText !== 'More overrides')");
    browser.click("nav", "Configuration");
    browser.click("main", "Limits with overrides");
    browser.wait_for("#limits-place", "1 to 1 of 1 limit, of 65");
    site.browser.finish();
}

/// A page is open for a whole shift.
#[test]
fn memory_stays_flat_over_many_events() {
    let mut site = Site::start();
    site.open("");
    let grow = r#"(async () => {
        const { Decisions, grouped, KEPT } = await import("./page/decisions.js");
        const { limitsView } = await import("./page/limits.js");
        const { deniedNow, overview, problemList } = await import("./page/overview.js");
        const host = document.body.appendChild(document.createElement("div"));
        const parts = [limitsView(() => {}), deniedNow(), overview(), problemList()];
        host.append(...parts.map(part => part.node));
        const list = new Decisions();
        const zeros = Array(90).fill(0);
        const names = ["allowed", "denied", "shadow_denied", "decision_p99_us", "store_p99_us", "store_up", "breaker_open", "keys", "bytes", "leased_units", "processes"];
        const run = turns => {
            for (let turn = 0; turn < turns; turn += 1) {
                list.add(Array.from({ length: 100 }, (_, index) => ({ number: list.newest + 1 + index, age_ms: 5, limit: "login", key: `k${turn}-${index}`,
                    allowed: false, source: "store", binding: "gcra", retry_after_ms: 9, op: "check" })));
                parts[1].update(list.list);
                parts[0].event({ total: 99, matching: 99, offset: 0, rows: Array.from({ length: 50 }, (_, index) => ({ name: `l${(turn * 7 + index) % 99}`,
                    enabled: true, overridden: false, shadow: false, policies: ["gcra 5/h"], rates: { allowed: turn, denied: 1, shadow_denied: 0 }, sums: { allowed: 1, denied: 1, shadow_denied: 0 },
                    capacity_permille: 5, top_denied: [{ key: `k${turn}`, count: 1 }], top_used: [], history: { allowed: zeros, denied: zeros, shadow_denied: zeros } })) });
                parts[2].history({ whole: false, series: Object.fromEntries(names.map(name => [name, [turn]])) });
                parts[3].update([{ id: `p${turn % 3}`, severity: "error", text: "t", remedy: "r", since_ms: turn, detail: null, limit: null }]);
            }
            return host.querySelectorAll("*").length;
        };
        const first = run(10);
        const last = run(200);
        host.remove();
        return { first, last, kept: list.list.length <= KEPT && grouped(list.list).length <= KEPT };
    })()"#;
    let of = site.browser.eval(grow);
    let [first, last] = ["first", "last"].map(|name| of[name].as_u64().unwrap());
    assert!(last <= first + 20, "{of}");
    assert_eq!(of["kept"], true);
    site.browser.finish();
}
