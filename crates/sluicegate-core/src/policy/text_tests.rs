use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::calendar::{CalendarUnit, CalendarWindow};
use crate::number::{Cost, MAX_EXACT};
use crate::policy::{Algorithm, LogTier, Queue, Start, Window};
use crate::rate::Rate;
use crate::time::Span;

const SECOND: Duration = Duration::from_secs(1);

fn parse(spec: &str) -> Policy {
    spec.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(spec: &str) -> String {
    match spec.parse::<Policy>() {
        Ok(policy) => panic!("`{spec}` was read as `{policy}`"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn specs_that_print_as_they_were_written() {
    for spec in [
        "token_bucket 100/s",
        "token_bucket 100/s burst 200",
        "token_bucket 0/s",
        "token_bucket 0/s burst 7",
        "token_bucket 5/s burst 0",
        "gcra 10/s burst 5",
        "leaky_bucket 5/500ms capacity 20",
        "fixed_window 1000/h",
        "fixed_window 1000/36h aligned",
        "fixed_window 10/h aligned cost 2 shadow count_denied as each",
        "fixed_window 10000/month calendar Asia/Tokyo",
        "fixed_window 10/d calendar UTC",
        "fixed_window 10/w calendar Europe/Berlin",
        "fixed_window 10/year calendar America/St_Johns",
        "fixed_window 10/w calendar UTC start sunday at 06:30",
        "fixed_window 10/month calendar UTC from 31",
        "fixed_window 10/year calendar Europe/London from 04-06 at 23:59",
        "sliding_window 1000/h",
        "sliding_window 1000/h slices 30",
        "sliding_window 1000/10ms slices 5",
        "sliding_counter 1000/h",
        "sliding_log 10/s",
        "sliding_log 10/s and 1000/h and 10/s",
        "smooth 5/s",
        "smooth 5/s burst 0s start full",
        "smooth 5/s burst 1500ms",
        "warmup 5/s over 10s",
        "shaper 5/s queue 100",
        "shaper 5/s queue 0 cost 3 shadow charge_denied as out-2_b",
    ] {
        assert_eq!(parse(spec).to_string(), spec);
    }
}

#[test]
fn only_a_fixed_window_counts_denied_requests_and_in_one_way() {
    assert_eq!(
        refusal("fixed_window 10/h count_denied charge_denied"),
        "`count_denied` and `charge_denied` exclude each other: remove one\n  \
         fixed_window 10/h count_denied charge_denied\n                    ^^^^^^^^^^^^"
    );
    assert!(refusal("gcra 10/h count_denied").starts_with("`count_denied` doesn't go with `gcra`"));
    let error = parse("gcra 10/h").count_denied().unwrap_err();
    assert_eq!(
        error.to_string(),
        "count_denied: only a fixed_window counts denied requests, not a gcra"
    );
    let counts = parse("fixed_window 10/h count_denied");
    let bucket = parse("gcra 10/h").algorithm().clone();
    assert_eq!(counts.with_algorithm(bucket).unwrap_err().parameter, "count_denied");
    let day = parse("fixed_window 3/d").algorithm().clone();
    assert_eq!(counts.with_algorithm(day).unwrap().to_string(), "fixed_window 3/d count_denied");
    assert_eq!(counts.charge_denied().to_string(), "fixed_window 10/h charge_denied");
}

#[test]
fn what_is_in_flight_is_a_number_and_no_rate() {
    let policy = parse("concurrency 10 hold 30s cost 2");
    assert_eq!(policy.to_string(), "concurrency 10 hold 30s cost 2");
    for (spec, column, said) in [
        ("concurrency", 1, "needs a number: write `concurrency 10 hold 30s`"),
        ("concurrency 10/s hold 30s", 13, "counts requests in flight: write a whole number"),
        ("concurrency ten hold 30s", 13, "is not a whole number"),
        ("concurrency 10", 1, "needs `hold T`"),
        ("concurrency 10 hold 2d", 21, "is out of range: a permit is held for 1ms to 1d"),
        ("concurrency 65537 hold 1s", 13, "above 65536, the largest number of permits"),
    ] {
        let error = spec.parse::<Policy>().unwrap_err();
        assert!(error.message().contains(said), "{spec}: {error}");
        assert_eq!(error.column(), column, "{spec}: {error}");
    }
}

#[test]
fn the_first_word_of_a_spec_is_its_algorithm() {
    use Algorithm as A;
    type Is = fn(&A) -> bool;
    let is: [(&str, Is); 11] = [
        ("token_bucket 5/s", |it| matches!(it, A::TokenBucket { burst: 5, .. })),
        ("gcra 5/s", |it| matches!(it, A::Gcra { burst: 5, .. })),
        ("leaky_bucket 5/s", |it| matches!(it, A::LeakyBucket { capacity: 5, .. })),
        ("shaper 5/s queue 3", |it| matches!(it, A::Shaper { queue: 3, .. })),
        ("smooth 5/s", |it| matches!(it, A::Smooth { burst: SECOND, .. })),
        ("warmup 5/s over 1s", |it| matches!(it, A::WarmUp { over: SECOND, .. })),
        ("fixed_window 5/s", |it| matches!(it, A::FixedWindow { limit: 5, .. })),
        ("sliding_window 5/s slices 2", |it| matches!(it, A::SlidingWindow { slices: 2, .. })),
        ("sliding_counter 5/s", |it| matches!(it, A::SlidingCounter { limit: 5, .. })),
        ("sliding_log 5/s", |it| matches!(it, A::SlidingLog { tiers } if tiers.len() == 1)),
        ("concurrency 5 hold 1s", |it| {
            matches!(it, A::Concurrency { permits: 5, queue: None, .. })
        }),
    ];
    let mut words = Vec::new();
    for (spec, is_of_its_kind) in is {
        let policy = parse(spec);
        let word = spec.split(' ').next().unwrap();
        assert!(is_of_its_kind(policy.algorithm()), "{spec} is {:?}", policy.algorithm());
        assert_eq!(policy.algorithm().keyword(), word);
        words.push(word);
    }
    let mut known: Vec<_> = Rule::grammars().map(|grammar| grammar.word).collect();
    words.sort_unstable();
    known.sort_unstable();
    assert_eq!(words, known, "every algorithm is here");
}

#[test]
fn what_is_left_out_equals_its_default() {
    for (short, long) in [
        ("token_bucket 100/s", "token_bucket 100/1s burst 100 cost 1"),
        ("gcra 10/min", "gcra 10/60s burst 10"),
        ("leaky_bucket 5/s", "leaky_bucket 5/1000ms capacity 5"),
        ("sliding_window 10/h", "sliding_window 10/60min slices 60"),
        // 100 ms isn't 60 whole milliseconds, but 10 of them.
        ("sliding_window 10/100ms", "sliding_window 10/100ms slices 10"),
        ("smooth 5/s", "smooth 5/s start empty burst 1s"),
        ("fixed_window 5/month calendar UTC", "fixed_window 5/1month calendar utc"),
        ("fixed_window 5/w calendar UTC", "fixed_window 5/w at 00:00 start monday calendar UTC"),
        ("fixed_window 5/year calendar UTC", "fixed_window 5/year calendar UTC from 01-01"),
    ] {
        assert_eq!(parse(short), parse(long));
        assert_eq!(parse(long).to_string(), short);
    }
}

#[test]
fn permits_may_have_a_queue_and_that_priorities() {
    for (spec, expected) in [
        ("concurrency 5 hold 1s queue 9", Queue { length: 9, priorities: 1 }),
        (
            "concurrency 5 hold 1s queue 65536 priorities 16",
            Queue { length: 65_536, priorities: 16 },
        ),
    ] {
        let policy = parse(spec);
        let Algorithm::Concurrency { queue, .. } = policy.algorithm() else {
            panic!("not permits");
        };
        assert_eq!((*queue, policy.to_string().as_str()), (Some(expected), spec));
    }
    let error = "concurrency 5 hold 1s priorities 3".parse::<Policy>().unwrap_err();
    assert!(error.message().contains("needs `queue M`"), "{error}");
}

#[test]
fn a_limit_of_zero_is_a_rate_of_zero_without_burst() {
    let Algorithm::TokenBucket { rate, burst } = *parse("token_bucket 0/s").algorithm() else {
        panic!("not a token bucket");
    };
    assert_eq!((rate.count(), burst), (0, 0));
}

#[test]
fn options_come_in_any_order_between_any_white_space() {
    let expected =
        parse("sliding_log 10/s and 100/min and 1000/h cost 2 shadow charge_denied as log");
    for spec in [
        "sliding_log 10/s as log charge_denied shadow cost 2 and 100/min and 1000/h",
        "  sliding_log\t10/s and 100/min shadow\n and 1000/h as log cost 2 charge_denied\n",
        "sliding_log\u{a0}10/s and 100/min and 1000/h charge_denied\u{2003}shadow as log cost 2",
    ] {
        assert_eq!(parse(spec), expected);
    }
}

#[test]
fn a_name_may_be_a_word_of_the_grammar() {
    let policy = parse("gcra 1/s as burst burst 3");
    assert_eq!(policy.name().map(ToString::to_string).as_deref(), Some("burst"));
}

/// The whole text of every message: what users read is what is reviewed here.
#[test]
fn messages() {
    let words: Vec<&str> = Rule::grammars().map(|grammar| grammar.word).collect();
    let table = include_str!("messages.txt").replace("ALGORITHMS", &words.join(", "));
    let mut shown = String::new();
    for case in table.split("\n\n") {
        let spec = case.lines().nth(1).and_then(|line| line.strip_prefix("  ")).unwrap_or_default();
        let spec =
            spec.replace("\\n", "\n").replace("\\u{7}", "\u{7}").replace("\\u{202e}", "\u{202e}");
        if !shown.is_empty() {
            shown.push_str("\n\n");
        }
        shown.push_str(&refusal(&spec));
    }
    if shown != table.trim_end_matches('\n') {
        panic!("messages.txt should hold:\n{shown}\n");
    }
}

#[test]
fn an_empty_spec_is_refused_at_its_beginning() {
    for spec in ["", " \t\n"] {
        let error = spec.parse::<Policy>().unwrap_err();
        assert_eq!(error.column(), 1);
        assert_eq!(
            error.message(),
            "the spec is empty: write one such as `token_bucket 100/s burst 200`"
        );
        assert_eq!(error.snippet().lines().count(), 2);
    }
}

/// The wording is the kernels' business, the place is the parser's.
#[test]
fn numbers_that_a_policy_refuses_are_pointed_at() {
    for (spec, at) in [
        ("sliding_window 5/h slices 7", "7"),
        ("sliding_window 5/h as w slices 0", "0"),
        ("sliding_log 5/s and 70000/h", "70000"),
        ("sliding_log 70000/h and 5/s", "70000"),
        ("token_bucket 5/s burst 9007199254740991", "9007199254740991"),
        ("token_bucket 9007199254740991/us burst 9007199254740991 burst", "burst"),
        ("fixed_window 5/0s", "0s"),
        ("concurrency 5 hold 1s queue 0", "0"),
        ("concurrency 5 hold 1s priorities 2 queue 65537", "65537"),
        ("concurrency 5 hold 1s queue 9 priorities 0", "0"),
        ("concurrency 5 hold 1s queue 9 priorities 300", "300"),
        ("concurrency 5 hold 1s queue 9 priorities 17 as q", "17"),
    ] {
        let error = spec.parse::<Policy>().unwrap_err();
        assert_eq!(spec[error.column() - 1..].split([' ', '/']).next(), Some(at), "{error}");
        let carets = error.snippet().matches('^').count();
        assert_eq!(carets, at.len(), "{error}");
    }
}

#[test]
fn columns_count_characters() {
    let error = "tökén_bücket 5/s".parse::<Policy>().unwrap_err();
    assert_eq!(error.column(), 1);
    assert_eq!(error.snippet(), "tökén_bücket 5/s\n^^^^^^^^^^^^");

    let error = "gcra 5/s as größe brust 5".parse::<Policy>().unwrap_err();
    assert_eq!(error.column(), 19);
    assert_eq!(error.snippet(), "gcra 5/s as größe brust 5\n                  ^^^^^");
}

#[test]
fn control_characters_are_printed_as_escapes() {
    let error = "gcra 5/s \u{1b}[31mred\u{7} burst x".parse::<Policy>().unwrap_err();
    let text = error.to_string();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert_eq!(error.column(), 10);
    assert_eq!(error.message().lines().count(), 1);
    let mut lines = error.snippet().lines();
    assert_eq!(lines.next(), Some("gcra 5/s \\u{1b}[31mred\\u{7} burst x"));
    // The carets are as wide as the escapes.
    assert_eq!(lines.next(), Some("         ^^^^^^^^^^^^^^^^^^"));
}

#[test]
fn a_spec_has_at_most_a_kibibyte() {
    let padded = |bytes: usize| format!("{:bytes$}", "gcra 5/s");
    assert!(padded(Policy::MAX_SPEC_BYTES).parse::<Policy>().is_ok());
    let error = padded(Policy::MAX_SPEC_BYTES + 1).parse::<Policy>().unwrap_err();
    assert_eq!(error.message(), "the spec has 1025 bytes, but may have at most 1024");
    assert_eq!(error.column(), 1025);
    assert_eq!(error.snippet().lines().last().unwrap().len(), 61);
    // A character of several bytes across the border.
    assert!("é".repeat(1000).parse::<Policy>().is_err());
}

#[test]
fn messages_stay_short_however_long_the_word() {
    for spec in [
        "x".repeat(1000),
        format!("gcra {}", "x".repeat(1000)),
        format!("gcra {}/s", "9".repeat(1000)),
        format!("gcra 1/{}", "9".repeat(1000)),
        format!("gcra 1/s {}", "x".repeat(1000)),
        format!("gcra 1/s burst {}", "x".repeat(1000)),
        format!("gcra 1/s as {}", "x".repeat(1000)),
        format!("fixed_window 1/d calendar {}", "x".repeat(990)),
        format!("fixed_window 1/{} calendar UTC", "x".repeat(990)),
        format!("fixed_window 1/w calendar UTC start {}", "x".repeat(960)),
        format!("fixed_window 1/month calendar UTC from {}", "x".repeat(960)),
        format!("fixed_window 1/d calendar UTC at {}", "x".repeat(960)),
        format!("smooth 1/s start {}", "x".repeat(990)),
        format!("smooth 1/s burst {}", "x".repeat(990)),
    ] {
        let error = spec.parse::<Policy>().unwrap_err();
        assert!(error.message().chars().count() < 250, "{}", error.message());
    }
}

fn times() -> impl Strategy<Value = Duration> {
    let micros = prop_oneof![
        1..=MAX_EXACT,
        1..=10_000_u64,
        (1..=400_u64).prop_map(|days| days * Span::DAY.as_micros()),
        (1..=5_000_u64).prop_map(|millis| millis * 1_000),
    ];
    micros.prop_map(Duration::from_micros)
}

fn counts() -> impl Strategy<Value = u64> {
    prop_oneof![0..=10_u64, 0..=100_000_u64, 0..=MAX_EXACT]
}

fn rates() -> impl Strategy<Value = Rate> {
    (counts(), times()).prop_map(|(count, per)| Rate::new(count, per).unwrap())
}

fn calendars() -> impl Strategy<Value = CalendarWindow> {
    let units = [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year];
    let zones = ["UTC", "Asia/Tokyo", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "CET"];
    let begins = (1..=12_u8, 1..=31_u8, 0..24_u8, 0..60_u8, any::<bool>());
    (prop::sample::select(units.to_vec()), prop::sample::select(zones.to_vec()), begins).prop_map(
        |(unit, zone, (month, day, hour, minute, is_across_zones))| {
            let calendar = CalendarWindow::new(unit, zone).unwrap();
            let calendar = if is_across_zones { calendar.across_zones() } else { calendar };
            let calendar = match unit {
                CalendarUnit::Week => calendar.start("sunday"),
                CalendarUnit::Month => calendar.from(&day.to_string()),
                CalendarUnit::Year => calendar.from(&format!("{month:02}-{:02}", day.min(29))),
                CalendarUnit::Day => Ok(calendar),
            };
            calendar.unwrap().at(&format!("{hour:02}:{minute:02}")).unwrap()
        },
    )
}

#[test]
fn beginnings_of_calendar_windows_that_make_no_sense_are_named() {
    for (spec, column, message) in [
        ("fixed_window 1/w start sunday", 18, "add `calendar ZONE`"),
        ("fixed_window 1/d aligned at 06:00", 26, "`at` says where windows of a calendar begin"),
        ("fixed_window 1/month from 15", 22, "add `calendar ZONE`"),
        ("fixed_window 1/d calendar UTC start sunday", 37, "it goes with the period w, not with d"),
        ("fixed_window 1/month calendar UTC start sunday", 41, "not with month"),
        ("fixed_window 1/w calendar UTC start sun", 37, "write one of monday, tuesday"),
        ("fixed_window 1/w calendar UTC from 15", 36, "not with w; write `start sunday` for weeks"),
        ("fixed_window 1/d calendar UTC from 15", 36, "the periods month and year, not with d"),
        ("fixed_window 1/month calendar UTC from 0", 40, "write 1 to 31"),
        ("fixed_window 1/month calendar UTC from 32", 40, "write 1 to 31"),
        ("fixed_window 1/month calendar UTC from +5", 40, "write 1 to 31"),
        ("fixed_window 1/month calendar UTC from 01-15", 40, "write 1 to 31"),
        ("fixed_window 1/year calendar UTC from 15", 39, "a day such as 04-06"),
        ("fixed_window 1/year calendar UTC from 02-30", 39, "a day such as 04-06"),
        ("fixed_window 1/year calendar UTC from 4-6", 39, "a day such as 04-06"),
        ("fixed_window 1/d calendar UTC at 24:00", 34, "write 00:00 to 23:59"),
        ("fixed_window 1/d calendar UTC at 6:00", 34, "write 00:00 to 23:59"),
        ("fixed_window 1/d calendar UTC at 06:00:00", 34, "write 00:00 to 23:59"),
        ("fixed_window 1/d calendar UTC at 06:00 at 07:00", 40, "`at` is set twice"),
        ("fixed_window 1/d across_zones", 18, "add `calendar ZONE`"),
        ("fixed_window 1/d aligned across_zones", 26, "when the zone of a calendar changes"),
        ("fixed_window 1/d calendar across_zones", 27, "is not in the IANA time zone database"),
        ("fixed_window 1/d calendar UTC across_zones UTC", 44, "unknown word `UTC`"),
        ("fixed_window 1/d calendar UTC at", 31, "write `at TIME`, such as `at 06:00`"),
    ] {
        let error = spec.parse::<Policy>().unwrap_err();
        assert!(error.message().contains(message), "{spec}: {error}");
        assert_eq!(error.column(), column, "{spec}: {error}");
    }
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let slices = prop_oneof![Just(60_u64), Just(10), 1..=100_u64];
    let tiers = prop::collection::vec((0..=65_536_u64, times()), 1..8);
    prop_oneof![
        (rates(), counts()).prop_map(|(rate, burst)| Algorithm::TokenBucket { rate, burst }),
        rates().prop_map(|rate| Algorithm::TokenBucket { rate, burst: rate.count() }),
        (rates(), counts()).prop_map(|(rate, burst)| Algorithm::Gcra { rate, burst }),
        (rates(), counts()).prop_map(|(rate, capacity)| Algorithm::LeakyBucket { rate, capacity }),
        (rates(), counts()).prop_map(|(rate, queue)| Algorithm::Shaper { rate, queue }),
        (rates(), times(), any::<bool>()).prop_map(|(rate, burst, full)| Algorithm::Smooth {
            rate,
            burst,
            start: if full { Start::Full } else { Start::Empty }
        }),
        (rates(), times()).prop_map(|(rate, over)| Algorithm::WarmUp { rate, over }),
        (counts(), times()).prop_map(|(limit, span)| Algorithm::FixedWindow {
            limit,
            window: Window::FirstAdmitted(span)
        }),
        (counts(), times()).prop_map(|(limit, span)| Algorithm::FixedWindow {
            limit,
            window: Window::Aligned(span)
        }),
        (counts(), calendars()).prop_map(|(limit, window)| Algorithm::FixedWindow {
            limit,
            window: Window::Calendar(window)
        }),
        (counts(), times(), slices).prop_map(|(limit, window, slices)| Algorithm::SlidingWindow {
            limit,
            window,
            slices
        }),
        (counts(), times()).prop_map(|(limit, window)| Algorithm::SlidingCounter { limit, window }),
        tiers.prop_map(|tiers| Algorithm::SlidingLog {
            tiers: tiers.into_iter().map(|(limit, window)| LogTier { limit, window }).collect()
        }),
    ]
}

/// Policies of every algorithm; combinations of numbers that a policy refuses are left out.
fn policies() -> impl Strategy<Value = Policy> {
    let names = prop::option::of("[a-z0-9_-]{1,32}");
    let costs = prop_oneof![Just(1_u64), 1..=MAX_EXACT];
    (algorithms(), names, costs, any::<bool>(), 0..3).prop_filter_map(
        "a policy refuses these numbers",
        |(algorithm, name, cost, shadow, denied)| {
            let mut policy = Policy::new(algorithm).ok()?.with_cost(Cost::new(cost).ok()?);
            if let Some(name) = name {
                policy = policy.named(name.parse().ok()?);
            }
            if shadow {
                policy = policy.shadow();
            }
            match denied {
                1 => policy = policy.charge_denied(),
                2 => policy = policy.clone().count_denied().unwrap_or(policy),
                _ => {}
            }
            Some(policy)
        },
    )
}

/// Lines made of words that the parser knows, and of some that it doesn't.
fn near_specs() -> impl Strategy<Value = String> {
    let words = [
        "token_bucket",
        "fixed_window",
        "sliding_window",
        "sliding_log",
        "smooth",
        "shaper",
        "warmup",
        "10/s",
        "7/7ms",
        "0/d",
        "1/month",
        "9007199254740991/us",
        "1/",
        "/",
        "/s",
        "burst",
        "capacity",
        "slices",
        "and",
        "aligned",
        "calendar",
        "UTC",
        "from",
        "at",
        "sunday",
        "15",
        "06:00",
        "over",
        "queue",
        "start",
        "full",
        "cost",
        "as",
        "shadow",
        "0",
        "1",
        "60",
        "9007199254740992",
        "1s",
        "0s",
        "é",
        "\u{0}",
        "burst=1",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..9)
        .prop_map(|words| words.join(" "))
}

/// Checks the properties that parsing guarantees for any text.
fn is_an_answer(spec: &str) -> Result<(), TestCaseError> {
    match spec.parse::<Policy>() {
        Ok(policy) => prop_assert_eq!(policy.to_string().parse::<Policy>(), Ok(policy)),
        Err(error) => {
            prop_assert!(error.column() >= 1 && error.column() <= spec.chars().count() + 1);
            prop_assert_eq!(error.snippet().lines().count(), 2);
            prop_assert_eq!(error.message().lines().count(), 1);
            prop_assert!(!error.to_string().chars().any(|c| c.is_control() && c != '\n'));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(policy in policies()) {
        prop_assert_eq!(policy.to_string().parse::<Policy>(), Ok(policy));
    }

    #[test]
    fn any_text_is_answered(spec in any::<String>()) {
        is_an_answer(&spec)?;
    }

    #[test]
    fn any_words_are_answered(spec in near_specs()) {
        is_an_answer(&spec)?;
    }

    #[test]
    fn one_changed_character_is_answered(policy in policies(), at in any::<prop::sample::Index>(), new in any::<char>()) {
        let mut spec: Vec<char> = policy.to_string().chars().collect();
        let at = at.index(spec.len());
        spec[at] = new;
        is_an_answer(&spec.into_iter().collect::<String>())?;
    }
}
