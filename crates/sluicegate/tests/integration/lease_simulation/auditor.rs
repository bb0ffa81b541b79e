//! Looks at every spend of all processes and the store, in the true time of each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sluicegate_core::{Algorithm, Limit, Span, Window};
use sluicegate_testkit::ideal_bucket::IdealBucket;

/// The joint trace.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// For each key, the times of spends with the units under each policy.
    spends: HashMap<Vec<u8>, Vec<(u64, Vec<u64>)>>,
}

impl Trace {
    /// Requests of these costs were admitted at a true time.
    pub(crate) fn spend(&mut self, key: &[u8], at: u64, costs: &[u64]) {
        let spends = self.spends.entry(key.to_vec()).or_default();
        // A report may arrive late at a server, but the units were spent at this time.
        let place = spends.partition_point(|(then, _)| *then <= at);
        spends.insert(place, (at, costs.to_vec()));
    }

    /// Returns the violation of a limit, if there is one. `windows` are the starts of each key's windows, by the
    /// server's clock, which is `ahead` of the true time; `None` if it was set.
    pub(crate) fn audit(
        &self,
        limit: &Limit,
        windows: &HashMap<Vec<u8>, BTreeSet<u64>>,
        ahead: Option<i64>,
    ) -> Result<(), String> {
        for (key, spends) in &self.spends {
            for (index, member) in limit.members().iter().enumerate() {
                let spends = || spends.iter().map(|(at, costs)| (*at, costs[index]));
                let fault = match (member.policy().algorithm(), ahead) {
                    (
                        Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst },
                        _,
                    ) => {
                        let period = Span::from(rate.period()).as_micros();
                        bucket(IdealBucket::new(rate.count(), period, *burst), spends())
                    }
                    (Algorithm::FixedWindow { limit, window }, Some(ahead)) => {
                        let starts = windows.get(key).cloned().unwrap_or_default();
                        window_of(*limit, window, &starts, ahead, spends())
                    }
                    _ => Ok(()),
                };
                let policy = member.name();
                let key = key.escape_ascii();
                fault.map_err(|fault| format!("policy `{policy}` of key `{key}`: {fault}"))?;
            }
        }
        Ok(())
    }
}

/// Checks that no interval has more than the burst and the refill.
fn bucket(
    mut ideal: IdealBucket,
    mut spends: impl Iterator<Item = (u64, u64)>,
) -> Result<(), String> {
    let over = spends.find_map(|(at, units)| {
        let over = ideal.spend(at, units);
        (over > 0).then(|| format!("{over} units too many at {at}"))
    });
    over.map_or(Ok(()), Err)
}

fn window_of(
    limit: u64,
    window: &Window,
    starts: &BTreeSet<u64>,
    ahead: i64,
    spends: impl Iterator<Item = (u64, u64)>,
) -> Result<(), String> {
    let mut used: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, units) in spends {
        let server = at.checked_add_signed(ahead).unwrap();
        let start = match window {
            Window::Aligned(length) => server - server % Span::from(*length).as_micros(),
            Window::FirstAdmitted(length) => {
                let start = starts.range(..=server).next_back().copied();
                start
                    .filter(|start| server < start + Span::from(*length).as_micros())
                    .ok_or_else(|| format!("{units} units were spent at {at} in no window"))?
            }
            _ => unreachable!("no limit here has one"),
        };
        let used = used.entry(start).or_default();
        *used += units;
        if *used > limit {
            return Err(format!("{used} of {limit} in the window from {start}, at {at}"));
        }
    }
    Ok(())
}
