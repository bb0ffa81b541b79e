//! Charts of a report's results.

use crate::chart::{Frame, Legend, OverTime, Series};
use crate::counts::{Counts, Offered};
use crate::keys::shown;
use crate::numbers::{counted, grouped, percent};
use crate::subject::Subject;

/// Maximum number of characters shown of a heading.
const CHARACTERS: usize = 90;

/// Draws the results of one policy.
pub(crate) fn single(subject: &Subject<'_>, offered: &Offered) -> OverTime {
    let counts = subject.counts;
    let title = format!("Requests over time under {}", shown(&subject.heading, CHARACTERS));
    let legend = Legend {
        allowed: grouped(counts.allowed),
        denied: grouped(counts.denied),
        offered: grouped(counts.requests),
    };
    let frame = Frame::new(title, summary(counts));
    OverTime::single(frame, legend, offered.buckets, &offered.offered, &series(counts))
}

/// Draws the results of several policies, one below the other.
pub(crate) fn comparison(subjects: &[Subject<'_>], offered: &Offered) -> OverTime {
    let heading = |Subject { heading, counts, .. }: &Subject<'_>| {
        let share = percent(counts.denied, counts.requests);
        format!("{share} % denied by {}", shown(heading, CHARACTERS))
    };
    let headings: Vec<_> = subjects.iter().map(heading).collect();
    let frame = Frame::new("Requests over time, policy by policy", headings.join("; "));
    let all = subjects.iter().map(|subject| series(subject.counts));
    OverTime::comparison(frame, offered.buckets, &offered.offered, headings.into_iter().zip(all))
}

/// Summarizes the results in one sentence.
pub(crate) fn summary(counts: &Counts) -> String {
    let requests = counted(counts.requests, "request");
    if counts.denied == 0 {
        return format!("None of {requests} denied");
    }
    format!(
        "{} of {requests} denied ({} %), from {} of {}",
        grouped(counts.denied),
        percent(counts.denied, counts.requests),
        grouped(counts.keys_denied),
        counted(counts.keys, "key"),
    )
}

fn series(counts: &Counts) -> Series<'_> {
    Series { allowed: &counts.timeline.allowed, denied: &counts.timeline.denied }
}
