//! Which keys are banned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate::admin::{BannedKey, ListedKey, Listing, Page};
use sluicegate::error::RequestErrorKind;
use sluicegate::store::{
    OpenOptions, OpenedLimit as _, Operation, Request, SharedLimit, SharedStore, Span, Store as _,
    TimeSource,
};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Limit, Limiter, MemoryStore, RedisStore};
use sluicegate_testkit::servers::{self, Cluster, Server, fresh_prefix};

use super::stores;

const START: u64 = 1_790_000_000_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros).unwrap()
}

fn span(micros: u64) -> Span {
    Span::from_micros(micros).unwrap()
}

fn limit(name: &str) -> Limit {
    let ban = "2/min for 15min".parse().unwrap();
    Limit::new(name, ["fixed_window 1/h"]).unwrap().banning(Some(ban))
}

fn run() -> TimeSource {
    static RUN: AtomicU32 = AtomicU32::new(0);
    let run = format!("bans-{}-{}", std::process::id(), RUN.fetch_add(1, Ordering::Relaxed));
    TimeSource::Injected { run }
}

fn open(store: &SharedStore, limit: Limit, time: &TimeSource) -> SharedLimit {
    store.open(limit, OpenOptions::default().time(time.clone()))
}

/// Returns keys that may break a glob, a format or a name, including long ones.
fn hostile() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        &b""[..],
        b"%",
        b"%#",
        b"*",
        b"a*?[b]\\{c}:d",
        b"}",
        b"a}:holds",
        b"\0\n\xff",
        b"%25",
        b"sg:login:{x}",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    // 64 bytes that are plain, 64 that are not, and one more.
    keys.extend([vec![b'x'; 64], vec![0; 64], vec![b'x'; 65]]);
    keys.extend((0..40_u32).map(|number| format!("key-{number}").into_bytes()));
    keys
}

async fn ban(opened: &SharedLimit, now: u64, key: &[u8], lasts: u64) {
    let ban = Request::new(Operation::Ban { lasts: span(lasts) }, key).at(at(now));
    assert!(opened.ask(ban).wait().await.unwrap().ban().is_some());
}

async fn lift(opened: &SharedLimit, now: u64, key: &[u8]) {
    let lift = Request::new(Operation::Unban, key).at(at(now));
    assert_eq!(opened.ask(lift).wait().await.unwrap().forgotten(), Some(true));
}

/// Returns all listed bans, with duplicates: each key and the end of its ban.
async fn list(
    opened: &SharedLimit,
    now: u64,
    size: u64,
    mut between: impl AsyncFnMut(u32),
) -> BTreeMap<ListedKey, Vec<u64>> {
    let (mut listed, mut after, mut pages) = (BTreeMap::new(), None, 0);
    loop {
        let page = Page::of(size).unwrap().at(at(now));
        let page = after.as_ref().map_or(page, |after| page.after(after));
        let banned = opened.bans(page).await.unwrap();
        for banned in banned.entries() {
            let ends: &mut Vec<u64> = listed.entry(banned.key().clone()).or_default();
            ends.push(Span::from(banned.ends_in()).as_micros());
            // Every ban of these tests begins at 0.
            assert_eq!(Span::from(banned.age()).as_micros(), now, "{}", banned.key());
        }
        match banned.next() {
            Some(next) => after = Some(next.clone()),
            None => return listed,
        }
        pages += 1;
        assert!(pages < 10_000, "the list has no end");
        between(pages).await;
    }
}

async fn quietly(_: u32) {}

/// On real servers too. Before, the later ban counted there, and a shorter one admitted the key early.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_bans_of_a_key_the_later_end_counts_and_only_lifting_it_shortens_that() {
    const MINUTE: u64 = 60_000_000;
    let cluster = Cluster::start().unwrap();
    for (name, store) in stores::each(&cluster) {
        let time = run();
        let opened = open(&store, limit("login"), &time);
        let ends = async |key: &[u8], now: u64| {
            let refused = opened.ask(Request::check(key).at(at(now))).wait().await.unwrap();
            refused.ban().map_or(0, |ban| Span::from(ban.ends_in).as_micros())
        };
        for (key, lasts) in [(&b"longer last"[..], [1, 5]), (b"longer first", [5, 1])] {
            for minutes in lasts {
                ban(&opened, 0, key, minutes * MINUTE).await;
            }
            assert_eq!(ends(key, 0).await, 5 * MINUTE, "{name}, {lasts:?}");
        }
        // A duration counts from its own ban: 3 minutes from the second minute end in the fifth.
        let key = b"in between";
        ban(&opened, 0, key, 4 * MINUTE).await;
        ban(&opened, 2 * MINUTE, key, 3 * MINUTE).await;
        assert_eq!(ends(key, 2 * MINUTE).await, 3 * MINUTE, "{name}");
        ban(&opened, 2 * MINUTE, key, MINUTE).await;
        assert_eq!(ends(key, 2 * MINUTE).await, 3 * MINUTE, "{name}");
        lift(&opened, 2 * MINUTE, key).await;
        ban(&opened, 2 * MINUTE, key, MINUTE).await;
        assert_eq!(ends(key, 2 * MINUTE).await, MINUTE, "{name}: shorter, once it was lifted");
        lift(&opened, 2 * MINUTE, key).await;
        assert_eq!(ends(key, 2 * MINUTE).await, 0, "{name}");
        // This also holds for a ban after denials.
        let key = b"denied";
        for _ in 0..3 {
            let _ = opened.ask(Request::check(key).at(at(0))).wait().await.unwrap();
        }
        ban(&opened, 0, key, MINUTE).await;
        assert_eq!(ends(key, 0).await, 15 * MINUTE, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_banned_key_is_listed_and_nobody_else() {
    let cluster = Cluster::start().unwrap();
    for (name, store) in
        stores::each(&cluster).into_iter().filter(|(name, _)| name != "compare and swap")
    {
        let time = run();
        let opened = open(&store, limit("lo:gin"), &time);
        let others = open(&store, limit("lo:gin2"), &time);
        let elsewhere = open(&store, limit("lo:gin"), &run());
        for (number, key) in hostile().iter().enumerate() {
            ban(&opened, 0, key, 10_000_000 + number as u64).await;
        }
        for key in [&b"not"[..], b"key-0"] {
            ban(&others, 0, key, 9_000_000).await;
            ban(&elsewhere, 0, key, 9_000_000).await;
        }
        // One denial doesn't start a ban, but a second one does.
        for (key, cost) in [(b"denied", 1), (b"banned", 2)] {
            for _ in 0..=cost {
                let check = Request::check(key).at(at(0));
                let _ = opened.ask(check).wait().await.unwrap();
            }
        }
        let expected = |elapsed: u64| {
            let keys = hostile().into_iter().enumerate();
            let all = keys.map(|(number, key)| (ListedKey::of(&key), 10_000_000 + number as u64));
            let all = all.chain([(ListedKey::of(b"banned"), 15 * 60_000_000)]);
            let live = all.filter(|(_, ends)| *ends > elapsed);
            live.map(|(key, ends)| (key, vec![ends - elapsed])).collect::<BTreeMap<_, _>>()
        };
        for size in [1, 7, 1_000] {
            assert_eq!(list(&opened, 0, size, quietly).await, expected(0), "{name}, {size} a page");
        }
        // The first five have ended, to the µs.
        assert_eq!(list(&opened, 10_000_004, 7, quietly).await, expected(10_000_004), "{name}");
        lift(&opened, 0, b"*").await;
        let reset = Request::new(Operation::Reset, b"banned").at(at(0));
        assert!(opened.ask(reset).wait().await.unwrap().is_allowed());
        let mut left = expected(0);
        left.remove(&ListedKey::of(b"*"));
        left.remove(&ListedKey::of(b"banned"));
        assert_eq!(list(&opened, 0, 7, quietly).await, left, "{name}");
        // While other bans begin and end.
        let listed = list(&opened, 0, 3, async |page| {
            for number in 0..3 {
                ban(&opened, 0, format!("new-{page}-{number}").as_bytes(), 9_000_000).await;
            }
            lift(&opened, 0, format!("new-{page}-0").as_bytes()).await;
        })
        .await;
        for (key, ends) in &left {
            let times = listed.get(key).map_or(0, Vec::len);
            // A server may list a key twice while its table grows.
            let is_fine = if name.starts_with("redis") { times >= 1 } else { times == 1 };
            assert!(is_fine, "{name}: {key} is listed {times} times");
            assert_eq!(listed[key][0], ends[0], "{name}: {key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_list_of_bans_says_why() {
    let cluster = Cluster::start().unwrap();
    for (name, store) in stores::each(&cluster) {
        let time = run();
        let kind = async |opened: &SharedLimit, page: Page<'_>| {
            opened.bans(page).await.unwrap_err().as_request().unwrap().kind()
        };
        let opened = open(&store, limit("login"), &time);
        if name == "compare and swap" {
            let unsupported = kind(&opened, Page::first().at(at(0))).await;
            assert_eq!(unsupported, RequestErrorKind::Unsupported, "it scans nothing");
            continue;
        }
        let free = open(&store, Limit::new("free", ["gcra 1/s"]).unwrap(), &time);
        assert_eq!(
            kind(&free, Page::first().at(at(0))).await,
            RequestErrorKind::Unsupported,
            "{name}"
        );
        let two = Limit::together([limit("login"), limit("site")]).unwrap();
        let two = open(&store, two, &time);
        assert_eq!(
            kind(&two, Page::first().at(at(0))).await,
            RequestErrorKind::Unsupported,
            "{name}"
        );
        assert_eq!(
            kind(&opened, Page::first()).await,
            RequestErrorKind::Invalid,
            "{name}: no time"
        );
        for garbage in
            ["0", "x.y", ".", "0.", "0.0", "0.03", "5000.0000000000000000", "f.ff", &"0".repeat(46)]
        {
            let cursor = garbage.parse().unwrap();
            let page = Page::first().after(&cursor).at(at(0));
            // The beginning of the embedded store.
            let embedded = ["embedded", "in layers"].contains(&&*name);
            if embedded && garbage == "0." {
                assert_eq!(opened.bans(page).await.unwrap().entries(), [], "{name}: {garbage}");
                continue;
            }
            assert_eq!(kind(&opened, page).await, RequestErrorKind::Invalid, "{name}: {garbage}");
        }
    }
}

#[tokio::test]
async fn bans_are_listed_by_the_stores_clock_and_their_keys_are_counted() {
    let clock = Arc::new(ManualClock::default());
    clock.set(at(0));
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    let limiter = Limiter::new(store.clone(), limit("login"));
    let keys: Vec<String> = (0..500).map(|number| format!("{number:064}")).collect();
    for key in &keys {
        for _ in 0..2 {
            let _ = limiter.check(key).now().unwrap();
        }
    }
    let before = store.stats().bytes;
    for key in &keys {
        // The second denial: a ban begins.
        assert!(limiter.check(key).now().unwrap().ban().is_some());
    }
    let banned = store.stats().bytes;
    assert!(banned >= before + 500 * 64, "{before} bytes, and {banned}");
    clock.advance(Duration::from_secs(60));
    let page = limiter.bans(Page::of(1_000).unwrap()).await.unwrap();
    assert_eq!(
        (page.entries().len(), page.entries()[0].ends_in(), page.entries()[0].age()),
        (500, Duration::from_secs(14 * 60), Duration::from_secs(60))
    );
    for key in &keys {
        assert_eq!(limiter.unban(key).now().unwrap().forgotten(), Some(true));
    }
    assert!(store.stats().bytes <= before, "{} bytes, and {before} before", store.stats().bytes);
    assert_eq!(limiter.bans(Page::first()).await.unwrap().entries(), []);
}

/// A page examines a bounded number of keys, regardless of their owners.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_server_is_bounded_however_many_keys_others_have() {
    for binary in servers::available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let fill = "for i = 1, 20000 do redis.call('SET', 'other:' .. i, 1) end";
        server.cli(&["EVAL", fill, "0"]).unwrap();
        let builder = RedisStore::builder(&server.url()).unwrap();
        let builder = builder.prefix(fresh_prefix("bounded").parse().unwrap());
        let store = builder.deadline(Duration::from_secs(5)).build();
        let limiter = Limiter::new(store, limit("login"));
        for key in ["a", "b", "c"] {
            assert!(limiter.ban(key, Duration::from_secs(3_600)).await.unwrap().ban().is_some());
        }
        let mut pages = vec![limiter.bans(Page::of(10).unwrap()).await.unwrap()];
        while let Some(next) = pages.last().and_then(|page| page.next()).cloned() {
            pages.push(limiter.bans(Page::of(10).unwrap().after(&next)).await.unwrap());
        }
        let mut keys: Vec<String> =
            pages.iter().flat_map(Listing::entries).map(|it| it.key().to_string()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["a", "b", "c"]);
        // 64 steps of ten keys or slightly more, of 20,000 keys.
        assert!((10..=40).contains(&pages.len()), "{} pages", pages.len());
        let left = pages.iter().flat_map(Listing::entries).map(BannedKey::ends_in);
        assert!(left.into_iter().all(|left| (59 * 60 + 1..=3_600).contains(&left.as_secs())));
    }
}
