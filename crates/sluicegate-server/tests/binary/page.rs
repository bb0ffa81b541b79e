//! Tests the page of operators in a real browser.

mod acts;
mod browser;
mod incident;
mod looks;
mod paces;
mod pictures;
mod places;
mod reads;
mod shift;

use browser::Browser;
use serde_json::json;

use crate::support::{File, Service};

const LIMITS: &str = r#"
limits:
  login: {policies: ["gcra 5/h"], ban: 1000/h for 1h}
  api: {policies: ["token_bucket 100/s burst 200"]}
  llm: {policies: ["fixed_window 60/h as requests", "fixed_window 900/h as tokens"]}
  search: {policies: ["gcra 100/s burst 50", "gcra 3/h shadow as plan"]}
  jobs: {policies: ["concurrency 3 hold 10min"]}
"#;

/// Text that must never become an element, move other text, or be invisible.
const HOSTILE: &str =
    "<img src=x onerror=alert(1)>\u{202e}txt.exe\n\u{200b}\"'&<script>alert(2)</script>";

/// Requests that fail in ordinary use: most keys have no override, and most limits no bans.
const MAY_FAIL: [&str; 2] = ["/override", "/v1/bans"];

/// A service with a browser on its page.
struct Site {
    file: File,
    service: Service,
    browser: Browser,
}

impl Site {
    fn start() -> Self {
        Self::start_with(LIMITS, &[], 1600, 1000)
    }

    fn start_with(limits: &str, args: &[&str], width: u32, height: u32) -> Self {
        let file = File::new("limits.yaml", limits);
        let service = Service::start(&[&["--config", file.path()], args].concat());
        Self { file, service, browser: empty_browser(width, height) }
    }

    /// Opens a view, and waits until the stream is live.
    #[track_caller]
    fn open(&mut self, view: &str) {
        let url = format!("http://{}/{view}", self.service.address());
        self.browser.open(&url);
        self.browser.wait_for("#live", "live");
    }

    /// Makes checks of a key.
    fn check(&self, limit: &str, key: &str, times: usize) {
        for _ in 0..times {
            self.service.call("check", limit, key, &json!({}));
        }
    }
}

/// Starts a browser for the page.
fn empty_browser(width: u32, height: u32) -> Browser {
    let mut browser = Browser::start(width, height);
    MAY_FAIL.iter().for_each(|part| browser.may_fail(part));
    browser
}

/// Returns the address of the drawer of a key.
fn key_view(limit: &str, key: &str) -> String {
    let of = form_urlencoded::Serializer::new(String::new())
        .append_pair("limit", limit)
        .append_pair("key", key)
        .finish();
    format!("#/key?{of}")
}
