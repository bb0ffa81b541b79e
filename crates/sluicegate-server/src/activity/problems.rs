//! The rules that turn the state of a service into problems, each with its remedy.

mod reload;

use serde::Serialize;

pub(crate) use reload::{LimitReload, Span};

/// The state of a service, as far as it may be a problem.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// `None` while the store answers.
    pub(crate) store: Option<StoreFailure>,
    /// Why the current content of the config file isn't in force, and for how long it hasn't been.
    pub(crate) refused: Option<(String, u64)>,
    /// Stored keys and their maximum.
    pub(crate) keys: Option<(u64, u64)>,
    /// Bytes of the stored keys and their maximum.
    pub(crate) bytes: Option<(u64, u64)>,
    /// Keys with consumption that were evicted in the last minute.
    pub(crate) evicted: u64,
    /// Connections that were closed for others in the last minute.
    pub(crate) closed_connections: u64,
    /// Requests that found no turn in the last minute.
    pub(crate) overloaded: u64,
    /// Waiting requests and their maximum.
    pub(crate) waiting: (u64, u64),
    /// Whether a limit found no place in the lists of top keys.
    pub(crate) are_top_keys_full: bool,
    /// Whether some limits have no series of their own in the metrics.
    pub(crate) are_series_full: bool,
    /// Overrides and their maximum.
    pub(crate) overrides: (u64, u64),
    pub(crate) certificates: Vec<CertificateEnd>,
    /// Each configuration of the fleet with the processes that have it; one unless they differ.
    pub(crate) configurations: Vec<Vec<String>>,
    pub(crate) differing_for_ms: Option<u64>,
    /// The processes of the fleet that refused a configuration.
    pub(crate) refusers: Vec<String>,
    /// Lines that the decision log left out in the last minute.
    pub(crate) log_left_out: u64,
    /// Limits with many denials.
    pub(crate) denying: Vec<DenyingLimit>,
    /// 99th percentile of the calls to the store, and the shortest deadline of a limit, in µs.
    pub(crate) store_p99_us: Option<(u64, u64)>,
    /// Why overrides can't be read.
    pub(crate) overrides_error: Option<String>,
}

/// A store that doesn't answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreFailure {
    pub(crate) error: String,
    pub(crate) down_ms: Option<u64>,
    /// Numbers of limits that then allow, deny, decide locally and answer with an error.
    pub(crate) answers: [usize; 4],
}

/// The end of a listener's certificate.
#[derive(Clone, Debug)]
pub(crate) struct CertificateEnd {
    pub(crate) listener: &'static str,
    /// Seconds until then; negative once it has expired.
    pub(crate) left: i64,
}

/// A limit with many denials.
#[derive(Clone, Debug, Default)]
pub(crate) struct DenyingLimit {
    pub(crate) limit: String,
    /// Decisions and denials of the last minute.
    pub(crate) now: (u64, u64),
    /// Decisions and denials of the 10 min before.
    pub(crate) before: (u64, u64),
    pub(crate) main_key: Option<MainKey>,
    /// A reload of the last hour.
    pub(crate) reload: Option<LimitReload>,
}

/// The key with the most denials of a limit.
#[derive(Clone, Debug)]
pub(crate) struct MainKey {
    /// Text without control characters.
    pub(crate) key: String,
    pub(crate) denials: u64,
    pub(crate) of: u64,
}

/// A problem of the service.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Problem {
    /// Stable name of the problem.
    pub(crate) id: String,
    pub(crate) severity: &'static str,
    /// One sentence.
    pub(crate) text: String,
    /// One sentence with what to do.
    pub(crate) remedy: String,
    pub(crate) since_ms: Option<u64>,
    /// Text of several lines.
    pub(crate) detail: Option<String>,
    pub(crate) limit: Option<String>,
}

/// Returns the problems of a service, the worst one first.
pub(crate) fn problems(observed: &Observed) -> Vec<Problem> {
    let mut found: Vec<Problem> = Vec::new();
    found.extend(observed.store.as_ref().map(unreachable));
    found.extend(observed.refused.as_ref().map(refused));
    found.extend(observed.certificates.iter().filter_map(certificate));
    found.extend(log(observed.log_left_out));
    found.extend(differing(observed));
    found.extend(capacity(observed));
    found.extend(observed.store_p99_us.and_then(slow));
    found.extend(observed.overrides_error.as_deref().map(overrides));
    found.extend(observed.denying.iter().flat_map(denying));
    // Sorting is stable, so the order above holds for each severity.
    found.sort_by_key(|problem| problem.severity != ERROR);
    found
}

const ERROR: &str = "error";
const WARNING: &str = "warning";
/// Fewer denials of a limit than this in a minute are ignored.
pub(crate) const FEW_DENIALS: u64 = 20;

fn problem(
    id: impl Into<String>,
    severity: &'static str,
    text: impl Into<String>,
    remedy: impl Into<String>,
) -> Problem {
    let (id, text, remedy) = (id.into(), text.into(), remedy.into());
    Problem { id, severity, text, remedy, since_ms: None, detail: None, limit: None }
}

fn unreachable(store: &StoreFailure) -> Problem {
    let verbs = [
        ("allows all requests", "allow all requests"),
        ("denies all requests", "deny all requests"),
        ("decides locally", "decide locally"),
        ("answers with errors", "answer with errors"),
    ];
    let answers: Vec<_> = store
        .answers
        .iter()
        .zip(verbs)
        .filter(|(count, _)| **count > 0)
        .map(|(count, (one, many))| match count {
            1 => format!("1 limit {one}"),
            count => format!("{count} limits {many}"),
        })
        .collect();
    let meanwhile = match answers.as_slice() {
        [] => String::new(),
        answers => format!(", so {}", answers.join(", ")),
    };
    let remedy = "Start the store, or make it reachable from this machine: the service reconnects by itself.";
    let text = format!("The store doesn't answer{meanwhile}.");
    let found = problem("store-unreachable", ERROR, text, remedy);
    Problem { since_ms: store.down_ms, detail: Some(store.error.clone()), ..found }
}

fn refused((message, age): &(String, u64)) -> Problem {
    let text = "The config file was refused, so its earlier content stays in force.";
    let remedy = "Correct the file as the detail says: the service reads it again by itself.";
    let found = problem("config-refused", ERROR, text, remedy);
    Problem { since_ms: Some(*age), detail: Some(message.clone()), ..found }
}

fn certificate(certificate: &CertificateEnd) -> Option<Problem> {
    const DAY: i64 = 24 * 60 * 60;
    const DAYS: i64 = 14;
    let CertificateEnd { listener, left } = *certificate;
    let id = format!("certificate-ends:{listener}");
    let remedy = "Renew the certificate and write the files in place: the service reads them again by itself.";
    if left <= 0 {
        let text = format!("The TLS certificate of the listener {listener} has expired.");
        return Some(problem(id, ERROR, text, remedy));
    }
    let text = match left / DAY {
        0 => format!("The TLS certificate of the listener {listener} expires in less than a day."),
        1 => format!("The TLS certificate of the listener {listener} expires in 1 day."),
        days => format!("The TLS certificate of the listener {listener} expires in {days} days."),
    };
    let severity = if left < 2 * DAY { ERROR } else { WARNING };
    (left < DAYS * DAY).then(|| problem(id, severity, text, remedy))
}

fn log(left_out: u64) -> Option<Problem> {
    let text = format!("The decision log left out {left_out} lines in the last minute.");
    let remedy = "Free space on its disk, or raise denials_at_most: \
                  sluicegate_decision_log_left_out_total has the reasons.";
    (left_out > 0).then(|| problem("decision-log", ERROR, text, remedy))
}

fn differing(observed: &Observed) -> Option<Problem> {
    let count = observed.configurations.len();
    if count < 2 {
        return None;
    }
    /// Maximum number of named processes of a configuration.
    const NAMED: usize = 20;
    let mut lines: Vec<String> = Vec::new();
    for processes in &observed.configurations {
        let mut names = processes.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if let Some(more) = processes.len().checked_sub(NAMED).filter(|more| *more > 0) {
            names = format!("{names} and {more} more");
        }
        lines.push(format!("One configuration: {names}"));
    }
    if !observed.refusers.is_empty() {
        let names: Vec<_> = observed.refusers.iter().take(NAMED).cloned().collect();
        lines.push(format!("Refused a new one: {}", names.join(", ")));
    }
    let text = format!("The processes of the fleet decide by {count} different configurations.");
    let remedy = "Give all processes the same file; those that refused it say why.";
    let found = problem("fleet-differs", WARNING, text, remedy);
    Some(Problem { since_ms: observed.differing_for_ms, detail: Some(lines.join("\n")), ..found })
}

fn capacity(observed: &Observed) -> Vec<Problem> {
    let mut found = Vec::new();
    let is_full = |(used, most): (u64, u64)| u128::from(used) * 100 >= u128::from(most) * 98;
    for (id, what, setting, numbers) in [
        ("store-keys", "keys", "max_keys", observed.keys),
        ("store-bytes", "bytes", "max_bytes", observed.bytes),
    ] {
        let Some((used, most)) = numbers.filter(|numbers| is_full(*numbers)) else { continue };
        let text = format!("The embedded store is full: {used} of {most} {what} are used.");
        let remedy = format!("Raise memory.{setting}, or use keys that fewer clients can invent.");
        found.push(problem(id, WARNING, text, remedy));
    }
    if observed.evicted > 0 {
        let text = format!(
            "The embedded store evicted {} keys with consumption in the last minute, so their clients start fresh.",
            observed.evicted
        );
        let remedy = "Raise memory.max_keys and memory.max_bytes, or set memory.overflow to deny.";
        found.push(problem("evicts-live-keys", ERROR, text, remedy));
    }
    if observed.closed_connections > 0 {
        let text = format!(
            "The service closed {} connections in the last minute, because too many were open.",
            observed.closed_connections
        );
        let remedy = "Raise service.max_connections or service.max_connections_per_address, or let clients keep fewer idle connections.";
        found.push(problem("connections-full", WARNING, text, remedy));
    }
    if observed.overloaded > 0 {
        let text = format!(
            "{} requests of the last minute weren't decided, because too many others were.",
            observed.overloaded
        );
        let remedy =
            "Look whether the store is slow, raise service.max_requests, or run more processes.";
        found.push(problem("overloaded", ERROR, text, remedy));
    }
    let (waiting, most) = observed.waiting;
    if most > 0 && waiting >= most {
        let text = format!("{waiting} requests wait for units, so no other request can wait.");
        let remedy = "Raise service.max_waiting, or let clients wait for a shorter time.";
        found.push(problem("waiting-full", WARNING, text, remedy));
    }
    if observed.are_top_keys_full {
        let text = "More than 1,000 limits are busy, so some have no lists of top keys.";
        let remedy =
            "Merge limits that differ only in their keys, or look at the decision log instead.";
        found.push(problem("top-keys-full", WARNING, text, remedy));
    }
    if observed.are_series_full {
        let text = "The metrics have no more series, so some limits count together as `other`.";
        let remedy = "Raise metrics.max_series, or merge limits that differ only in their keys.";
        found.push(problem("series-full", WARNING, text, remedy));
    }
    let (overrides, most) = observed.overrides;
    if most > 0 && overrides >= most {
        let text = format!("The store has {overrides} overrides, so no more can be set.");
        let remedy = "End unused ones: `sluicegate override list` shows those of a limit.";
        found.push(problem("overrides-full", WARNING, text, remedy));
    }
    found
}

fn slow((p99, deadline): (u64, u64)) -> Option<Problem> {
    let text = format!(
        "The store is slow: 1 of 100 calls takes over {} ms, and a deadline is {} ms.",
        p99 / 1_000,
        deadline / 1_000
    );
    let remedy = "Look for load on the store and for the distance to it, or raise the deadline of the limits.";
    (p99 > deadline / 2).then(|| problem("store-slow", WARNING, text, remedy))
}

fn overrides(error: &str) -> Problem {
    let text = "Overrides can't be read from the store, so those that are known stay in force.";
    let remedy = "Make the store reachable: the service reads them again by itself.";
    let found = problem("overrides-unread", WARNING, text, remedy);
    Problem { detail: Some(error.to_owned()), ..found }
}

/// Returns the share of denials.
fn permille((decisions, denials): (u64, u64)) -> u64 {
    let share = u128::from(denials) * 1_000 / u128::from(decisions.max(1));
    u64::try_from(share).unwrap_or(1_000)
}

fn denying(limit: &DenyingLimit) -> Vec<Problem> {
    let name = &limit.limit;
    let (now, before) = (permille(limit.now), permille(limit.before));
    let mut found = Vec::new();
    if limit.now.1 < FEW_DENIALS {
        return found;
    }
    if let Some(since_reload) = reload::denies_since(limit) {
        found.push(since_reload);
    } else if now > 500 && before < 100 && limit.before.0 > 0 {
        let text = format!(
            "Limit `{name}` denied {} % of its requests in the last minute, and {} % in the 10 min before.",
            now / 10,
            before / 10
        );
        let remedy = "See which keys it denies: a client may be broken, or the limit too low for the new load.";
        let found_here = problem(format!("denies-more:{name}"), WARNING, text, remedy);
        found.push(Problem { limit: Some(name.clone()), ..found_here });
    }
    if let Some(MainKey { key, denials, of }) = &limit.main_key
        && u128::from(*denials) * 2 > u128::from(*of)
    {
        let share = u128::from(*denials) * 100 / u128::from((*of).max(1));
        let text = format!("Key `{key}` has {share} % of the denials of limit `{name}`.");
        let remedy =
            "Ask its owner to slow down, raise the key's numbers with an override, or pause it.";
        let found_here = problem(format!("main-key:{name}"), WARNING, text, remedy);
        found.push(Problem { limit: Some(name.clone()), ..found_here });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(observed: &Observed) -> Vec<String> {
        problems(observed).into_iter().map(|problem| problem.id).collect()
    }

    fn one(observed: &Observed) -> Problem {
        let found = problems(observed);
        assert_eq!(found.len(), 1, "{found:?}");
        let sentence = |text: &str| text.ends_with('.') && text.split_whitespace().count() <= 30;
        assert!(sentence(&found[0].text) && sentence(&found[0].remedy), "{found:?}");
        found.into_iter().next().unwrap()
    }

    #[test]
    fn a_healthy_service_has_no_problem() {
        let healthy = Observed {
            keys: Some((97, 100)),
            bytes: Some((1, 100)),
            waiting: (9, 10),
            overrides: (8, 9),
            certificates: vec![CertificateEnd { listener: "http", left: 15 * 86_400 }],
            configurations: vec![vec!["a".to_owned(), "b".to_owned()]],
            store_p99_us: Some((25_000, 50_000)),
            denying: vec![DenyingLimit {
                limit: "l".to_owned(),
                now: (1_000, 400),
                before: (1_000, 400),
                main_key: Some(MainKey { key: "k".to_owned(), denials: 200, of: 400 }),
                reload: None,
            }],
            ..Observed::default()
        };
        assert_eq!(ids(&healthy), Vec::<String>::new());
    }

    #[test]
    fn each_problem_is_one_sentence_with_a_remedy() {
        let store =
            StoreFailure { error: "refused".to_owned(), down_ms: Some(7), answers: [0, 1, 2, 0] };
        let found = one(&Observed { store: Some(store), ..Observed::default() });
        assert_eq!(
            found.text,
            "The store doesn't answer, so 1 limit denies all requests, 2 limits decide locally."
        );
        assert_eq!((found.since_ms, found.detail.as_deref()), (Some(7), Some("refused")));
        let refused = Some(("f:1:2: no\n  ^".to_owned(), 3));
        let found = one(&Observed { refused, ..Observed::default() });
        assert_eq!((found.severity, found.detail.unwrap().contains('^')), ("error", true));
        for (observed, id, severity) in [
            (Observed { keys: Some((98, 100)), ..Observed::default() }, "store-keys", WARNING),
            (Observed { bytes: Some((100, 100)), ..Observed::default() }, "store-bytes", WARNING),
            (Observed { evicted: 1, ..Observed::default() }, "evicts-live-keys", ERROR),
            (
                Observed { closed_connections: 1, ..Observed::default() },
                "connections-full",
                WARNING,
            ),
            (Observed { overloaded: 1, ..Observed::default() }, "overloaded", ERROR),
            (Observed { waiting: (5, 5), ..Observed::default() }, "waiting-full", WARNING),
            (Observed { are_top_keys_full: true, ..Observed::default() }, "top-keys-full", WARNING),
            (Observed { are_series_full: true, ..Observed::default() }, "series-full", WARNING),
            (Observed { overrides: (9, 9), ..Observed::default() }, "overrides-full", WARNING),
            (Observed { log_left_out: 1, ..Observed::default() }, "decision-log", ERROR),
            (
                Observed { store_p99_us: Some((25_001, 50_000)), ..Observed::default() },
                "store-slow",
                WARNING,
            ),
            (
                Observed { overrides_error: Some("no".to_owned()), ..Observed::default() },
                "overrides-unread",
                WARNING,
            ),
        ] {
            let found = one(&observed);
            assert_eq!((found.id.as_str(), found.severity), (id, severity));
        }
        for (left, words, severity) in [
            (-1, "has expired", ERROR),
            (3_600, "less than a day", ERROR),
            (86_400, "in 1 day.", ERROR),
            (13 * 86_400, "in 13 days", WARNING),
        ] {
            let certificates = vec![CertificateEnd { listener: "grpc", left }];
            let found = one(&Observed { certificates, ..Observed::default() });
            assert!(found.text.contains(words) && found.text.contains("grpc"), "{found:?}");
            assert_eq!(found.severity, severity);
        }
    }

    #[test]
    fn a_fleet_with_two_configurations_is_named() {
        let fleet = Observed {
            configurations: vec![vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]],
            differing_for_ms: Some(9),
            refusers: vec!["c".to_owned()],
            ..Observed::default()
        };
        let found = one(&fleet);
        assert_eq!(found.since_ms, Some(9));
        let detail = "One configuration: a, b\nOne configuration: c\nRefused a new one: c";
        assert_eq!(found.detail.as_deref(), Some(detail));
    }

    #[test]
    fn a_limit_that_denies_much_more_and_a_key_that_causes_it_are_named() {
        let denying = |now, before, denials| DenyingLimit {
            limit: "login".to_owned(),
            now,
            before,
            main_key: Some(MainKey { key: "mallory".to_owned(), denials, of: 100 }),
            reload: None,
        };
        let of = |limit| ids(&Observed { denying: vec![limit], ..Observed::default() });
        assert_eq!(of(denying((100, 51), (1_000, 99), 50)), ["denies-more:login"]);
        assert_eq!(of(denying((100, 51), (1_000, 99), 51)).len(), 2);
        assert_eq!(of(denying((100, 50), (1_000, 99), 51)), ["main-key:login"]);
        assert!(of(denying((100, 99), (1_000, 100), 50)).is_empty());
        assert!(of(denying((19, 19), (1_000, 0), 100)).is_empty(), "too few");
        assert!(of(denying((100, 100), (0, 0), 50)).is_empty(), "there was no traffic before");
    }

    #[test]
    fn errors_come_before_warnings() {
        let observed =
            Observed { waiting: (1, 1), evicted: 3, log_left_out: 2, ..Observed::default() };
        assert_eq!(ids(&observed), ["decision-log", "evicts-live-keys", "waiting-full"]);
    }
}
