//! Tests the actions of an operator on the page.

use serde_json::json;

use super::{HOSTILE, LIMITS, Site, key_view};

#[test]
fn a_ban_is_reached_confirmed_and_undone_by_the_keyboard_alone() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    site.open("");
    let browser = &mut site.browser;
    browser.wait_for(".denied-now tbody tr", "mallory");
    browser.press("Tab");
    assert_eq!(browser.eval("document.activeElement.id"), "skip");
    browser.press("Enter");
    assert_eq!(browser.eval("document.activeElement.id"), "main");
    browser.tab_to("mallory");
    browser.press("Enter");
    browser.wait("the drawer has the focus", "document.activeElement.id === 'drawer-title'");
    browser.wait_for(".verdict", "Denied");
    browser.tab_to("Ban…");
    browser.press("Enter");
    browser.wait_for("#dialog .sentence", "Every request of mallory under login is denied for 1h");
    // The dialog keeps the focus inside.
    browser.press("Escape");
    browser.wait("the dialog is closed", "!document.querySelector('dialog[open]')");
    assert_eq!(browser.text("#drawer-title"), "Key mallory", "the drawer stays");
    assert_eq!(browser.eval("document.activeElement.innerText"), "Ban…", "the focus is back");
    assert_eq!(site.service.get("/v1/bans?limit=login").json()["bans"], json!([]));
    browser.press("Enter");
    browser.tab_to("Ban");
    browser.press("Enter");
    browser.wait_for(".notice", "Banned mallory under login for 1 h.");
    browser.wait_for(".verdict", "Banned");
    let bans = site.service.get("/v1/bans?limit=login").json();
    assert_eq!(bans["bans"][0]["key"], "mallory");
    browser.tab_to("Undo");
    browser.press("Enter");
    browser.wait_for(".notice", "Unbanned mallory");
    browser.wait_for(".verdict", "Denied by gcra");
    assert_eq!(site.service.get("/v1/bans?limit=login").json()["bans"], json!([]));
    browser.eval("document.getElementById('drawer-title').focus()");
    browser.press("Escape");
    browser.wait("the drawer is closed", "document.getElementById('drawer').hidden");
    browser
        .wait("the focus is on the link again", "document.activeElement.innerText === 'mallory'");
    site.browser.finish();
}

/// A service keeps the later end of two bans or pauses.
#[test]
fn undo_sets_an_earlier_ban_or_pause_again_for_the_rest_of_its_time() {
    let mut site = Site::start();
    site.open(&key_view("login", "mallory"));
    let peek = |site: &Site, of: &str| {
        site.service.call("peek", "login", "mallory", &json!({})).json()[of]["ends_in_ms"].as_u64()
    };
    let rest = 3_500_000..=3_600_000;
    for (set, done, end, ended) in
        [("ban", "Banned", "Unban", "Unbanned"), ("pause", "Paused", "Resume", "Resumed")]
    {
        let open = format!("{}{}", set[..1].to_uppercase(), &set[1..]);
        let act = |site: &mut Site, verb: &str, lasts: Option<&str>| {
            site.browser.click(".drawer", &format!("{verb}…"));
            if let Some(lasts) = lasts {
                site.browser.fill_field("#dialog", "For", lasts);
            }
            site.browser.click("#dialog", verb);
        };
        let undo = |site: &mut Site, said: &str| {
            site.browser.click(".notice:last-child", "Undo");
            site.browser.wait_for(".notice:last-child", said);
        };
        site.service.call(set, "login", "mallory", &json!({"for": "1h"}));
        site.browser.wait_for(".verdict", done);
        // A longer one, and a shorter one.
        act(&mut site, &open, Some("2h"));
        site.browser.wait_for(".notice", &format!("{done} mallory under login for 2 h."));
        assert!(peek(&site, set) > Some(7_000_000));
        let again = format!("The earlier {set} is in force again: mallory under login for ");
        undo(&mut site, &again);
        assert!(peek(&site, set).is_some_and(|left| rest.contains(&left)));
        act(&mut site, &open, Some("2s"));
        let later = format!(
            "An earlier {set} ends later: mallory under login is {} for",
            done.to_lowercase()
        );
        site.browser.wait_for(".notice", &later);
        undo(&mut site, &again);
        assert!(peek(&site, set).is_some_and(|left| rest.contains(&left)));
        // The end of it.
        act(&mut site, end, None);
        site.browser.wait_for(".notice", &format!("{ended} mallory under login."));
        site.browser.wait_for(".verdict", "would be allowed");
        undo(&mut site, &again);
        assert!(peek(&site, set).is_some_and(|left| rest.contains(&left)));
        act(&mut site, end, None);
        site.browser.wait_for(".verdict", "would be allowed");
    }
    // A limit without a rule for bans.
    site.open(&key_view("api", "alice"));
    site.browser.wait_for(".drawer", "no rule for bans: use “Pause…” instead");
    let bans = "[...document.querySelectorAll('.drawer button')].filter(of => /ban/i.test(of.innerText) && of.checkVisibility()).length";
    assert_eq!(site.browser.eval(bans), 0);
    site.browser.finish();
}

#[test]
fn a_pause_a_refund_and_a_reset_say_what_they_do() {
    let mut site = Site::start();
    site.check("llm", "acme", 7);
    site.open(&key_view("llm", "acme"));
    let browser = &mut site.browser;
    browser.wait_for(".bars", "7 of 60 used");
    browser.click(".drawer", "Pause…");
    browser.fill_field("#dialog", "For", "10min");
    browser.fill_field("#dialog", "Pause", "tokens");
    browser.wait_for(
        "#dialog .sentence",
        "the policy tokens counts are denied for acme under llm until 10min",
    );
    browser.click("#dialog", "Pause");
    browser.wait_for(".verdict", "Paused (tokens)");
    browser.click(".notice", "Undo");
    browser.wait_for(".verdict", "would be allowed");
    browser.click(".drawer", "Refund…");
    browser.fill_field("#dialog", "Units", "3");
    browser.fill_field("#dialog", "To", "requests");
    browser.click("#dialog", "Refund");
    browser.wait_for(".bars", "4 of 60 used");
    browser.click(".notice:last-child", "Undo");
    browser.wait_for(".bars", "7 of 60 used");
    browser.click(".drawer", "Reset…");
    browser.wait_for("#dialog .sentence", "can't be undone");
    browser.click("#dialog", "Reset");
    browser.wait_for(".bars", "0 of 60 used");
    // A refusal of the service stays in the dialog.
    browser.may_fail("/v1/pause");
    browser.click(".drawer", "Pause…");
    browser.fill_field("#dialog", "For", "soon");
    browser.click("#dialog", "Pause");
    browser.wait_for("#dialog .problem", "for");
    site.browser.finish();
}

#[test]
fn an_override_of_a_key_and_of_a_limit_is_set_and_undone() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    site.open(&key_view("login", "mallory"));
    let browser = &mut site.browser;
    browser.click(".drawer", "Override…");
    browser.fill_field("#dialog", "Factor", "10");
    browser.fill_field("#dialog", "Note for colleagues", "launch <b>day</b>");
    browser.wait_for(
        "#dialog .sentence",
        "the key mallory of login: 10 times the numbers of the file, for 2h",
    );
    browser.click("#dialog", "Set the override");
    browser.wait_for(".bars", "of 50 used");
    browser.wait_for(".drawer", "“launch <b>day</b>”");
    browser.click(".drawer", "Override…");
    browser.fill_field("#dialog", "Effect", "block");
    browser.click("#dialog", "Set the override");
    browser.wait_for(".verdict", "Blocked");
    // It takes back the last change, and no earlier one.
    browser.click(".notice:last-child", "Undo");
    browser.wait_for(".bars", "of 50 used");
    browser.wait_for(".drawer", "10 times");
    browser.click(".drawer", "End the override…");
    browser.click("#dialog", "End it");
    browser.wait_for(".bars", "of 5 used");
    browser.click(".notice:last-child", "Undo");
    browser.wait_for(".bars", "of 50 used");
    browser.click(".drawer", "Close");
    browser.fill_field("main", "Search", "api");
    browser.click("tbody th", "api");
    browser.click(".limit-details", "Override the limit…");
    browser.fill_field("#dialog", "Effect", "policies");
    browser.fill_field("#dialog", "Policies, one a line", "token_bucket 1/s burst 2");
    browser.click("#dialog", "Set the override");
    browser.wait_for("tbody .tags", "overridden");
    browser.wait_for("tbody .policies", "token_bucket 1/s burst 2");
    browser.click(".notice:last-child", "Undo");
    browser.wait_for("tbody .policies", "token_bucket 100/s burst 200");
    site.browser.finish();
}

#[test]
fn a_simulation_shows_who_would_be_denied_and_becomes_an_override() {
    let mut site = Site::start();
    site.check("login", "alice", 4);
    site.open("#/what-if?limit=login");
    let browser = &mut site.browser;
    browser.wait(
        "the policies in force",
        "document.querySelector('.what-if textarea').value === 'gcra 5/h'",
    );
    browser.may_fail("/v1/simulate");
    browser.fill_field(".what-if", "Policies, one a line", "gcra 2/fortnight");
    browser.click(".what-if", "Simulate");
    browser.wait_for("pre.problem", "fortnight");
    browser.fill_field(".what-if", "Policies, one a line", "gcra 2/h");
    browser.click(".what-if", "Simulate");
    browser.wait_for(".report", "alice");
    browser.wait_for(".report", "2 newly");
    assert_eq!(
        site.service.call("peek", "login", "alice", &json!({})).json()["policies"][0]["remaining"],
        1
    );
    browser.click("main", "Apply as override");
    browser.wait_for("#dialog .sentence", "every key of login has gcra 2/h");
    browser.fill_field("#dialog", "Key", "alice");
    browser.wait_for("#dialog .sentence", "the key alice of login has gcra 2/h");
    browser.click("#dialog", "Set the override");
    browser.wait_for(".notice", "Override set for the key alice");
    let of = site.service.get("/v1/limits/login/overrides/alice").json();
    assert_eq!(of["policies"], json!(["gcra 2/h"]));
    browser.click(".notice", "Undo");
    browser.wait_for(".notice", "Undone");
    browser.click("main", "Apply as override");
    browser.click("#dialog", "Set the override");
    browser.wait_for(".notice", "Override set for every key");
    let of = site.service.get("/v1/limits/login/override").json();
    assert_eq!(of["policies"], json!(["gcra 2/h"]));
    // A whole file.
    browser.fill_field(".what-if", "Change", "file");
    browser.fill_field(".what-if", "Text of the file", &LIMITS.replace("gcra 5/h", "gcra 1/h"));
    browser.click(".what-if", "Simulate");
    // The override of the limit wins over a file.
    browser.wait_for(".report", "2 newly");
    browser.wait_for(".warning", "in flight: concurrency 3 hold 10min of jobs.");
    let reports = browser.eval("document.querySelectorAll('.report').length");
    assert_eq!(reports, 1, "no other limit had requests");
    site.browser.finish();
}

/// A key is chosen by clients.
#[test]
fn hostile_keys_are_visible_text_everywhere() {
    let mut site = Site::start();
    site.check("login", HOSTILE, 9);
    let hex = site.service.post("/v1/check", br#"{"limit":"api","key":"."}"#);
    assert_eq!(hex.status, 200);
    site.open("");
    let escaped =
        "<img src=x onerror=alert(1)>⟨U+202E⟩txt.exe⟨U+000A⟩⟨U+200B⟩\"'&<script>alert(2)</script>";
    let browser = &mut site.browser;
    browser.wait_for(".denied-now tbody tr", "⟨U+202E⟩");
    browser.wait_for("tbody .keys", "<img");
    browser.open(&format!("http://{}/{}", site.service.address(), key_view("login", HOSTILE)));
    browser.click(".drawer", "all its decisions");
    browser.wait_for(".view:not([hidden]) tbody tr", "<img src=x");
    browser.wait_for(".view:not([hidden]) tbody tr", "4×");
    let (name, _) = browser.downloaded(|browser| browser.click(".head", "Export"));
    assert!(
        name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter)),
        "{name}"
    );
    browser.open(&format!("http://{}/{}", site.service.address(), key_view("login", HOSTILE)));
    browser.wait_for("#drawer-title", escaped);
    browser.wait_for(".verdict", "Denied");
    browser.wait("the title of the page", "document.title.includes('⟨U+202E⟩')");
    for act in ["Ban…", "Pause…", "Reset…", "Override…"] {
        browser.click(".drawer", act);
        browser.wait_for("#dialog .sentence", escaped);
        browser.press("Escape");
        browser.wait("the dialog is closed", "!document.querySelector('dialog[open]')");
    }
    browser.click(".drawer", "Ban…");
    browser.click("#dialog", "Ban");
    browser.wait_for(".notice", escaped);
    browser.click(".notice", "Undo");
    browser.wait_for(".notice", "Unbanned");
    for (role, name) in browser.accessible() {
        assert!(!name.contains(['\u{202e}', '\u{200b}']), "{role} {name:?}");
    }
    let foreign = "document.querySelectorAll('img, script:not([src]), main script').length";
    assert_eq!(browser.eval(foreign), 0);
    site.browser.finish();
}
