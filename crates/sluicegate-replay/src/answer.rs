//! The answer of a report, in a sentence.

use crate::counts::Counts;
use crate::keys::shown;
use crate::numbers::{counted, grouped, percent};
use crate::report::Report;
use crate::subject::Subject;

/// The characters of a heading that are shown.
const CHARACTERS: usize = 90;

impl Report {
    /// Returns the result in one or two sentences: how many requests would have been denied, and which limits are suggested.
    #[must_use]
    pub fn answer(&self) -> String {
        if self.requests == 0 {
            return "The log has no requests.".to_owned();
        }
        let subjects: Vec<_> = self.subjects().collect();
        let mut sentences = Vec::new();
        match &subjects[..] {
            [] => {}
            [only] => sentences.push(would(only)),
            [.., limit] if self.limit.is_some() => sentences.push(would(limit)),
            several => {
                // Of equals the first; a shadow denies nothing.
                let most = several.iter().rev().max_by_key(|subject| subject.counts.denied);
                let fewest = several.iter().min_by_key(|subject| subject.counts.denied);
                if let Some((most, fewest)) = most.zip(fewest) {
                    sentences.push(would(most));
                    if most.counts.denied > fewest.counts.denied {
                        sentences.push(would(fewest));
                    }
                }
            }
        }
        sentences.extend(self.suggested());
        sentences.join(" ")
    }

    fn suggested(&self) -> Option<String> {
        let suggestions = self.suggest.as_ref()?;
        let specs: Vec<_> = suggestions.limits.iter().map(|limit| &*limit.spec).collect();
        let goal = &suggestions.deny_at_most;
        Some(match &specs[..] {
            [] => format!("No limit denies at most {goal}."),
            [only] => format!("To deny at most {goal}, set {only}."),
            [first @ .., last] => {
                format!("To deny at most {goal}, set one of {} or {last}.", first.join(", "))
            }
        })
    }
}

fn would(subject: &Subject<'_>) -> String {
    let heading = shown(&subject.heading, CHARACTERS);
    format!("{heading} would have {}.", summary(subject.counts))
}

/// What came of the requests: `denied 3 of 10 requests (30.0 %), from 1 of 2 keys`.
pub(crate) fn summary(counts: &Counts) -> String {
    let requests = counted(counts.requests, "request");
    if counts.denied == 0 {
        return format!("denied none of {requests}");
    }
    format!(
        "denied {} of {requests} ({} %), from {} of {}",
        grouped(counts.denied),
        percent(counts.denied, counts.requests),
        grouped(counts.keys_denied),
        counted(counts.keys, "key"),
    )
}
