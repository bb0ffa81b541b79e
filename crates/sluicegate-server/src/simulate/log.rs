//! Reads a decision log for a simulation.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use sluicegate_replay::{LoggedCost, LoggedDecisions, PastDecision};
use tokio::time::Instant;

use super::gathered::Gathered;
use super::origin::{From, micros};
use super::{Bounds, Problem, Terms};

/// Maximum number of bytes that are read of a log: its last ones.
const MOST_BYTES: u64 = 256 << 20;
/// Maximum length of a line.
const MOST_LINE: u64 = 64 << 10;

/// Reads the decisions of these limits in the last part of a log. `now` is the end of the time in µs since the epoch;
/// without it that is the log's last decision.
///
/// # Errors
/// Returns an error if the file can't be read, or has no line of a decision log.
pub(crate) fn read_log(
    path: &Path,
    wanted: BTreeSet<String>,
    terms: Terms,
    now: Option<u64>,
    bounds: Bounds,
) -> Result<Gathered, Problem> {
    let unreadable = |error: std::io::Error| {
        Problem::Wrong(format!("the decision log {} can't be read: {error}", path.display()))
    };
    let is_file = std::fs::metadata(path).map_err(unreadable)?.is_file();
    if !is_file {
        return Err(Problem::Wrong(format!("{} isn't a regular file", path.display())));
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let start = size.saturating_sub(MOST_BYTES);
    let end = match now {
        Some(now) => now,
        None => last_time(&mut file, size).map_err(unreadable)?.unwrap_or(0),
    };
    file.seek(SeekFrom::Start(start)).map_err(unreadable)?;
    let since = end.saturating_sub(micros(terms.since));
    let mut reader = BufReader::with_capacity(1 << 20, file.take(size - start));
    let (mut lines, mut line) = (LoggedDecisions::new(), Vec::new());
    let mut gathered = Gathered::new(From::Log, wanted, terms.scale, (since, end), bounds);
    let mut first = None;
    let mut is_part = start > 0;
    loop {
        line.clear();
        let read =
            reader.by_ref().take(MOST_LINE).read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        let ends = line.last() == Some(&b'\n');
        // The rest of a line, after its beginning was skipped.
        if std::mem::replace(&mut is_part, !ends) {
            continue;
        }
        let Some(decision) = lines.read(&line) else { continue };
        let time = decision.time.as_micros();
        first.get_or_insert(time);
        if time < since || time > end {
            continue;
        }
        if Instant::now() >= bounds.end {
            gathered.left_out += 1;
            continue;
        }
        gathered.left_out += decision.left_out;
        // Another limit denied it, so other numbers of this one change nothing. A repeat was charged before.
        if !decision.is_admission || decision.is_repeat || decision.is_denied_by_others {
            continue;
        }
        let cost = match decision.cost {
            LoggedCost::Same(cost) => Some(cost),
            LoggedCost::Own | LoggedCost::Each => None,
        };
        let past = PastDecision {
            time: decision.time,
            key: &decision.key,
            cost,
            is_take: decision.is_take,
            was_denied: decision.was_denied,
            sample: decision.sample,
        };
        gathered.add(&decision.limit, &past);
    }
    let Some(first) = first else {
        return Err(Problem::Unrecorded("the decision log has no decision"));
    };
    gathered.first = gathered.first.max(first.min(end));
    Ok(gathered)
}

/// Returns the time of the last decision.
fn last_time(file: &mut File, size: u64) -> std::io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(size.saturating_sub(4 * MOST_LINE)))?;
    let mut end = Vec::new();
    file.take(4 * MOST_LINE).read_to_end(&mut end)?;
    let mut lines = LoggedDecisions::new();
    let times = end
        .split(|byte| *byte == b'\n')
        .rev()
        .filter_map(|line| lines.read(line).map(|it| it.time.as_micros()));
    Ok(times.take(1_000).max())
}
