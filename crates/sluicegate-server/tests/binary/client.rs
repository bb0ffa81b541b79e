//! Tests the service as a store: `sluicegate-client` against the real binary.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use sluicegate::error::DeniedReason;
use sluicegate::{Ask, Denied, Limiter, Usage};
use sluicegate_client::RemoteStore;
use sluicegate_core::{
    Costs, Error, HoldFound, Limit, OpenOptions, OpenedLimit as _, Operation, Request,
    RequestErrorKind, Span, Store as _, StoreErrorKind, TimeSource, Timestamp,
};
use sluicegate_testkit::proxy::Proxy;
use sluicegate_testkit::servers::shared;

use crate::support::{File, Service, own_store};

const LIMITS: &str = r#"
limits:
  api: {policies: ["token_bucket 1/h burst 100", "fixed_window 90/d as day"], allow: [vip], block: [mallory], deadline: 5s}
  org: {policies: ["fixed_window 1000/d as day"], deadline: 5s}
  mail: {policies: ["gcra 1/h burst 2"], deadline: 5s}
  queue: {policies: ["gcra 50/s"], deadline: 5s}
  jobs: {policies: ["concurrency 2 hold 30s"], deadline: 5s}
  login: {policies: ["fixed_window 9/d"], ban: 1/h for 15min, deadline: 5s}
"#;

fn of(name: &str) -> Limit {
    let policies: &[&str] = match name {
        "api" => &["token_bucket 1/h burst 100", "fixed_window 90/d as day"],
        "org" => &["fixed_window 1000/d as day"],
        "mail" => &["gcra 1/h burst 2"],
        "queue" => &["gcra 50/s"],
        "jobs" => &["concurrency 2 hold 30s"],
        "login" => &["fixed_window 9/d"],
        _ => panic!("no limit is called {name}"),
    };
    Limit::new(name, policies).unwrap()
}

fn store_at(url: &str) -> RemoteStore {
    RemoteStore::builder(url).unwrap().deadline(Duration::from_secs(60)).build()
}

fn store(service: &Service) -> RemoteStore {
    store_at(&format!("http://{}", service.address()))
}

fn left(decision: &sluicegate::Decision) -> Vec<u64> {
    decision.policies().map(|policy| policy.remaining().unwrap()).collect()
}

/// Starts a service with the embedded store, and one with a server.
fn services() -> [(Service, File); 2] {
    let on_server = own_store(shared().unwrap().url()) + LIMITS;
    [LIMITS.to_owned(), on_server].map(|text| {
        let file = File::new("limits.yaml", &text);
        (Service::start(&["--config", file.path()]), file)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_an_id_is_charged_once() {
    for (service, _file) in services() {
        let both = Limit::together([of("api"), of("org")]).unwrap();
        let both = Limiter::new(store(&service), both);
        let ask = |units| {
            let ask = Ask::new("t").cost(units).and(Ask::new("acme").cost(units));
            ask.request_id("order-1")
        };
        let first = both.check(ask(40)).hold(Duration::from_secs(60)).await.unwrap();
        let repeat = both.check(ask(40)).hold(Duration::from_secs(60)).await.unwrap();
        assert_eq!((first.is_repeat(), repeat.is_repeat()), (false, true));
        assert_eq!((left(&repeat), repeat.granted()), (vec![60, 50, 960], 40));
        assert_eq!(first.token().unwrap().to_string(), repeat.token().unwrap().to_string());
        assert_eq!(repeat.hold(), first.hold());
        let conflict = both.check(ask(41)).hold(Duration::from_secs(60)).await.unwrap_err();
        assert_eq!(conflict.as_request().unwrap().kind(), RequestErrorKind::Conflict);
        let settled = both.settle(repeat.token().unwrap(), Usage::of("day", 10)).await.unwrap();
        assert_eq!(left(&settled), [60, 80, 990]);

        let mail = Limiter::new(store(&service), of("mail"));
        let ask = |lasts| Ask::new("m").request_id("order-1").known_for(lasts);
        for is_repeat in [false, true] {
            let taken = mail.take(ask(Duration::from_secs(1))).await.unwrap();
            assert_eq!((taken.is_repeat(), taken.granted(), left(&taken)), (is_repeat, 1, vec![1]));
        }
        let too_long = mail.check(ask(Duration::from_secs(3_600))).await.unwrap_err();
        assert_eq!(too_long.as_request().unwrap().kind(), RequestErrorKind::Unsupported);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bans_are_told_and_made_and_lifted() {
    for (service, _file) in services() {
        let limit =
            of("login").banning("1/h for 15min".parse::<sluicegate::policy::Ban>().unwrap());
        let login = Limiter::new(store(&service), limit);
        let quarter = "15min".parse::<Span>().unwrap();
        let denied = login.check(Ask::new("a").cost(10)).await.unwrap();
        let ban = denied.ban().unwrap();
        assert_eq!((ban.begins, Span::from(ban.ends_in), left(&denied)), (true, quarter, vec![9]));
        let refused = login.check("a").await.unwrap();
        let ban = refused.ban().unwrap();
        assert!(
            !ban.begins && Span::from(ban.ends_in) <= quarter && !Span::from(ban.ends_in).is_zero(),
            "{ban:?}"
        );
        assert_eq!(refused.banned_by().unwrap().as_str(), "login");
        assert_eq!(refused.retry_after(), sluicegate::RetryAfter::After(ban.ends_in));
        assert_eq!((refused.policies().len(), refused.warnings().full), (0, false));
        let lifted = login.unban("a").await.unwrap();
        assert_eq!((lifted.forgotten(), left(&lifted)), (Some(true), vec![9]));
        assert_eq!(login.unban("a").await.unwrap().forgotten(), Some(false));
        assert!(login.check("a").await.unwrap().is_allowed());
        let banned = login.ban("a", Duration::from_secs(3_600)).await.unwrap();
        assert_eq!(
            banned.ban().map(|ban| (ban.begins, Span::from(ban.ends_in))),
            Some((true, Span::HOUR))
        );
        assert!(login.check("a").await.unwrap().is_denied());
        let free = Limiter::new(store(&service), of("mail"));
        let unsupported = free.ban("a", Duration::from_secs(3_600)).await.unwrap_err();
        assert_eq!(unsupported.as_request().unwrap().kind(), RequestErrorKind::Unsupported);
    }
}

/// No policy refuses the key: the service's embedded store has no capacity for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_denial_because_the_store_of_the_service_is_full_is_told_from_others() {
    let memory = "memory: {max_keys: 1, overflow: deny}";
    for (policy, retry_after) in [
        // The state of the only key never expires, or expires within 5 hours.
        ("token_bucket 0/s burst 5", None),
        ("fixed_window 5/5h", Some("5h".parse::<Span>().unwrap())),
    ] {
        let text = format!("{memory}\nlimits: {{l: {{policies: [{policy}], deadline: 5s}}}}");
        let file = File::new("limits.yaml", &text);
        let service = Service::start(&["--config", file.path()]);
        let limit = Limit::new("l", [policy]).unwrap();
        let limiter = Limiter::new(store(&service), limit);
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        let denials = [
            limiter.check("bob").await.unwrap(),
            limiter.take("bob").await.unwrap(),
            limiter.check("bob").hold(Duration::from_secs(60)).await.unwrap().into_decision(),
            limiter.check("bob").within(Duration::from_secs(1)).await.unwrap(),
        ];
        for denied in denials {
            assert!(denied.is_denied() && denied.is_store_full(), "{denied:?}");
            assert!(denied.binding().is_none(), "{denied:?}");
            let most = retry_after.map(Duration::from);
            let retry = denied.retry_after().duration();
            assert!(retry <= most && retry.is_some() == most.is_some(), "{denied:?}");
            let denied = Denied::from(denied);
            assert_eq!(denied.reason(), DeniedReason::StoreFull);
            let response: axum::http::Response<String> = denied.to_response();
            assert_eq!(response.status(), 429);
            assert!(response.body().contains(r#""code":"store_full""#), "{}", response.body());
        }
        assert!(limiter.check("alice").await.unwrap().is_allowed(), "which the store knows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_asks_the_service_as_it_asks_any_store() {
    for (service, _file) in services() {
        let store = store(&service);
        store.ping().await.unwrap();
        let api = Limiter::new(store.clone(), of("api"));
        let check = api.check(Ask::new("a").cost(3)).await.unwrap();
        assert_eq!((left(&check), check.granted()), (vec![97, 87], 3));
        let told = service.post("/v1/peek", r#"{"limit":"api","key":"a"}"#).json();
        let reset = Span::from(check.policy(1).unwrap().reset_after().unwrap()).as_micros();
        let since = told["policies"][1]["reset_after_us"].as_u64().unwrap();
        assert!(since <= reset && reset <= 86_400_000_000, "{reset} and then {since}");
        assert_eq!(left(&api.peek(Ask::new("a").cost_of("day", 2)).await.unwrap()), [97, 87]);
        let charged = api.charge(Ask::new("a").cost_of("day", 100)).await.unwrap();
        assert_eq!(left(&charged), [97, 0]);
        let denied = api.check("a").await.unwrap();
        assert_eq!(denied.binding().unwrap().name().as_str(), "day");
        assert!(denied.retry_after().duration().unwrap() > Duration::from_secs(60_000));
        let never = api.check(Ask::new("b").cost(91)).await.unwrap();
        assert_eq!(never.retry_after(), sluicegate::RetryAfter::Never);
        let refunded = api.refund(Ask::new("a").cost_of("day", 20)).await.unwrap();
        assert_eq!(
            (left(&refunded), refunded.policy(1).unwrap().given_back()),
            (vec![97, 7], Some(20))
        );
        assert_eq!(api.take(Ask::new("a").cost(50)).await.unwrap().granted(), 7);
        let reset = api.reset("a").await.unwrap();
        assert_eq!((reset.forgotten(), left(&reset)), (Some(true), vec![100, 90]));
        assert_eq!(api.check("vip").await.unwrap().source(), sluicegate::decision::Source::Bypass);
        assert!(api.check("mallory").await.unwrap().is_denied());

        let grant = api.check(Ask::new("h").cost(50)).hold(Duration::from_secs(60)).await.unwrap();
        let token = grant.token().unwrap();
        let renewed = api.renew(token, Duration::from_secs(1)).await.unwrap();
        assert_eq!(renewed.hold().map(|hold| hold.lasts), Some(Duration::from_secs(1)));
        let renewed = api.renew(token, Duration::from_secs(60)).await.unwrap();
        assert_eq!(renewed.hold_found(), Some(HoldFound::Live));
        for found in [HoldFound::Live, HoldFound::Settled] {
            let settled = api.settle(token, Usage::of("day", 7)).await.unwrap();
            assert_eq!((settled.hold_found(), left(&settled)), (Some(found), vec![50, 83]));
            assert_eq!(settled.policy(1).unwrap().given_back(), Some(43));
        }
        let _ = api.reset("h").await.unwrap();
        let gone = api.settle(token, Usage::nothing()).await.unwrap();
        assert_eq!((gone.hold_found(), gone.is_denied()), (Some(HoldFound::Unknown), true));
        assert_eq!(left(&gone), [100, 90], "what there is now");

        let jobs = Limiter::new(store.clone(), of("jobs"));
        let [first, second, third] = [
            jobs.check("j").hold(Duration::from_secs(1)).await.unwrap(),
            jobs.check("j").hold(Duration::from_secs(1)).await.unwrap(),
            jobs.check("j").hold(Duration::from_secs(1)).await.unwrap(),
        ];
        assert!(second.is_allowed() && third.is_denied());
        let released = jobs.settle(first.token().unwrap(), Usage::as_charged()).await.unwrap();
        assert_eq!(left(&released), [1]);

        let mail = Limiter::new(store.clone(), of("mail"));
        let reservation = mail.reserve(Ask::new("m").cost(2), Duration::ZERO).await.unwrap();
        let receipt = reservation.receipt().unwrap().clone();
        assert!(mail.reserve("m", Duration::from_secs(1)).await.unwrap().is_denied());
        assert!(mail.cancel(&receipt.to_string().parse().unwrap()).await.unwrap());
        assert!(!mail.cancel(&receipt).await.unwrap());
        assert_eq!(left(&mail.peek("m").await.unwrap()), [2]);
        let queue = Limiter::new(store.clone(), of("queue"));
        for _ in 0..3 {
            assert!(queue.check("q").within(Duration::from_secs(60)).await.unwrap().is_allowed());
        }

        let both = Limiter::new(store, Limit::together([of("api"), of("org")]).unwrap());
        let ask = || Ask::new("t").cost(80).and(Ask::new("acme").cost(80));
        let taken = both.check(ask()).hold(Duration::from_secs(60)).await.unwrap();
        assert_eq!(left(&taken), [20, 10, 920]);
        let denied = both.check(ask()).await.unwrap();
        assert_eq!(denied.binding_index(), Some(0), "the longest wait");
        let settled = both.settle(taken.token().unwrap(), Usage::of("day", 10)).await.unwrap();
        assert_eq!(left(&settled), [20, 80, 990]);
        let listed = both.check(Ask::new("vip").and(Ask::new("acme"))).await.unwrap();
        assert_eq!(left(&listed), [989], "the other was not asked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_admitted_exactly() {
    for (service, _file) in services() {
        let limiter = Limiter::new(store(&service), of("api"));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let limiter = limiter.clone();
            tasks.spawn(async move {
                let mut admitted = 0;
                for _ in 0..10 {
                    admitted += u64::from(limiter.check("hot").await.unwrap().is_allowed());
                }
                admitted
            });
        }
        assert_eq!(tasks.join_all().await.iter().sum::<u64>(), 90);
    }
}

fn kind(error: &Error) -> StoreErrorKind {
    error.as_store().unwrap_or_else(|| panic!("{error:?}")).kind()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_wire_cannot_carry_is_not_sent() {
    // No service listens there.
    let store = store_at("http://127.0.0.1:1");
    let opened = store.open(of("api"), OpenOptions::default());
    let run = TimeSource::Injected { run: "r".to_owned() };
    let injected = store.open(of("api"), OpenOptions::default().time(run));
    let at = Timestamp::from_micros(7).unwrap();
    let give_back = Request::new(Operation::GiveBack { taken_at: at }, b"a");
    for (answer, expected) in [
        (opened.ask(give_back).now(), RequestErrorKind::Unsupported),
        (opened.ask(Request::check(b"\xff")).now(), RequestErrorKind::Unsupported),
        (opened.ask(Request::check(b"a").at(at)).now(), RequestErrorKind::Invalid),
        (
            opened.ask(Request::check(b"a").costs(Costs::Each(&[1]))).now(),
            RequestErrorKind::Invalid,
        ),
        (injected.ask(Request::check(b"a").at(at)).now(), RequestErrorKind::Unsupported),
    ] {
        let error = answer.unwrap().unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), expected, "{error}");
    }
    let ring = Limit::new("ring", ["sliding_window 9/h"]).unwrap();
    let ring = store.open(ring, OpenOptions::default());
    let error = ring.ask(Request::slices(b"a")).now().unwrap().unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Unsupported);
    assert_eq!(
        kind(&opened.ask(Request::check(b"a")).wait().await.unwrap_err()),
        StoreErrorKind::Unavailable
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_says_no_is_understood() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let limiter = |limit: Limit| Limiter::new(store(&service), limit);
    let unknown = Limit::new("nobody", ["gcra 1/s"]).unwrap();
    let error = limiter(unknown).check("a").await.unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::UnknownLimit);
    let other = Limit::new("mail", ["gcra 1/s as other"]).unwrap();
    let error = limiter(other).check("a").await.unwrap_err();
    assert_eq!(kind(&error), StoreErrorKind::Unexpected);
    assert!(error.to_string().contains("`mail` has no policy `other`"), "{error}");
    let fewer = Limit::new("api", ["fixed_window 90/d as day"]).unwrap();
    let error = limiter(fewer).check("a").await.unwrap_err();
    assert!(error.to_string().contains("has 2 policies, and that of the program 1"), "{error}");
    let id = sluicegate::decision::HoldId::from_bytes([7; 16]);
    let mail = limiter(of("mail"));
    let _ = mail.check("c").hold(Duration::from_secs(1)).under(id).await.unwrap();
    let error = mail.check("c").hold(Duration::from_secs(1)).under(id).await.unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Conflict);

    let guarded =
        Service::start_on("0.0.0.0:0", &["--config", file.path(), "--admin-token", "s3cret"]);
    let error = Limiter::new(store(&guarded), of("mail")).charge("a").await.unwrap_err();
    assert_eq!(kind(&error), StoreErrorKind::Unexpected);
    assert!(error.to_string().contains("admin token"), "{error}");
    let url = format!("http://{}", guarded.address());
    let admin = RemoteStore::builder(&url)
        .unwrap()
        .deadline(Duration::from_secs(60))
        .token("s3cret\n")
        .build();
    assert!(!format!("{admin:?}").contains("s3cret"));
    assert!(Limiter::new(admin, of("mail")).charge("a").await.unwrap().is_allowed());

    let lost = Service::start(&["--config", file.path(), "--store", "redis://127.0.0.1:1"]);
    let error = Limiter::new(store(&lost), of("mail")).check("a").await.unwrap_err();
    assert_eq!(kind(&error), StoreErrorKind::Unavailable, "{error}");
    assert_eq!(store(&lost).ping().await.unwrap_err().kind(), StoreErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_sends_its_own_policies() {
    let file = File::new("limits.yaml", &format!("limits_in_requests: true\n{LIMITS}"));
    let service = Service::start(&["--config", file.path()]);
    let url = format!("http://{}", service.address());
    let builder = RemoteStore::builder(&url).unwrap().deadline(Duration::from_secs(60));
    let store = builder.limits_in_requests().build();
    let tier = |burst: u64| Limit::new("tier", [format!("gcra 1/h burst {burst}")]).unwrap();
    let limiter = |limit: Limit| Limiter::new(store.clone(), limit);
    assert_eq!(limiter(tier(3)).check("a").await.unwrap().remaining(), Some(2));
    assert_eq!(limiter(tier(9)).check("a").await.unwrap().remaining(), Some(7));
    let jobs = limiter(Limit::new("own", ["concurrency 1 hold 30s", "fixed_window 9/h"]).unwrap());
    let held = Duration::from_secs(20);
    let grant = jobs.check("a").hold(held).await.unwrap();
    let holders = jobs.holders("a", sluicegate::admin::Page::first()).await.unwrap();
    assert_eq!(holders.entries().len(), 1);
    assert!(jobs.check("a").hold(held).await.unwrap().is_denied());
    let waiting = jobs.check("a").hold(held).within(Duration::from_millis(1)).await.unwrap();
    assert!(waiting.is_denied());
    let settled = jobs.settle(grant.token().unwrap(), Usage::nothing()).await.unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    let both = limiter(Limit::together([tier(9), of("mail")]).unwrap());
    let ask = || Ask::new("a").and("z");
    assert!(both.check(ask()).await.unwrap().is_allowed());
    let grant = both.check(ask()).hold(Duration::from_secs(30)).await.unwrap();
    let settled = both.settle(grant.token().unwrap(), Usage::nothing()).await.unwrap();
    assert!(settled.is_allowed());
    let line = limiter(Limit::new("line", ["shaper 1/min queue 9"]).unwrap());
    let reserved = line.reserve("a", Duration::from_secs(600)).await.unwrap();
    assert!(line.cancel(reserved.receipt().unwrap()).await.unwrap());
    let plain = Limiter::new(store_at(&url), tier(3));
    assert!(plain.check("a").await.is_err(), "it sends no policies");
}

/// Starts a server that answers each connection once with the same bytes, and counts the requests.
fn server(answer: Option<&'static str>) -> (String, std::sync::Arc<std::sync::atomic::AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = std::sync::Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if stream.read(&mut [0; 4096]).unwrap_or(0) > 0 {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            match answer {
                Some(answer) => drop(stream.write_all(answer.as_bytes())),
                None => silent.push(stream),
            }
        }
    });
    (url, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answer_is_lost_is_not_sent_again() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    for (answer, expected) in [
        (Some(""), StoreErrorKind::Disconnected),
        (Some("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), StoreErrorKind::Disconnected),
        (Some(ok), StoreErrorKind::Unexpected),
        (None, StoreErrorKind::Timeout),
    ] {
        let (url, asked) = server(answer);
        let mut builder = RemoteStore::builder(&url).unwrap().deadline(Duration::from_secs(60));
        if answer.is_none() {
            builder = builder.deadline(Duration::from_millis(200));
        }
        let limiter = Limiter::new(builder.build(), of("mail"));
        let error = limiter.check("a").await.unwrap_err();
        assert_eq!(kind(&error), expected, "{answer:?}: {error}");
        assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1, "{answer:?}");
    }
}

/// A restarted service has closed the connections that the client keeps.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let file = File::new("limits.yaml", LIMITS);
    let mut service = Service::start(&["--config", file.path()]);
    let address = service.address().to_string();
    let limiter = Limiter::new(store(&service), of("mail"));
    assert!(limiter.check("a").await.unwrap().is_allowed());
    service.signal(rustix::process::Signal::KILL);
    let _ = service.wait();
    let _again = Service::start_on(&address, &["--config", file.path()]);
    assert!(limiter.check("a").await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_client_that_waits_connects_again_until_the_service_is_there() {
    let [(service, _file), _other] = services();
    let proxy = Proxy::start_before(service.address()).unwrap();
    for name in ["queue", "org"] {
        proxy.refuse();
        let store = store_at(&format!("http://127.0.0.1:{}", proxy.port()));
        let limiter = Limiter::new(store, of(name));
        let calling = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.check("k").within(Duration::from_secs(60)).await }
        });
        let error = limiter.check("k").await.unwrap_err();
        assert_eq!(error.as_store().unwrap().kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(!calling.is_finished(), "{name}");
        proxy.accept().unwrap();
        assert!(calling.await.unwrap().unwrap().is_allowed(), "{name}");
    }
}
