//! `recent`: the newest decisions of a service.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use sluicegate_core::printable;
use tokio::time::MissedTickBehavior;

use super::{lines, remote};
use crate::cli::RecentArgs;
use crate::output::{Exit, Failure, say, try_say};
use crate::printable_json::printable_json;
use crate::signals::StopSignals;

/// A page of the service's list.
#[derive(Deserialize)]
struct Page<'a> {
    /// The newest first.
    #[serde(borrow)]
    recent: Vec<&'a RawValue>,
    next: u64,
}

/// A row of the list.
#[derive(Deserialize)]
struct Row {
    time: String,
    op: String,
    limit: String,
    key: Option<String>,
    key_bytes: Option<String>,
    allowed: bool,
    source: String,
    binding: Option<String>,
    binding_limit: Option<String>,
    code: Option<String>,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    shadow_denied: bool,
    #[serde(default)]
    together: Vec<String>,
    client: Option<String>,
}

/// Prints the newest decisions, the newest last. With `--follow` it prints new ones until a signal, or until its output
/// is closed.
///
/// # Errors
/// Returns an error if the service can't be reached, doesn't answer, or answers with an error.
pub(crate) async fn recent(args: RecentArgs) -> Result<Exit, Failure> {
    /// Time between two looks at the list.
    const LOOK: Duration = Duration::from_millis(500);
    let token = args.admin_token.read()?;
    let mut since = None;
    let mut is_any = false;
    let mut show = async || {
        let path = format!("/v1/recent?{}", args.query(since));
        let call = remote::Call::get(&args.server, path, token.as_deref());
        let body = call.read(args.deadline).await?;
        let page: Page<'_> =
            serde_json::from_slice(&body).map_err(|_| remote::foreign(&args.server))?;
        for row in page.recent.iter().rev() {
            let line = if args.json {
                printable_json(row.get())
            } else {
                let row = serde_json::from_str(row.get());
                shown(&row.map_err(|_| remote::foreign(&args.server))?).into()
            };
            is_any = true;
            if try_say(line).is_err() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let is_more = since.is_some_and(|since| page.next > since) && !page.recent.is_empty();
        since = Some(page.next);
        Ok::<_, Failure>(ControlFlow::Continue(is_more))
    };
    if show().await?.is_break() || !args.follow {
        if !is_any && !args.json {
            say("no recent decision matches");
        }
        return Ok(Exit::Allowed);
    }
    let mut signals = StopSignals::new()
        .map_err(|error| Failure::usage(format_args!("can't wait for signals: {error}")))?;
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => loop {
                match show().await? {
                    ControlFlow::Continue(true) => {}
                    ControlFlow::Continue(false) => break,
                    ControlFlow::Break(()) => return Ok(Exit::Allowed),
                }
            },
            signal = signals.next() => return Ok(Exit::Signal(signal)),
        }
    }
}

/// Describes a row in a line, with everything escaped that clients choose.
fn shown(row: &Row) -> String {
    let answer = match (row.allowed, row.shadow_denied) {
        (true, true) => "allowed (a shadow denies)",
        (true, false) => "allowed",
        (false, _) => "denied",
    };
    let key = lines::key(row.key.as_deref(), row.key_bytes.as_deref());
    let mut line = format!(
        "{}  {answer:8} {} {}  {key}",
        printable(&row.time),
        printable(&row.op),
        printable(&row.limit)
    );
    if !row.allowed {
        let policy = [&row.binding_limit, &row.binding].into_iter().flatten();
        let policy: Vec<_> = policy.map(|name| printable(name)).collect();
        let because = row.code.as_deref().map(printable);
        let by = Some(policy.join(": ")).filter(|by| !by.is_empty()).into_iter().chain(because);
        line.extend(by.map(|by| format!("  by {by}")));
        line.push_str(&match row.retry_after_ms {
            Some(0) => String::new(),
            Some(ms) => format!("  retry after {}", lines::words(ms.saturating_mul(1_000))),
            None => "  no retry passes".to_owned(),
        });
    }
    if row.source != "store" {
        line.push_str(&format!("  ({})", printable(&row.source)));
    }
    if !row.together.is_empty() {
        line.push_str(&format!("  with {}", printable(&row.together.join(", "))));
    }
    line.extend(row.client.iter().map(|client| format!("  for {}", printable(client))));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_key_is_shown_as_harmless_text() {
        let row = |key: &str| {
            let json = serde_json::json!({
                "time": "2026-11-29T00:00:00.000000Z", "op": "check", "limit": "login", "key": key,
                "allowed": false, "source": "store", "binding": "gcra", "binding_limit": "login",
                "retry_after_ms": 1500,
            });
            (
                shown(&serde_json::from_value(json.clone()).unwrap()),
                printable_json(&json.to_string()).into_owned(),
            )
        };
        let (line, json) = row("\u{1b}[2J\u{202e}\r\né\u{1f980}");
        assert!(line.ends_with("  by login: gcra  retry after 1.5 s"), "{line}");
        assert!(line.contains(r"\u{1b}[2J\u{202e}\r\né"), "{line}");
        assert!(json.contains("\\u001b[2J\\u202e\\r\\né\u{1f980}"), "{json}");
    }
}
