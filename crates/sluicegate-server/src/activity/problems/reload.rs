//! A reload that made a limit deny more.

use super::{DenyingLimit, FEW_DENIALS, Problem, WARNING, permille, problem};
use crate::activity::Counts;

/// The newest reload that changed a limit, with the decisions before and since.
#[derive(Clone, Debug)]
pub(crate) struct LimitReload {
    /// `HH:MM`, in UTC.
    pub(crate) time: String,
    /// The changes of the limit, as sentences. They are missing if the reload changed very many limits.
    pub(crate) changes: Vec<String>,
    /// Up to 10 min before the reload.
    pub(crate) before: Span,
    pub(crate) since: Span,
}

/// The decisions of some time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) counts: Counts,
    pub(crate) seconds: u64,
}

impl Span {
    const fn of(self) -> (u64, u64) {
        (self.counts.allowed.saturating_add(self.counts.denied), self.counts.denied)
    }

    /// Returns the allowed requests of an hour at this rate.
    fn allowed_per_hour(self) -> u128 {
        u128::from(self.counts.allowed) * 3_600 / u128::from(self.seconds.max(1))
    }
}

/// Returns the problem, if the reload explains the denials.
///
/// The share of denied requests must have at least doubled, and be at least 10 points higher. The limit must not allow
/// more than before: then the load would be the reason.
pub(super) fn denies_since(limit: &DenyingLimit) -> Option<Problem> {
    const POINTS: u64 = 100;
    let LimitReload { time, changes, before, since } = limit.reload.as_ref()?;
    if before.of().0 < FEW_DENIALS || since.counts.denied < FEW_DENIALS {
        return None;
    }
    let was = permille(before.of());
    let is_more = |of: (u64, u64)| permille(of) >= was.saturating_mul(2).max(was + POINTS);
    let allows_more = since.allowed_per_hour() > before.allowed_per_hour();
    if !is_more(since.of()) || !is_more(limit.now) || allows_more {
        return None;
    }
    let name = &limit.limit;
    let change = changes.first().and_then(|first| {
        let change = first.strip_prefix(&format!("Limit `{name}`: "))?.strip_suffix('.')?;
        Some(match changes.len() {
            1 => format!(": {change}."),
            count => format!(": {change}, the first of {count} changes."),
        })
    });
    let text = format!(
        "Limit `{name}` denied {} % of its requests since the reload of {time} UTC, and {} % before{}",
        permille(since.of()) / 10,
        was / 10,
        change.unwrap_or_else(|| ".".to_owned()),
    );
    let remedy = "If this isn't intended, restore the file or override the limit.";
    let found = problem(format!("denies-since-reload:{name}"), WARNING, text, remedy);
    let detail = (changes.len() > 1).then(|| changes.join("\n"));
    Some(Problem { limit: Some(name.clone()), detail, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: &str =
        "Limit `login`: policy `gcra` changed from `gcra 100/min` to `gcra 10/min`.";

    /// Allowed and denied requests of 10 min before the reload, and of 2 min since.
    fn of(before: (u64, u64), since: (u64, u64)) -> DenyingLimit {
        let span = |(allowed, denied), seconds| Span {
            counts: Counts { allowed, denied, shadow_denied: 0 },
            seconds,
        };
        DenyingLimit {
            limit: "login".to_owned(),
            now: (since.0 + since.1, since.1),
            reload: Some(LimitReload {
                time: "03:12".to_owned(),
                changes: vec![CHANGE.to_owned()],
                before: span(before, 600),
                since: span(since, 120),
            }),
            ..DenyingLimit::default()
        }
    }

    #[test]
    fn the_reload_and_its_change_are_named() {
        let found = denies_since(&of((980, 20), (70, 930))).unwrap();
        assert_eq!(
            found.text,
            "Limit `login` denied 93 % of its requests since the reload of 03:12 UTC, and 2 % before: policy `gcra` \
             changed from `gcra 100/min` to `gcra 10/min`."
        );
        assert_eq!(
            (found.id.as_str(), found.limit.as_deref(), found.detail),
            ("denies-since-reload:login", Some("login"), None)
        );
        let mut several = of((980, 20), (70, 930));
        let changes = &mut several.reload.as_mut().unwrap().changes;
        changes.push("Limit `login`: `ban` changed.".to_owned());
        let found = denies_since(&several).unwrap();
        assert!(found.text.ends_with(" to `gcra 10/min`, the first of 2 changes."), "{found:?}");
        assert_eq!(found.detail.unwrap().lines().count(), 2);
        let mut unknown = of((980, 20), (70, 930));
        unknown.reload.as_mut().unwrap().changes.clear();
        let found = denies_since(&unknown).unwrap();
        assert!(found.text.ends_with(" UTC, and 2 % before."), "{found:?}");
    }

    #[test]
    fn a_reload_that_explains_nothing_is_not_named() {
        let is_named = |before, since| denies_since(&of(before, since)).is_some();
        assert!(is_named((980, 20), (70, 930)));
        assert!(!is_named((18, 1), (0, 930)), "too few requests before");
        assert!(!is_named((980, 20), (0, 19)), "too few denials since");
        assert!(
            !is_named((500, 500), (50, 100)),
            "it denied half of them before, and two thirds since"
        );
        assert!(!is_named((1_000, 0), (190, 20)), "a tenth is needed");
        assert!(
            !is_named((100, 0), (100, 900)),
            "it allows more than before, so there is more load"
        );
        assert!(is_named((100, 0), (20, 900)), "it allows as many as before");
        let mut ended = of((980, 20), (70, 930));
        ended.now = (100, 20);
        assert!(denies_since(&ended).is_some());
        ended.now = (1_000, 20);
        assert!(denies_since(&ended).is_none(), "it denies few requests now");
        let no_reload = DenyingLimit { reload: None, ..of((980, 20), (70, 930)) };
        assert!(denies_since(&no_reload).is_none());
    }
}
