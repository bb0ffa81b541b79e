//! The combination of the section `redis` of a configuration with the URL of a store.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::time::Duration;

use sluicegate::Config;
use sluicegate::config::StoreUrl;
use sluicegate::error::OpenError;
use sluicegate::store::{SharedStore, Store as _, StoreOptions};
use sluicegate_testkit::servers::{Authority, Server, available};

const LIMITS: &str = "limits: {demo: {policies: [gcra 5/s]}}";

/// Returns the store of a configuration with this section, at `url`. The URL may differ from the file's, as on the
/// command line.
fn open(url: &str, section: &str) -> Result<SharedStore, OpenError> {
    let text = format!("redis: {section}\n{LIMITS}");
    let config = Config::parse(&text, "c.yaml").unwrap_or_else(|error| panic!("{error}"));
    let mut options = StoreOptions::from(&config);
    options.deadline = Duration::from_secs(5);
    url.parse::<StoreUrl>().unwrap().open(&options)
}

async fn is_let_in(url: &str, section: &str) -> bool {
    match open(url, section).unwrap().ping().await {
        Ok(()) => true,
        Err(error) if error.to_string().contains("password for") => false,
        Err(error) => panic!("{url} {section}: {error}"),
    }
}

#[tokio::test]
async fn a_password_of_the_url_goes_before_that_of_the_section() {
    let server = Server::builder(&available().unwrap()[0]).start().unwrap();
    server.set_user("limiter", &["on", ">right", "~*", "+@all"]).unwrap();
    let folder = Authority::new().unwrap();
    let file = folder.certificate_file().with_file_name("password");
    fs::write(&file, "right\n").unwrap();
    let file = file.display();
    let at = |account: &str| format!("redis://{account}127.0.0.1:{}", server.port());
    for (account, section, expected) in [
        ("", "{user: limiter, password: right}", true),
        ("", "{user: limiter, password: wrong}", false),
        ("", &format!("{{user: limiter, password_file: {file}}}"), true),
        ("", "{user: limiter}", false),
        ("limiter@", &format!("{{password_file: {file}}}"), true),
        ("limiter:right@", "{user: somebody, password: wrong}", true),
        ("limiter:wrong@", "{user: limiter, password: right}", false),
    ] {
        assert_eq!(is_let_in(&at(account), section).await, expected, "{account} {section}");
    }
    // Passwords that are used are never printed.
    let text = format!("redis: {{password: hunter2}}\n{LIMITS}");
    let config = Config::parse(&text, "c.yaml").unwrap();
    let shown = format!("{config:?} {:?}", StoreOptions::from(&config));
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn certificates_of_the_section_are_used_where_the_url_is_encrypted() {
    let (authority, clients) = (Authority::new().unwrap(), Authority::new().unwrap());
    let certificate = authority.certificate("server", &["redis.example"]).unwrap();
    let client = clients.certificate("client", &["client"]).unwrap();
    let start = |binary| Server::builder(binary).tls(&certificate, Some(&clients)).start().ok();
    let server = available().unwrap().iter().find_map(start).unwrap();
    let port = server.tls_port().unwrap();
    let ca = authority.certificate_file().display();
    let (cert, key) = (client.certificate_file().display(), client.key_file().display());
    let section = format!("{{ca: {ca}, cert: {cert}, key: {key}, server_name: redis.example}}");
    open(&format!("rediss://127.0.0.1:{port}"), &section).unwrap().ping().await.unwrap();
    let url = format!("rediss://127.0.0.1:{port}?server_name=other.example");
    let error = open(&url, &section).unwrap().ping().await.unwrap_err().to_string();
    assert!(error.contains("not for `other.example`"), "{error}");
    let error = open(&server.url(), &section).unwrap_err().to_string();
    assert!(error.contains("is not encrypted: write rediss://"), "{error}");
}
