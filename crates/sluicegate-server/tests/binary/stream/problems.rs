//! Problems that the stream shows, caused from outside.

use std::time::{SystemTime, UNIX_EPOCH};

use sluicegate_testkit::servers::{Authority, FakeClock, shared};
use sluicegate_testkit::wait::until_seldom;

use crate::event_stream::Stream;
use crate::support::{Client, File, Service, own_store};

/// The time at which the certificate of the test ends: 2001-01-01, in seconds since the epoch.
const END: i64 = 978_307_200;
const DAY: i64 = 86_400;

/// Returns the offset of a clock that shows the time `left` seconds before the certificate ends.
#[expect(clippy::disallowed_methods, reason = "the offset is that from the machine's own clock")]
fn before_the_end(left: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    END - left - i64::try_from(now).unwrap()
}

/// One service that shows three problems: its certificate ends, clients have too many connections, and another process
/// has another configuration.
#[test]
fn a_certificate_that_ends_full_connections_and_a_differing_fleet_are_problems() {
    let authority = Authority::new().unwrap();
    let certificate = authority.expired("metrics", &["127.0.0.1"]).unwrap();
    let clock = FakeClock::new().unwrap();
    clock.set_offset(before_the_end(10 * DAY + DAY / 2)).unwrap();
    let store = own_store(shared().unwrap().url()) + "service: {max_connections: 4}\n";
    let tls = format!(
        "listeners: {{metrics: {{address: \"127.0.0.1:0\", tls: {{cert: {}, key: {}}}}}}}\n",
        certificate.certificate_file().display(),
        certificate.key_file().display()
    );
    let limits = "limits: {api: {policies: [gcra 9/h], deadline: 5s}}";
    let file = File::new("limits.yaml", &format!("{store}{tls}{limits}"));
    let service = Service::start_with_clock(&clock, &["--config", file.path(), "--name", "a"]);
    let mut stream = Stream::open(&service, "");

    let warning = stream.problem("certificate-ends:metrics");
    let text = "The TLS certificate of the listener metrics expires in 10 days.";
    assert_eq!((&warning["severity"], &warning["text"]), (&"warning".into(), &text.into()));
    clock.set_offset(before_the_end(DAY + DAY / 2)).unwrap();
    let is_error = |problem: &serde_json::Value| problem["severity"] == "error";
    let now = stream.until("now", |now| now["problems"].as_array().unwrap().iter().any(is_error));
    let problems = now["problems"].as_array().unwrap();
    let error = problems.iter().find(|problem| is_error(problem)).unwrap();
    assert_eq!(error["text"], "The TLS certificate of the listener metrics expires in 1 day.");

    // The connection that waits longest for its client is closed for the next one, and so may the stream's be.
    let idle: Vec<_> = (0..10).map(|_| Client::connect(service.address()).unwrap()).collect();
    let closed = "sluicegate_connections_closed_total{listener=\"http\",reason=\"full\"}";
    until_seldom("connections are closed", || match service.metric(closed) {
        closed @ ..6 => Err(closed),
        _ => Ok(()),
    });
    drop(idle);
    let mut stream = Stream::open(&service, "");
    let full = stream.problem("connections-full");
    let text = full["text"].as_str().unwrap();
    assert!(text.starts_with("The service closed ") && full["severity"] == "warning", "{full}");
    assert!(text.contains("connections in the last minute"), "{full}");

    let other = File::new("limits.yaml", &format!("{store}{}", limits.replace("9/h", "8/h")));
    let _other = Service::start(&["--config", other.path(), "--name", "b", "--drain", "0s"]);
    let differing = stream.problem("fleet-differs");
    assert_eq!(
        differing["text"],
        "The processes of the fleet decide by 2 different configurations."
    );
    let mut holders: Vec<_> = differing["detail"].as_str().unwrap().lines().collect();
    holders.sort_unstable();
    assert_eq!(holders, ["One configuration: a", "One configuration: b"]);
    assert_eq!(differing["severity"], "warning");
}
