//! `top`: the state of a service, its problems and its busiest limits.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use serde::Deserialize;
use sluicegate_core::printable;
use tokio::time::MissedTickBehavior;

use super::screen::{QuitKey, frame, size};
use super::{lines, remote};
use crate::cli::TopArgs;
use crate::output::{Exit, Failure, say, try_say};
use crate::printable_json::printable_json;
use crate::signals::StopSignals;

/// The state of a service.
#[derive(Deserialize)]
struct Now {
    name: String,
    version: String,
    uptime_ms: u64,
    rates: Rates,
    decision_us: Option<Quantiles>,
    store: Store,
    problems: Vec<Problem>,
}

#[derive(Deserialize)]
struct Rates {
    allowed: u64,
    denied: u64,
    shadow_denied: u64,
    #[serde(default)]
    errors: u64,
}

#[derive(Deserialize)]
struct Quantiles {
    p50: u64,
    p99: u64,
}

#[derive(Deserialize)]
struct Store {
    kind: String,
    state: String,
    down_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Problem {
    severity: String,
    text: String,
    remedy: String,
    since_ms: Option<u64>,
    detail: Option<String>,
}

#[derive(Deserialize)]
struct Limits {
    total: usize,
    matching: usize,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    enabled: bool,
    overridden: bool,
    rates: Rates,
    sums: Rates,
    capacity_permille: Option<u64>,
    top_denied: Vec<Key>,
    top_used: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    key: Option<String>,
    key_bytes: Option<String>,
    count: u64,
}

/// Prints the state of a service and its busiest limits: once, or each second until `q` or a signal.
///
/// A failure ends the command, unless a terminal already shows a table: there it is shown until the service answers.
///
/// # Errors
/// Returns an error if the service can't be reached, doesn't answer, or answers with an error.
pub(crate) async fn top(args: TopArgs) -> Result<Exit, Failure> {
    let token = args.service.admin_token.read()?;
    let server = &args.service.server;
    let read = async || {
        let call = remote::Call::get(server, args.path(), token.as_deref());
        let body = call.read(Some(args.service.deadline)).await?;
        let foreign = || remote::foreign(server);
        let text = String::from_utf8(body).map_err(|_| foreign())?;
        let (now, limits) = data(&text, "now").zip(data(&text, "limits")).ok_or_else(foreign)?;
        if args.service.json {
            let line = format!("{{\"now\":{now},\"limits\":{limits}}}");
            return Ok(View { head: printable_json(&line).into_owned(), rows: Vec::new() });
        }
        let now = serde_json::from_str(now).map_err(|_| foreign())?;
        let limits: Limits = serde_json::from_str(limits).map_err(|_| foreign())?;
        Ok::<View, Failure>(View { head: head(&now, &limits), rows: limits.rows })
    };
    let printed = |view: &View| {
        let table = if args.service.json { String::new() } else { table(&view.rows, None) };
        format!("{}{table}", view.head).trim_end().to_owned()
    };
    let is_terminal = std::io::stdout().is_terminal();
    if args.once || !(is_terminal || args.service.json) {
        say(printed(&read().await?));
        return Ok(Exit::Allowed);
    }
    let mut signals = StopSignals::new()
        .map_err(|error| Failure::usage(format_args!("can't wait for signals: {error}")))?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    if args.service.json {
        loop {
            tokio::select! {
                _ = ticks.tick() => if try_say(printed(&read().await?)).is_err() {
                    return Ok(Exit::Allowed);
                },
                signal = signals.next() => return Ok(Exit::Signal(signal)),
            }
        }
    }
    let mut view = read().await?;
    let mut quit = QuitKey::new();
    loop {
        let size = size();
        draw(&frame(&view.head, &table(&view.rows, Some(size.columns)), size));
        tokio::select! {
            _ = ticks.tick() => {}
            () = quit.pressed() => return Ok(Exit::Allowed),
            signal = signals.next() => return Ok(Exit::Signal(signal)),
        }
        tokio::select! {
            read = read() => view = read.unwrap_or_else(|failure| View {
                head: format!("error: {}\n\nThe command tries again each second.\n", failure.message()),
                rows: Vec::new(),
            }),
            () = quit.pressed() => return Ok(Exit::Allowed),
            signal = signals.next() => return Ok(Exit::Signal(signal)),
        }
    }
}

/// The lines above a table, and its rows.
struct View {
    head: String,
    rows: Vec<Row>,
}

/// Writes a frame. A closed terminal isn't an error.
fn draw(frame: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(frame.as_bytes()).and_then(|()| out.flush()));
}

/// Returns the data of the first event with a name.
fn data<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split("\n\n").find_map(|event| {
        let mut lines = event.lines();
        lines.find(|line| line.strip_prefix("event: ") == Some(name))?;
        lines.find_map(|line| line.strip_prefix("data: "))
    })
}

/// Describes a service as lines, with everything escaped that clients choose.
fn head(now: &Now, limits: &Limits) -> String {
    let mut text = String::new();
    let rates = &now.rates;
    // Writing to a string doesn't fail.
    let _ = writeln!(
        text,
        "{} {}, up {}: {} allowed/s, {} denied/s, {} denied by shadows/s, {} errors/s",
        printable(&now.name),
        printable(&now.version),
        words(now.uptime_ms),
        rates.allowed,
        rates.denied,
        rates.shadow_denied,
        rates.errors
    );
    let _ = write!(text, "store {} is {}", printable(&now.store.kind), printable(&now.store.state));
    if let Some(down) = now.store.down_ms {
        let _ = write!(text, " for {}", words(down));
    }
    if let Some(Quantiles { p50, p99 }) = &now.decision_us {
        let (half, most) = (lines::words(*p50), lines::words(*p99));
        let _ = write!(text, ", decisions take {half} (p50) and {most} (p99)");
    }
    text.push('\n');
    for problem in &now.problems {
        let (severity, said) = (printable(&problem.severity), printable(&problem.text));
        let since = problem.since_ms.map(|ms| format!(" for {}", words(ms))).unwrap_or_default();
        let _ = writeln!(text, "{severity}{since}: {said} {}", printable(&problem.remedy));
        for line in problem.detail.iter().flat_map(|detail| detail.lines()) {
            let _ = writeln!(text, "    {}", printable(line));
        }
    }
    let _ = writeln!(text, "\n{} of {} limits", limits.matching, limits.total);
    text
}

/// Returns a line for each limit. If fewer than 40 columns remain for the top keys, they have a line of their own.
fn table(rows: &[Row], columns: Option<usize>) -> String {
    const KEYS: usize = 40;
    if rows.is_empty() {
        return String::new();
    }
    let head = ["allowed/s", "denied/s", "shadow/s", "denied in 15 min", "used by top key"];
    let names: Vec<_> = rows.iter().map(name).collect();
    let lengths = names.iter().map(|name| name.chars().count());
    let width = lengths.max().unwrap_or(0).max("limit".len());
    let fixed = width + head.iter().map(|column| 2 + column.len()).sum::<usize>();
    let is_narrow = columns.is_some_and(|columns| columns < fixed + KEYS);
    let mut text = format!("{:width$}", "limit");
    for column in head {
        let _ = write!(text, "  {column}");
    }
    text.push_str(if is_narrow { "\n" } else { "  top keys\n" });
    for (row, name) in rows.iter().zip(&names) {
        let used = row.capacity_permille.map_or("-".to_owned(), |used| format!("{} %", used / 10));
        let Rates { allowed, denied, shadow_denied, .. } = row.rates;
        let cells = [allowed, denied, shadow_denied, row.sums.denied].map(|it| it.to_string());
        let _ = write!(text, "{name:width$}");
        for (cell, column) in cells.iter().chain([&used]).zip(head) {
            let _ = write!(text, "  {cell:>width$}", width = column.len());
        }
        let lists = [("denied", &row.top_denied), ("used", &row.top_used)];
        let lists = lists.iter().filter(|(_, list)| !list.is_empty()).map(|(what, list)| {
            let keys: Vec<_> = list.iter().map(key).collect();
            format!("{what}: {}", keys.join(", "))
        });
        if is_narrow {
            text.push('\n');
            for list in lists {
                let _ = writeln!(text, "    {list}");
            }
        } else {
            let _ = writeln!(text, "  {}", lists.collect::<Vec<_>>().join("; "));
        }
    }
    text
}

fn name(row: &Row) -> String {
    let mut name = printable(&row.name);
    if !row.enabled {
        name.push_str(" (off)");
    }
    if row.overridden {
        name.push_str(" (overridden)");
    }
    name
}

fn key(key: &Key) -> String {
    let Key { key, key_bytes, count } = key;
    format!("{} {count}", lines::key(key.as_deref(), key_bytes.as_deref()))
}

fn words(millis: u64) -> String {
    lines::words(millis.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_columns_of_each_limit_and_escaped_keys() {
        let row = |name: &str, enabled: bool| {
            serde_json::json!({
                "name": name, "enabled": enabled, "overridden": !enabled,
                "rates": {"allowed": 12, "denied": 3, "shadow_denied": 0},
                "sums": {"allowed": 9_000, "denied": 77, "shadow_denied": 0},
                "capacity_permille": if enabled { Some(987) } else { None },
                "top_denied": [{"key": "\u{1b}[2J\u{202e}é", "count": 70}],
                "top_used": [{"key_bytes": "ff00", "count": 5}],
            })
        };
        let rows: Vec<Row> =
            serde_json::from_value(serde_json::json!([row("login", true), row("m", false)]))
                .unwrap();
        let text = table(&rows, Some(200));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "limit                 allowed/s  denied/s  shadow/s  denied in 15 min  used by top key  top keys"
        );
        assert_eq!(
            lines[1],
            "login                        12         3         0                77             98 %  \
             denied: \\u{1b}[2J\\u{202e}é 70; used: the bytes ff00 5"
        );
        assert!(lines[2].starts_with("m (off) (overridden)         12 "), "{text}");
        assert_eq!(table(&rows, None), text);
        let narrow = table(&rows, Some(80));
        let lines: Vec<_> = narrow.lines().collect();
        assert!(lines[0].ends_with("used by top key") && lines[1].ends_with("98 %"), "{narrow}");
        assert_eq!(lines[2], r"    denied: \u{1b}[2J\u{202e}é 70");
        assert_eq!((lines[3], lines.len()), ("    used: the bytes ff00 5", 7));
    }

    #[test]
    fn an_event_is_found_by_its_name() {
        let text =
            "event: history\nid: 1-2\ndata: {}\n\nevent: now\ndata: {\"a\":\"event: limits\"}\n\n";
        assert_eq!(data(text, "now"), Some("{\"a\":\"event: limits\"}"));
        assert_eq!((data(text, "history"), data(text, "limits")), (Some("{}"), None));
    }
}
