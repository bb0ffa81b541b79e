//! Lists of holders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate::admin::Page;
use sluicegate::decision::{HoldFound, HoldId};
use sluicegate::error::RequestErrorKind;
use sluicegate::store::{
    Costs, Hold, OpenOptions, OpenedLimit as _, Operation, Request, SharedLimit, SharedStore, Span,
    Store as _, TimeSource,
};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Ask, Limiter, MemoryStore};
use sluicegate_testkit::servers::Cluster;

use super::stores;

/// A key that may break a glob, a format or a name.
const KEY: &[u8] = b"a*?[b]\\{c}:d\0\n%25\xff";
const START: u64 = 1_790_000_000_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros).unwrap()
}

fn id(number: u32) -> HoldId {
    // Not in the order in which they are made.
    HoldId::from_bytes(u128::from(number.reverse_bits()).rotate_left(77).to_be_bytes())
}

fn open(store: &SharedStore, name: &str, policies: &[&str]) -> SharedLimit {
    static RUN: AtomicU32 = AtomicU32::new(0);
    let run = format!("lists-{}-{}", std::process::id(), RUN.fetch_add(1, Ordering::Relaxed));
    let time = TimeSource::Injected { run };
    store.open(sluicegate::Limit::new(name, policies).unwrap(), OpenOptions::default().time(time))
}

async fn take(opened: &SharedLimit, now: u64, number: u32, units: u64, lasts: u64) {
    let hold = Hold { id: id(number), lasts: Duration::from_micros(lasts) };
    let costs = [units, 1];
    let check = Request::check(KEY).costs(Costs::Each(&costs)).hold(&hold).at(at(now));
    assert!(opened.ask(check).wait().await.unwrap().is_allowed());
}

async fn settle(opened: &SharedLimit, now: u64, number: u32, used: &[Option<u64>]) -> HoldFound {
    let settle = Request::settle(KEY, id(number), used).at(at(now));
    opened.ask(settle).wait().await.unwrap().hold_found().unwrap()
}

/// Returns all listed holds: when each ends, its id and its units.
async fn list(opened: &SharedLimit, now: u64, size: u64) -> Vec<(u64, HoldId, u64)> {
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = Page::of(size).unwrap().at(at(now));
        let page = after.as_ref().map_or(page, |after| page.after(after));
        let holders = opened.holders(KEY, page).await.unwrap();
        listed.extend(holders.entries().iter().map(|holder| {
            (Span::from(holder.ends_in()).as_micros(), holder.id(), holder.units_of("concurrency"))
        }));
        match holders.next() {
            Some(next) => after = Some(next.clone()),
            None => return listed,
        }
    }
}

/// Thirty holds stay, several with one end. Others begin and end between the pages, before and behind.
#[tokio::test(flavor = "multi_thread")]
async fn who_stays_is_listed_once_while_others_come_and_go() {
    let cluster = Cluster::start().unwrap();
    for (name, store) in stores::each(&cluster) {
        let opened =
            open(&store, "jo:b/s", &["concurrency 1000 hold 1h", "fixed_window 9999/d as day"]);
        let mut expected = BTreeMap::new();
        for number in 0..30_u32 {
            let (units, lasts) = (1 + u64::from(number % 3), 1_000_000 * u64::from(1 + number / 4));
            take(&opened, 0, number, units, lasts).await;
            expected.insert((lasts, id(number)), units);
        }
        let mut other = 1_000;
        for size in [1, 4, 7, 1_000] {
            let first = other + 1;
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                // One more on each side, and one of those before it ends.
                for lasts in [999_000, 4_000_000, 60_000_000] {
                    other += 1;
                    take(&opened, 0, other, 1, lasts).await;
                }
                if other % 2 == 0 {
                    assert_eq!(settle(&opened, 0, other - 1, &[]).await, HoldFound::Live);
                }
                let page = Page::of(size).unwrap().at(at(0));
                let page = after.as_ref().map_or(page, |after| page.after(after));
                let holders = opened.holders(KEY, page).await.unwrap();
                assert!(holders.entries().len() as u64 <= size, "{name}");
                listed.extend(holders.entries().iter().cloned());
                match holders.next() {
                    Some(next) => after = Some(next.clone()),
                    None => break,
                }
            }
            let place =
                |it: &sluicegate::admin::Holder| (Span::from(it.ends_in()).as_micros(), it.id());
            assert!(listed.is_sorted_by_key(place), "{name}");
            let stayed = listed.iter().filter(|holder| expected.contains_key(&place(holder)));
            let stayed: Vec<_> = stayed.map(|it| (place(it), it.units_of("concurrency"))).collect();
            let all: Vec<_> = expected.iter().map(|(place, units)| (*place, *units)).collect();
            assert_eq!(stayed, all, "{name}, pages of {size}");
            assert!(listed.iter().all(|holder| holder.units_of("day") == 1), "{name}");
            for number in first..=other {
                settle(&opened, 0, number, &[]).await;
            }
        }
        // At the end of the first four, to the µs.
        let rest: Vec<_> =
            expected.iter().map(|((end, id), units)| (end - 1, *id, *units)).collect();
        assert_eq!(list(&opened, 1, 7).await, rest, "{name}");
        let later = list(&opened, 1_000_000, 1).await;
        assert_eq!((later.len(), later[0].0), (26, 1_000_000), "{name}");
        // A renewed hold ends later, and a settled one isn't listed, though a record is left.
        let renew = Request::renew(KEY, later[0].1, Span::from_micros(50_000_000).unwrap())
            .at(at(1_000_000));
        assert!(opened.ask(renew).wait().await.unwrap().is_allowed());
        let used = [None, Some(0)];
        let settled = Request::settle(KEY, later[1].1, &used).at(at(1_000_000));
        assert!(opened.ask(settled).wait().await.unwrap().is_allowed());
        let now = list(&opened, 1_000_000, 3).await;
        assert_eq!(
            (now.len(), now.last().unwrap().0, now.last().unwrap().1),
            (25, 50_000_000, later[0].1)
        );
        assert!(now.iter().all(|(_, id, _)| *id != later[1].1), "{name}");
        let reset = Request::new(Operation::Reset, KEY).at(at(1_000_000));
        assert!(opened.ask(reset).wait().await.unwrap().is_allowed());
        assert_eq!(list(&opened, 1_000_000, 3).await, [], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_list_says_why_in_every_store_alike() {
    let cluster = Cluster::start().unwrap();
    for (name, store) in stores::each(&cluster) {
        let kind = async |opened: &SharedLimit, page: Page<'_>| {
            let error = opened.holders(KEY, page).await.unwrap_err();
            (error.as_request().unwrap().kind(), error.to_string())
        };
        let free = open(&store, "free", &["gcra 1/s"]);
        let (unsupported, why) = kind(&free, Page::first().at(at(0))).await;
        assert_eq!(unsupported, RequestErrorKind::Unsupported, "{name}: {why}");
        assert!(why.contains("limit `free` has no list of holders"), "{name}: {why}");
        let opened = open(&store, "jobs", &["concurrency 9 hold 1h", "fixed_window 99/d"]);
        let two = [opened.limit().clone(), free.limit().clone()];
        let two = sluicegate::Limit::together(two).unwrap();
        let together = store.open(two, OpenOptions::default());
        assert_eq!(kind(&together, Page::first()).await.0, RequestErrorKind::Unsupported, "{name}");
        assert_eq!(
            kind(&opened, Page::first()).await.0,
            RequestErrorKind::Invalid,
            "{name}: no time"
        );
        for garbage in ["0", "x.y", &"f".repeat(46), &"0".repeat(45), &"0".repeat(255)] {
            let cursor = garbage.parse().unwrap();
            let page = Page::first().after(&cursor).at(at(0));
            assert_eq!(kind(&opened, page).await.0, RequestErrorKind::Invalid, "{name}: {garbage}");
        }
        // A cursor at which no page has ended is also a valid position.
        take(&opened, 0, 1, 1, 9_000_000).await;
        for (place, count) in
            [("0".repeat(46), 1), ("1fffffffffffff".to_owned() + &"f".repeat(32), 0)]
        {
            let cursor = place.parse().unwrap();
            let page = Page::first().after(&cursor).at(at(0));
            assert_eq!(opened.holders(KEY, page).await.unwrap().entries().len(), count, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_permit_is_ended_by_hand_is_told_that_it_is_lost() {
    let cluster = Cluster::start().unwrap();
    for (name, store) in
        stores::each(&cluster).into_iter().filter(|(name, _)| name != "compare and swap")
    {
        let limit =
            sluicegate::Limit::new("stuck", ["concurrency 1 hold 1s", "fixed_window 9/d as day"]);
        let limiter = Limiter::new(store, limit.unwrap());
        let stuck = limiter.permit("acme").await.unwrap();
        assert!(stuck.is_allowed() && !stuck.is_lost(), "{name}");
        assert!(limiter.permit("acme").await.unwrap().is_denied(), "{name}");
        let holders = limiter.holders("acme", Page::first()).await.unwrap();
        let [holder] = holders.entries() else { panic!("{name}: {holders:?}") };
        assert_eq!(
            Some(holder.id()),
            stuck.token().map(sluicegate::decision::HoldToken::id),
            "{name}"
        );
        assert!(Span::from(holder.ends_in()) <= Span::SECOND, "{name}");
        let ended = limiter.revoke("acme", holder.id()).await.unwrap();
        assert_eq!(ended.hold_found(), Some(HoldFound::Live), "{name}");
        assert_eq!(ended.outcome("concurrency").unwrap().given_back(), Some(1), "{name}");
        assert_eq!(ended.outcome("day").unwrap().remaining(), Some(8), "{name}: it stays charged");
        let next = limiter.permit("acme").await.unwrap();
        assert!(next.is_allowed(), "{name}");
        // Its next renewal finds nothing.
        tokio::time::timeout(Duration::from_secs(60), stuck.lost()).await.unwrap();
        assert!(stuck.is_lost() && !next.is_lost(), "{name}");
        drop(stuck);
        let left = limiter.holders("acme", Page::first()).await.unwrap();
        assert_eq!(left.entries().len(), 1, "{name}: what another holds is not let go with it");
        let nothing = limiter.revoke("acme", id(1)).await.unwrap();
        assert!(nothing.is_denied() && nothing.hold_found() == Some(HoldFound::Unknown), "{name}");
    }
}

#[tokio::test]
async fn the_list_is_as_of_the_stores_time_and_says_how_many_wait() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    let limit = sluicegate::Limit::new("jobs", ["concurrency 1 hold 30s queue 5"]).unwrap();
    let limiter = Limiter::new(store, limit);
    let held = limiter.check(Ask::new("acme")).hold(Duration::from_secs(1)).await.unwrap();
    let waiting: Vec<_> =
        (0..3).map(|_| limiter.permit("acme").within(Duration::from_micros(500_000))).collect();
    let waiting = futures(waiting);
    tokio::pin!(waiting);
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("they were to wait"),
        () = tokio::task::yield_now() => {}
    }
    clock.advance(Duration::from_micros(400_000));
    let holders = limiter.holders("acme", Page::first()).await.unwrap();
    assert_eq!((holders.entries().len(), holders.waiting()), (1, 3));
    assert_eq!(holders.entries()[0].ends_in(), Duration::from_millis(600));
    clock.advance(Duration::from_micros(600_000));
    assert_eq!(limiter.holders("acme", Page::first()).await.unwrap().entries(), []);
    drop(held);
}

/// Polls all of some futures.
async fn futures<F: Future>(futures: Vec<F>) {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
