//! The answer of a report, in sentences.

use crate::decision_counts::DecisionReport;
use crate::keys::shown;
use crate::numbers::{counted, grouped, percent};
use crate::report::Report;
use crate::subject::Subject;
use crate::suggest::Suggestions;

/// Maximum number of characters shown of a heading.
const CHARACTERS: usize = 90;

impl Report {
    /// Returns the result in up to three sentences, and for a decision log what of it was played.
    ///
    /// They state the requests that would have been denied, and the units that a suggested limit
    /// allows per key.
    #[must_use]
    pub fn answer(&self) -> Vec<String> {
        if self.requests == 0 {
            return vec!["The log has no requests.".to_owned()];
        }
        let subjects: Vec<_> = self.subjects().collect();
        let mut sentences = Vec::new();
        match &subjects[..] {
            [] => {}
            [.., limit] if self.limit.is_some() => sentences.push(would(limit)),
            several => {
                let by_denials = |subject: &&Subject<'_>| subject.counts.denied;
                let most = several.iter().rev().max_by_key(by_denials);
                let fewest = several.iter().min_by_key(by_denials);
                sentences.extend(most.map(would));
                let differs = |fewest: &&Subject<'_>| {
                    most.is_some_and(|most| most.counts.denied > fewest.counts.denied)
                };
                sentences.extend(fewest.filter(differs).map(would));
            }
        }
        sentences.extend(self.suggest.as_ref().map(suggested));
        sentences.extend(self.decisions.iter().flat_map(DecisionReport::sentences));
        sentences
    }
}

fn suggested(suggestions: &Suggestions) -> String {
    let goal = &suggestions.deny_at_most;
    let windows = suggestions.limits.iter().filter(|limit| limit.spec.starts_with("fixed_window"));
    let windows = windows.zip(["a second", "a minute", "an hour"]);
    let windows: Vec<_> =
        windows.map(|(limit, per)| format!("{} {per}", grouped(limit.number))).collect();
    match &windows[..] {
        [second, minute, hour] => {
            format!("To deny at most {goal}, allow each key {second}, {minute} or {hour}.")
        }
        _ => format!("Not every window has a limit that denies at most {goal}."),
    }
}

fn would(subject: &Subject<'_>) -> String {
    let Subject { heading, counts, .. } = subject;
    let heading = shown(heading, CHARACTERS);
    let requests = counted(counts.requests, "request");
    if counts.denied == 0 {
        return format!("{heading} would have denied none of {requests}.");
    }
    format!(
        "{heading} would have denied {} of {requests} ({} %), from {} of {}.",
        grouped(counts.denied),
        percent(counts.denied, counts.requests),
        grouped(counts.keys_denied),
        counted(counts.keys, "key"),
    )
}
