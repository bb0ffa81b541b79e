//! Tests the files of the page, and the page behind a proxy, with a token and after a restart.

use sluicegate_testkit::servers::WebProxy;

use super::{LIMITS, Site};
use crate::support::{File, Service};

#[test]
fn files_are_small_and_loaded_only_from_the_service() {
    let service = Service::start(&[]);
    let page = service.get("/");
    let policy = page.field("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.field("cache-control"), Some("no-cache"));
    assert!(!page.body.contains("style=") && !page.body.contains("onclick"));
    let mut size = page.body.len();
    let mut found =
        vec!["page/main.js".to_owned(), "page/page.css".to_owned(), "page/parts.css".to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        assert!(next < 100);
        let reply = service.get(&format!("/{path}"));
        let kind = if path.ends_with("css") { "text/css" } else { "text/javascript" };
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.field("content-type"), Some(&*format!("{kind}; charset=utf-8")), "{path}");
        let tag = reply.field("etag").unwrap().to_owned();
        let again = service.send("GET", &format!("/{path}"), &[("If-None-Match", &tag)], b"");
        assert_eq!((again.status, &*again.body), (304, ""), "{path}");
        size += reply.body.len();
        for import in reply.body.split("from \"./").skip(1) {
            let path = format!("page/{}", import.split('"').next().unwrap());
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 15, "{found:?}");
    assert!(size <= 150_000, "{size} bytes");
    assert_eq!(service.get("/page/none.js").status, 404);
    assert_eq!(service.get("/page/..%2Fpage.rs").status, 404);
}

#[test]
fn below_a_path_of_nginx_the_page_asks_for_its_token_and_forgets_it() {
    let mut site = Site::start_with(LIMITS, &["--admin-token", "s3cret"], 1024, 800);
    site.check("login", "mallory", 9);
    let upstream = site.service.address();
    let words = [
        "-p",
        "./",
        "-c",
        "nginx.conf",
        "-e",
        "stderr",
        "-g",
        "daemon off; master_process off; pid nginx.pid;",
    ];
    let proxy = WebProxy::start("nginx", &words, |address| {
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let folders: String = kinds.map(|kind| format!("{kind}_temp_path {kind};\n")).concat();
        let text = format!(
            "events {{}}\nhttp {{ access_log off; {folders} server {{ listen {address};\n\
             location /ops/gate/ {{ proxy_pass http://{upstream}/; proxy_http_version 1.1; proxy_set_header X-Forwarded-For $remote_addr; }} }} }}\n"
        );
        vec![("nginx.conf", text)]
    });
    let proxy = proxy.unwrap();
    let browser = &mut site.browser;
    // Refused requests without a token are what the page answers with its question.
    browser.may_fail("/v1/");
    browser.open(&format!("http://{}/ops/gate/", proxy.address()));
    browser.wait("the question", "document.querySelector('#dialog[open] input[type=password]')");
    browser.fill_field("#dialog", "Token", "wrong");
    browser.click("#dialog", "Use the token");
    browser.wait_for("#dialog .problem", "token");
    browser.fill_field("#dialog", "Token", "s3cret");
    browser.click("#dialog", "Use the token");
    browser.wait_for("#live", "live");
    browser.wait_for(".denied-now tbody tr", "mallory");
    assert_eq!(browser.eval("Object.keys(localStorage).length + document.cookie.length"), 0);
    browser.click(".denied-now", "mallory");
    browser.wait_for(".verdict", "Denied");
    browser.click(".state", "forget");
    browser
        .wait("the question again", "document.querySelector('#dialog[open] input[type=password]')");
    assert_eq!(browser.eval("Object.keys(sessionStorage).length"), 0);
    // After Escape, only the button opens the dialog again.
    browser.press("Escape");
    browser.wait_for("#stale", "Try again");
    browser.click("#stale", "Try again");
    browser.wait(
        "the question on demand",
        "document.querySelector('#dialog[open] input[type=password]')",
    );
    site.browser.finish();
}

#[test]
fn after_a_restart_the_page_says_that_it_is_stale_and_comes_back_by_itself() {
    let mut site = Site::start();
    site.check("login", "mallory", 9);
    site.open("");
    site.browser.wait_for(".denied-now tbody tr", "mallory");
    // Nothing answers until the service is there again.
    site.browser.may_fail("/v1/");
    let address = site.service.address().to_string();
    site.service.signal(rustix::process::Signal::KILL);
    site.service.wait();
    site.browser.wait_for("#stale", "What you see is old");
    site.browser.wait("the mark of the page", "document.body.classList.contains('is-stale')");
    let file = File::new("limits.yaml", LIMITS);
    let again = Service::start_on(&address, &["--config", file.path()]);
    site.browser.wait_for("#live", "live");
    site.browser.wait("no warning", "document.getElementById('stale').hidden");
    // The new process has no decision yet, and numbers its own from the start.
    site.browser.wait(
        "the old ones are gone",
        "!document.querySelector('.denied-now tbody').innerText.includes('mallory')",
    );
    for _ in 0..9 {
        again.call("check", "login", "trudy", &serde_json::json!({}));
    }
    site.browser.wait_for(".denied-now tbody tr", "trudy");
    site.browser.finish();
}
