//! Tests waiting in the queue of permits: over HTTP, on the command line, and with the client.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::store::Queued;
use sluicegate::{Ask, Limiter, Usage};
use sluicegate_client::RemoteStore;
use sluicegate_testkit::servers::shared;
use sluicegate_testkit::wait::{until, until_async};

use crate::support::{Client, File, Reply, Service, own_store, sluicegate, with_fields};

const JOBS: &str = "concurrency 1 hold 1min queue 9 priorities 2";
const SMALL: &str = "concurrency 1 hold 1min queue 3";
const LIMITS: &str = r#"
limits:
  jobs: {policies: ["concurrency 1 hold 1min queue 9 priorities 2"], deadline: 5s}
  small: {policies: ["concurrency 1 hold 1min queue 3"], deadline: 5s}
  rated: {policies: ["concurrency 1 hold 1min queue 3", "fixed_window 1/d"], deadline: 5s}
"#;

/// Starts a service with the embedded store, and one with a server.
fn services(settings: &str) -> [(Service, File); 2] {
    let on_server = own_store(shared().unwrap().url());
    [String::new(), on_server].map(|store| {
        let file = File::new("limits.yaml", &format!("{store}service: {settings}\n{LIMITS}"));
        (Service::start(&["--config", file.path()]), file)
    })
}

fn body(within: &str, more: &Value) -> String {
    with_fields(json!({"limit": "jobs", "key": "acme", "within": within}), more).to_string()
}

fn acquire(service: &Service, within: &str, more: &Value) -> Reply {
    service.post("/v1/acquire", body(within, more))
}

/// Returns a client that waits with this priority.
fn waiting(service: &Service, priority: u8) -> Client {
    sent(service, &body("1min", &json!({"priority": priority, "hold": "30s"})))
}

/// Returns a client that has sent a request and waits for the answer.
fn sent(service: &Service, body: &str) -> Client {
    let mut client = Client::connect(service.address()).unwrap();
    let length = body.len();
    client
        .send(&format!(
            "POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .unwrap();
    client
}

/// Returns the number of waiting tickets, as reported to a request at the end of the queue that
/// times out.
fn queued(service: &Service) -> Result<u64, String> {
    let reply = acquire(service, "1ms", &json!({"priority": 15}));
    let answer = reply.json();
    match answer["code"].as_str() {
        Some("timed_out") => Ok(answer["ahead"].as_u64().unwrap()),
        _ => Err(format!("{reply:?}")),
    }
}

fn wait_until_queued(service: &Service, many: u64) {
    until("that many wait", || match queued(service) {
        Ok(there) if there == many => Ok(()),
        there => Err(there),
    });
}

fn token(reply: &Reply) -> String {
    let answer = reply.json();
    assert_eq!((reply.status, &answer["allowed"]), (200, &json!(true)), "{reply:?}");
    answer["hold"]["token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn release(service: &Service, token: &str) {
    let released = service.post("/v1/release", json!({"hold": token}).to_string());
    assert_eq!(released.status, 200, "{released:?}");
}

#[test]
fn the_highest_priority_is_served_first_and_then_who_came_first() {
    for (service, _file) in services("{max_requests: 1}") {
        let mut held = token(&acquire(&service, "1min", &json!({})));
        let mut waiters = Vec::new();
        for (priority, many) in [(1, 1), (1, 2), (0, 3)] {
            waiters.push(waiting(&service, priority));
            wait_until_queued(&service, many);
        }
        for next in [2, 0, 1] {
            release(&service, &held);
            let reply = waiters[next].reply().unwrap();
            held = token(&reply);
            let lasts = reply.json()["hold"]["expires_in_ms"].clone();
            assert_eq!(lasts, 30_000, "{reply:?}");
            assert!(!reply.body.contains("code"), "{}", reply.body);
        }
    }
}

#[test]
fn what_ends_a_wait_is_said_by_a_code() {
    for (service, _file) in services("{max_waiting: 4}") {
        let _held = token(&acquire(&service, "1min", &json!({})));
        let denied = |within: &str, more: &Value| {
            let reply = acquire(&service, within, more);
            let answer = reply.json();
            assert_eq!((reply.status, &answer["allowed"]), (429, &json!(false)), "{reply:?}");
            (answer["code"].clone(), answer["ahead"].clone(), reply.field("retry-after").is_some())
        };
        assert_eq!(denied("5ms", &json!({})), (json!("timed_out"), json!(0), true));
        assert_eq!(denied("1min", &json!({"cost": 2})), (json!("hopeless"), Value::Null, false));
        assert_eq!(denied("0s", &json!({})), (json!("hopeless"), Value::Null, true));
        // Another policy of the limit refuses for a day.
        let rated = json!({"limit": "rated", "key": "a", "within": "1min"}).to_string();
        release(&service, &token(&service.post("/v1/acquire", rated.clone())));
        assert_eq!(service.post("/v1/acquire", rated).json()["code"], "hopeless");
        // Three of the four get a queue position; which three is undefined.
        let small = json!({"limit": "small", "key": "a", "within": "1min"}).to_string();
        let mut first = token(&service.post("/v1/acquire", small.clone()));
        let (replies, come) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let (mut client, replies) = (sent(&service, &small), replies.clone());
            std::thread::spawn(move || replies.send(client.reply().unwrap()));
        }
        let full = come.recv().unwrap();
        assert_eq!((full.status, &full.json()["code"]), (429, &json!("queue_full")), "{full:?}");
        assert!(full.field("retry-after").is_some(), "{full:?}");
        // The three waiting requests use three of the service's four places. The next request takes
        // the last one.
        let other = small.replace("\"a\"", "\"b\"");
        let _other = token(&service.post("/v1/acquire", other.clone()));
        let _last = sent(&service, &other);
        until("four wait", || match service.metric("sluicegate_waiting_requests") {
            4 => Ok(()),
            waiting => Err(waiting),
        });
        assert_eq!(denied("1ms", &json!({})).0, "too_many_waiting");
        for _ in 0..3 {
            release(&service, &first);
            first = token(&come.recv().unwrap());
        }
    }
}

/// Without renewal, a ticket expires after 5 s; the service renews it every 2.5 s.
#[test]
fn who_hangs_up_leaves_the_queue_at_once() {
    for (service, _file) in services("{}") {
        let held = token(&acquire(&service, "1min", &json!({})));
        let first = waiting(&service, 1);
        wait_until_queued(&service, 1);
        let mut second = waiting(&service, 1);
        wait_until_queued(&service, 2);
        drop(first);
        wait_until_queued(&service, 1);
        release(&service, &held);
        let _ = token(&second.reply().unwrap());
    }
}

#[test]
fn a_priority_is_one_of_sixteen_and_only_for_who_waits() {
    let [(service, _file), _] = services("{}");
    for (path, priority, words) in [
        ("/v1/acquire", json!(16), "from 0, the highest, to 15"),
        ("/v1/acquire", json!(-1), "integer `-1`"),
        ("/v1/acquire", json!("0"), "string"),
        ("/v1/acquire", Value::Null, "null"),
        ("/v1/check", json!(0), "only /v1/acquire waits in queues"),
        ("/v1/reserve", json!(0), "only /v1/acquire waits in queues"),
    ] {
        let within = if path == "/v1/check" { json!({}) } else { json!({"within": "1s"}) };
        let body = json!({"limit": "jobs", "key": "acme", "priority": priority});
        let body = with_fields(body, &within);
        let reply = service.post(path, body.to_string());
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{body}: {reply:?}");
        assert!(reply.body.contains(words), "{body}: {}", reply.body);
    }
}

#[test]
fn the_command_line_waits_as_well_with_and_without_a_service() {
    let [_, (service, file)] = services("{}");
    let url = format!("http://{}", service.address());
    for to in [&["--server", &*url][..], &["--config", file.path()]] {
        let waits = |within: &str, more: &[&str]| {
            let what = ["acquire", "--limit", "jobs", "--key", "acme", "--within", within];
            sluicegate(&[&what[..], to, more].concat())
        };
        let held = token(&acquire(&service, "1min", &json!({})));
        let late = waits("50ms", &["--json"]);
        assert_eq!((late.status, &*late.stderr), (1, ""));
        assert_eq!((&late.json()["code"], &late.json()["ahead"]), (&json!("timed_out"), &json!(0)));
        // The ticket has left the queue.
        assert_eq!(queued(&service), Ok(0));
        let said = waits("5ms", &[]).stdout;
        assert!(said.contains("gave up  jobs  the time is up"), "{said}");
        let first = waiting(&service, 1);
        wait_until_queued(&service, 1);
        std::thread::scope(|scope| {
            let urgent = scope.spawn(|| waits("1min", &["--json", "--priority", "0"]));
            wait_until_queued(&service, 2);
            release(&service, &held);
            let urgent = urgent.join().unwrap();
            assert_eq!((urgent.status, &*urgent.stderr), (0, ""), "{}", urgent.stdout);
            drop(first);
            release(&service, urgent.json()["hold"]["token"].as_str().unwrap());
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_of_the_client_waits_at_the_service() {
    for (service, _file) in services("{}") {
        let store = RemoteStore::builder(&format!("http://{}", service.address())).unwrap();
        // The deadline is shorter than the waits.
        let store = store.deadline(Duration::from_millis(500)).build();
        let limiter = Limiter::new(store.clone(), sluicegate::Limit::new("jobs", [JOBS]).unwrap());
        let waits =
            |within: Duration| limiter.check("acme").hold(Duration::from_secs(60)).within(within);
        let first = waits(Duration::from_secs(60)).await.unwrap();
        let late = waits(Duration::from_millis(20)).await.unwrap();
        assert!(matches!(late.queued(), Some(Queued::Waits { ahead: 0, .. })), "{late:?}");
        let there = async || queued(&service).map_err(|_| u64::MAX);
        let until_there = async |many: u64| {
            until_async("that many wait", async || match there().await {
                Ok(there) if there == many => Ok(()),
                there => Err(there),
            })
            .await;
        };
        let mut waiters = Vec::new();
        for many in 1..=2 {
            let limiter = limiter.clone();
            waiters.push(tokio::spawn(async move {
                let ask = Ask::new("acme").priority(1);
                limiter
                    .check(ask)
                    .hold(Duration::from_secs(60))
                    .within(Duration::from_secs(60))
                    .await
            }));
            until_there(many).await;
        }
        let dropped = waiters.remove(0);
        dropped.abort();
        until_there(1).await;
        // The pause is longer than the deadline of an answer.
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        let mut held = first;
        for waiter in waiters {
            let _ = limiter.settle(held.token().unwrap(), Usage::nothing()).await.unwrap();
            held = waiter.await.unwrap().unwrap();
            assert!(held.is_allowed(), "{held:?}");
        }
        let small = Limiter::new(store, sluicegate::Limit::new("small", [SMALL]).unwrap());
        let mut waiters = tokio::task::JoinSet::new();
        // Longer than the longest hold: a full queue must be reported immediately.
        let within = Duration::from_secs(2 * 60);
        for _ in 0..5 {
            let small = small.clone();
            let waits =
                async move { small.check("a").hold(Duration::from_secs(60)).within(within).await };
            waiters.spawn(waits);
        }
        let first = [waiters.join_next().await, waiters.join_next().await];
        let mut first = first.map(|one| one.unwrap().unwrap().unwrap());
        first.sort_by_key(|one| one.is_allowed());
        assert_eq!((first[0].queued(), first[1].is_allowed()), (Some(Queued::Full), true));
        let permit = limiter.permit("acme").within(Duration::from_secs(60));
        let (permit, settled) = tokio::join!(
            permit.into_future(),
            limiter.settle(held.token().unwrap(), Usage::nothing())
        );
        let (settled, permit) = (settled.unwrap(), permit.unwrap());
        assert!(settled.is_allowed() && permit.is_allowed(), "{settled:?}, {permit:?}");
    }
}
