//! Checks that states are shared only where they should be.

use sluicegate_core::{OpenedLimit as _, Request, Store, TimeSource};

use super::{START, fresh, fresh_run, limit, open, timestamp};

/// Policies that cover every way of storing a state.
const SPECS: [&str; 4] =
    ["gcra 1/h", "fixed_window 1/h", "sliding_log 1/h", "sliding_window 1/h slices 100"];

/// Checks that any bytes are a subject, and that different subjects and limits never share a state.
/// This includes limits whose name and subject have the same bytes when joined.
pub async fn keys_and_limits_are_apart<S: Store>(store: &S) {
    let subjects: [&[u8]; 17] = [
        b"",
        b"\0",
        b"a",
        b"A",
        b"a\0",
        b"a:b",
        b"a%3ab",
        b"{a}",
        b"}a{",
        b"%",
        b"%00",
        b"a b",
        b"a\r\nb",
        b"\xff\xfe",
        b"\xc3\xa9",
        &[b'x'; 300],
        &[b'x'; 5_000],
    ];
    for spec in SPECS {
        let time = fresh_run();
        let opened =
            ["l", "l:a", "l:a:b", "l/a"].map(|name| open(store, &limit(name, &[spec]), &time));
        for expected in [true, false] {
            for (subject, opened) in subjects
                .iter()
                .flat_map(|subject| opened.iter().map(move |opened| (subject, opened)))
            {
                let decision =
                    opened.ask(Request::check(subject).at(timestamp(START))).wait().await.unwrap();
                let limit = opened.limit().name();
                let subject = subject.escape_ascii();
                assert_eq!(decision.is_allowed(), expected, "{spec}: {subject} of {limit}");
            }
        }
    }
}

/// Checks that requests in a run of injected time have no effect in another run or in live time.
pub async fn runs_are_apart<S: Store>(store: &S) {
    for spec in SPECS {
        let once = limit(&fresh("run"), &[spec]);
        let runs = [fresh_run(), fresh_run()].map(|time| open(store, &once, &time));
        let live = open(store, &once, &TimeSource::Store);
        for expected in [true, false] {
            for run in &runs {
                let check = Request::check(b"a").at(timestamp(START));
                assert_eq!(run.ask(check).wait().await.unwrap().is_allowed(), expected, "{spec}");
            }
            let decision = live.ask(Request::check(b"a")).wait().await.unwrap();
            assert_eq!(decision.is_allowed(), expected, "{spec}");
        }
    }
}

/// Checks that limits opened under one name share states while only their policies' numbers differ,
/// and that a store has one name.
pub async fn what_is_opened_twice_shares_its_states<S: Store>(store: &S) {
    store.ping().await.unwrap();
    assert_eq!(store.id(), store.id());
    store.maintain();
    for (spec, more) in [
        ("gcra 1/h burst 2 as same", "gcra 1/h burst 3 as same"),
        ("fixed_window 2/h as same", "fixed_window 3/h as same"),
        ("sliding_log 2/h as same", "sliding_log 3/h as same"),
        ("sliding_window 2/h slices 100 as same", "sliding_window 3/h slices 100 as same"),
    ] {
        let time = fresh_run();
        let opened = [spec, spec, more].map(|spec| open(store, &limit("l", &[spec]), &time));
        for (index, expected) in [(0, true), (1, true), (0, false), (2, true), (2, false)] {
            let check = Request::check(b"a").at(timestamp(START));
            let decision = opened[index].ask(check).wait().await.unwrap();
            assert_eq!(decision.is_allowed(), expected, "{spec} and {more}, opened {index}");
            assert_eq!(decision.limit(), Some(opened[index].limit()));
        }
    }
}
