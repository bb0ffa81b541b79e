//! An answer as lines of text.

use std::fmt::Write as _;

use sluicegate::store::{Operation, Span};
use sluicegate_core::printable;

use super::AskedLimits;
use super::hold_verb::HoldVerb;
use super::verb::Verb;
use crate::output::{counted, say};
use sluicegate_client::json::{Answer, PAUSED, PolicyAnswer, STORE_FULL};

/// Prints a line per policy, and the hold.
pub(super) fn print(verb: Verb, answer: &Answer<'_>, asked: &AskedLimits) {
    for line in lines(verb, answer, asked) {
        say(line);
    }
}

/// Prints a line per policy about a hold that was settled, renewed, cancelled or released.
pub(super) fn print_settled(verb: &HoldVerb, answer: &Answer<'_>) {
    for line in settled_lines(verb, answer) {
        say(line);
    }
}

/// Prints a line per policy about a hold that was revoked.
pub(super) fn print_ended(answer: &Answer<'_>) {
    for policy in &answer.policies {
        let about = policy.given_back.map(|units| format!("{} given back", counted(units, "unit")));
        say(line(&Done("ended", about), &name_of(answer, policy), policy));
    }
}

fn lines(verb: Verb, answer: &Answer<'_>, asked: &AskedLimits) -> Vec<String> {
    // Escape the text: the service isn't trusted.
    let limit = printable(&answer.limit);
    let mut lines = Vec::new();
    if let Some(reason) = without_policies(answer) {
        let verdict = if verb.needs_token() { "unchanged" } else { verdict(answer.allowed) };
        lines.push(format!("{verdict:7}  {limit}  {reason}"));
    }
    if let Some(granted) = answer.granted.filter(|units| *units > 0) {
        lines.push(format!("granted  {limit}  {}", counted(granted, "unit")));
    }
    for policy in &answer.policies {
        let done = Done::of(verb, answer, policy, asked);
        lines.push(line(&done, &name_of(answer, policy), policy));
    }
    lines.extend(waited(answer));
    lines.extend(held(answer));
    lines
}

/// Returns why the request stopped waiting.
fn waited(answer: &Answer<'_>) -> Option<String> {
    let why = match answer.code.as_deref()? {
        "hopeless" => "its turn can't come in time".to_owned(),
        "queue_full" => "the limit's queue is full".to_owned(),
        "timed_out" => match answer.ahead {
            Some(0) | None => "the time is up".to_owned(),
            Some(ahead) => format!("the time is up, and {ahead} wait before it"),
        },
        STORE_FULL | PAUSED => return None,
        "too_many_waiting" => "as many requests wait at the service as may".to_owned(),
        other => printable(other).to_string(),
    };
    Some(format!("gave up  {}  {why}", printable(&answer.limit)))
}

fn settled_lines(verb: &HoldVerb, answer: &Answer<'_>) -> Vec<String> {
    let limit = printable(&answer.limit);
    match answer.cancelled {
        Some(true) => return vec![format!("cancelled  {limit}  its units came back")],
        Some(false) => {
            return vec![format!(
                "unchanged  {limit}  others came after it, or it was cancelled before: nothing came back"
            )];
        }
        None => {}
    }
    let word = match verb {
        HoldVerb::Cancel => "cancelled",
        HoldVerb::Release => "released",
        HoldVerb::Renew { .. } => "renewed",
        HoldVerb::Settle { .. } => "settled",
    };
    let mut lines = Vec::new();
    let word = match answer.found.as_deref() {
        Some("settled") => {
            lines.push(format!(
                "unchanged  {limit}  it was settled before: this is what it gave back then"
            ));
            "unchanged"
        }
        _ => word,
    };
    for policy in &answer.policies {
        let about = policy.given_back.map(|units| format!("{} given back", counted(units, "unit")));
        lines.push(line(&Done(word, about), &name_of(answer, policy), policy));
    }
    lines.extend(held(answer));
    lines
}

fn name_of(answer: &Answer<'_>, policy: &PolicyAnswer<'_>) -> String {
    let limit = policy.limit_name.as_deref().unwrap_or(&answer.limit);
    format!("{}/{}", printable(limit), printable(&policy.name))
}

/// Describes the hold and its token.
fn held(answer: &Answer<'_>) -> Option<String> {
    let hold = answer.hold.as_ref()?;
    Some(format!("held     for {}, token {}", words(hold.expires_in_us), printable(&hold.token)))
}

/// Explains why no policy was checked, or why no policy decided.
fn without_policies(answer: &Answer<'_>) -> Option<&'static str> {
    match &*answer.source {
        "fallback" if answer.policies.is_empty() => {
            Some("the store failed; the limit's on_store_failure decided")
        }
        "bypass" if answer.allowed => {
            Some("no policy was checked: the limit is off, or the key is on its allow list")
        }
        "bypass" => Some("no policy was checked: the key is on the limit's block list"),
        _ if answer.ban.is_some() && answer.policies.is_empty() => {
            Some("the key is banned: no policy was checked")
        }
        _ if answer.pause.is_some() && answer.policies.is_empty() => {
            Some("the key is paused: no policy was checked")
        }
        _ if answer.code.as_deref() == Some(STORE_FULL) => Some("the embedded store is full"),
        _ => None,
    }
}

/// The effect on one policy: a word and an explanation.
struct Done(&'static str, Option<String>);

impl Done {
    fn of(verb: Verb, answer: &Answer<'_>, policy: &PolicyAnswer<'_>, asked: &AskedLimits) -> Self {
        let unchanged = |why: &str| Self("unchanged", Some(why.to_owned()));
        match (verb, policy.given_back, answer.forgotten) {
            (Verb::Decide(Operation::Charge), ..)
                if asked.touch(policy.limit_name.as_deref(), &policy.name) =>
            {
                Self("charged", None)
            }
            (Verb::Decide(Operation::Charge), ..) | (Verb::Decide(Operation::Refund), None, _) => {
                unchanged("its cost is 0")
            }
            (Verb::Decide(Operation::Refund), Some(0), _) => unchanged("nothing had been taken"),
            (Verb::Decide(Operation::Refund), Some(units), _) => {
                Self("refunded", Some(format!("{} given back", counted(units, "unit"))))
            }
            (Verb::Decide(Operation::Ban { lasts }), ..) => {
                Self("banned", Some(format!("for {lasts}")))
            }
            (Verb::Decide(Operation::Pause { .. }), ..) if !is_paused(answer, policy) => {
                unchanged("another policy is paused")
            }
            (Verb::Decide(Operation::Pause { lasts, .. }), ..) => {
                Self("paused", Some(format!("for {lasts}")))
            }
            (Verb::Decide(Operation::Resume { .. }), _, Some(true)) => Self("resumed", None),
            (Verb::Decide(Operation::Resume { .. }), ..) => unchanged("the key was not paused"),
            (Verb::Decide(Operation::Unban), _, Some(true)) => Self("unbanned", None),
            (Verb::Decide(Operation::Unban), ..) => unchanged("the key was not banned"),
            (Verb::Decide(Operation::Reset), _, Some(true)) => Self("forgotten", None),
            (Verb::Decide(Operation::Reset), ..) => unchanged("the key had no state"),
            _ => Self(verdict(policy.allowed), None),
        }
    }
}

/// Returns whether the answer's pause is of a policy.
fn is_paused(answer: &Answer<'_>, policy: &PolicyAnswer<'_>) -> bool {
    let paused = answer.pause.as_ref().and_then(|pause| pause.policy.as_deref());
    paused.is_none_or(|paused| paused == policy.name)
}

const fn verdict(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "denied" }
}

fn line(Done(word, about): &Done, name: &str, policy: &PolicyAnswer<'_>) -> String {
    let mut line = format!("{word:7}  {name}  ");
    if let Some(about) = about {
        let _ = write!(line, "{about}, ");
    }
    // Writing into a string can't fail.
    let _ = match (policy.remaining, policy.limit) {
        (Some(remaining), Some(limit)) => write!(line, "{remaining} of {limit} left"),
        (Some(remaining), None) => write!(line, "{remaining} left"),
        (None, _) => write!(line, "any number left"),
    };
    let _ = match policy.retry_after_us {
        None => write!(line, ", could never pass"),
        Some(0) => Ok(()),
        Some(micros) => write!(line, ", retry after {}", words(micros)),
    };
    if policy.wait_us > 0 {
        let _ = write!(line, ", act in {}", words(policy.wait_us));
    }
    let _ = match policy.reset_after_us {
        Some(0) => write!(line, ", like new"),
        Some(micros) => write!(line, ", like new in {}", words(micros)),
        None => Ok(()),
    };
    if policy.shadow {
        line.push_str(" (only watching)");
    }
    line
}

/// Describes a key of an answer, which is text or bytes in hexadecimal.
pub(super) fn key(text: Option<&str>, bytes: Option<&str>) -> String {
    match (text, bytes) {
        (Some(text), _) => printable(text),
        (None, bytes) => format!("the bytes {}", printable(bytes.unwrap_or("?"))),
    }
}

pub(super) fn words(micros: u64) -> String {
    Span::from_micros(micros).unwrap_or(Span::MAX).in_words()
}

#[cfg(test)]
mod tests {
    use sluicegate::{Ask, Decision, Limiter, MemoryStore};

    use super::*;
    use crate::commands::AskedLimit;
    use crate::cost::AskedCost;
    use sluicegate::store::DecisionForStores as _;

    fn asked(cost: &AskedCost) -> AskedLimits {
        let (limit, key) = ("l".to_owned(), "k".into());
        AskedLimits { entries: vec![AskedLimit { limit, key, cost: cost.clone() }] }
    }

    fn limiter(policies: &[&str]) -> Limiter<MemoryStore> {
        Limiter::new(MemoryStore::new(), sluicegate::Limit::new("l", policies).unwrap())
    }

    fn said(verb: Verb, decision: &Decision, cost: &AskedCost) -> Vec<String> {
        lines(verb, &Answer::new("l", decision), &asked(cost))
    }

    #[test]
    fn each_policy_has_a_readable_line() {
        let check = |policies: &[&str], cost: u64| {
            let decision = limiter(policies).check(Ask::new("k").cost(cost)).now().unwrap();
            said(Verb::Decide(Operation::Check), &decision, &AskedCost::default())
        };
        assert_eq!(
            check(
                &["token_bucket 10/s burst 20", "smooth 1/s start full", "gcra 0/s shadow as s"],
                1
            ),
            [
                "allowed  l/token_bucket  19 of 20 left, like new in 100 ms",
                "allowed  l/smooth  any number left, like new in 1 s",
                "denied   l/s  0 of 0 left, could never pass, like new (only watching)",
            ]
        );
        assert_eq!(
            check(&["gcra 1/s burst 2"], 3),
            ["denied   l/gcra  2 of 2 left, could never pass, like new"]
        );
    }

    #[test]
    fn a_charge_says_what_it_touched_and_a_grant_how_much_it_is() {
        let limiter = limiter(&["gcra 1/h burst 5 as a", "fixed_window 9/d as b"]);
        let cost = AskedCost { rest: None, each: vec![("a".to_owned(), 7)] };
        let decision = limiter.charge(cost.ask(b"k")).now().unwrap();
        let charged = said(Verb::Decide(Operation::Charge), &decision, &cost);
        assert!(charged[0].starts_with("charged  l/a  0 of 5 left, "), "{charged:?}");
        assert!(charged[1].starts_with("unchanged  l/b  its cost is 0, 9 of 9"), "{charged:?}");
        let cost = AskedCost { rest: Some(8), each: Vec::new() };
        let decision = limiter.take(cost.ask(b"j")).now().unwrap();
        let answer = Answer::new("l", &decision).granting(&decision, || 8);
        let granted = lines(Verb::Decide(Operation::Take), &answer, &asked(&cost));
        assert_eq!(granted[0], "granted  l  5 units");
        assert!(granted[2].starts_with("allowed  l/b  4 of 9 left"), "{granted:?}");
    }

    #[test]
    fn who_decides_without_a_policy_is_said() {
        let cost = AskedCost::default();
        let blocked = said(Verb::Decide(Operation::Check), &Decision::bypass(false), &cost);
        assert_eq!(
            blocked,
            ["denied   l  no policy was checked: the key is on the limit's block list"]
        );
        let mut full = limiter(&["gcra 1/s"]).peek("k").now().unwrap();
        full.turn_away_for_room(Some(Span::SECOND));
        assert_eq!(
            said(Verb::Decide(Operation::Check), &full, &cost)[0],
            "denied   l  the embedded store is full"
        );
    }
}
