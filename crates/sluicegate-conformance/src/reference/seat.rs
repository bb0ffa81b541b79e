//! One policy while a request is evaluated, and the decision of all of them.

use sluicegate_core::{Algorithm, DeniedCharge, Enforcement, MAX_EXACT};

use super::{Named, PolicyAnswer, Refusal, Retry};
use crate::algorithms::{Account, Patience, Report, Verdict};

/// One policy while a request is evaluated.
pub(super) struct Seat<'a> {
    pub(super) named: &'a Named,
    pub(super) account: Box<dyn Account>,
    pub(super) at: u64,
    pub(super) units: u64,
    /// The units that it was charged, except for a denial.
    pub(super) taken: u64,
    /// The slot in which they are held.
    pub(super) slot: Option<u64>,
    pub(super) restamped: bool,
    pub(super) verdict: Verdict,
}

impl Seat<'_> {
    pub(super) fn algorithm(&self) -> &Algorithm {
        self.named.policy.algorithm()
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.named.policy.enforcement() == Enforcement::Shadow
    }
}

/// A decision, without its policies.
pub(super) struct Outcome {
    pub(super) allowed: bool,
    pub(super) binding: Option<usize>,
    pub(super) wait_us: u64,
    pub(super) retry: Retry,
    pub(super) granted: Option<u64>,
}

impl Outcome {
    pub(super) const ALLOWED: Self =
        Self { allowed: true, binding: None, wait_us: 0, retry: Retry::Now, granted: None };
}

/// Evaluates every policy whose cost isn't 0.
pub(super) fn judge_all(seats: &mut [Seat<'_>], patience: Patience) -> Result<Outcome, Refusal> {
    for seat in seats.iter_mut().filter(|seat| seat.units > 0) {
        seat.verdict = judge(seat, patience)?;
    }
    Ok(outcome(seats))
}

/// Charges all policies or none, once all are evaluated.
pub(super) fn charge_all(seats: &mut [Seat<'_>], outcome: &Outcome) -> Result<(), Refusal> {
    for seat in seats.iter_mut().filter(|seat| seat.units > 0) {
        // A shadow policy uses its own verdict and wait, as if it were alone.
        let is_in_flight = matches!(seat.algorithm(), Algorithm::Concurrency { .. });
        let (allowed, wait_us) = if seat.is_shadow() {
            // A denied request takes no permits, regardless of a shadow's verdict.
            let may_be = outcome.allowed || !is_in_flight;
            (may_be && seat.verdict.admitted(), seat.verdict.wait_us)
        } else {
            (outcome.allowed, outcome.wait_us)
        };
        let algorithm = seat.named.policy.algorithm();
        if allowed {
            seat.account.admit(algorithm, seat.at, seat.units, wait_us)?;
            seat.taken = seat.units;
        } else {
            match seat.named.policy.denied_charge() {
                DeniedCharge::Charged => {
                    seat.account.charge_denied(algorithm, seat.at, seat.units)?;
                }
                DeniedCharge::Counted => {
                    seat.account.count_denied(algorithm, seat.at, seat.units)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Takes the largest cost up to the requested one that every enforced policy admits. A shadow
/// grants its own. If no unit is free, evaluates the request for a single unit.
pub(super) fn take(seats: &mut [Seat<'_>]) -> Result<Outcome, Refusal> {
    let asked = seats.iter().map(|seat| seat.units).max().unwrap_or_default();
    let mut granted: Option<u64> = None;
    for seat in seats.iter_mut().filter(|seat| seat.units > 0) {
        let most = seat.account.report(seat.named.policy.algorithm(), seat.at)?.remaining;
        seat.units = most.map_or(seat.units, |most| most.min(seat.units)).max(1);
        let own = if most == Some(0) { 0 } else { seat.units };
        seat.verdict = judge(seat, Patience::Plain)?;
        assert_eq!(own > 0, seat.verdict.admitted(), "{own} remain: {:?}", seat.named);
        if !seat.is_shadow() {
            granted = Some(granted.map_or(own, |granted| granted.min(own)));
        }
    }
    // Without an enforced policy nothing limits the request.
    let granted = granted.unwrap_or(asked);
    for seat in seats.iter_mut().filter(|seat| seat.units > 0 && !seat.is_shadow()) {
        seat.units = granted.max(1);
        seat.verdict = judge(seat, Patience::Plain)?;
    }
    let outcome = outcome(seats);
    assert_eq!(outcome.allowed, granted > 0 || asked == 0, "{granted} units to grant");
    charge_all(seats, &outcome)?;
    Ok(Outcome { granted: Some(granted), ..outcome })
}

/// Returns the combined verdict of the enforced policies. The longest retry-after binds. If
/// several are as long, the first one does.
pub(super) fn outcome(seats: &[Seat<'_>]) -> Outcome {
    let mut outcome = Outcome::ALLOWED;
    for (index, seat) in seats.iter().enumerate().filter(|(_, seat)| !seat.is_shadow()) {
        outcome.wait_us = outcome.wait_us.max(seat.verdict.wait_us);
        if seat.verdict.retry > outcome.retry {
            outcome.retry = seat.verdict.retry;
            outcome.binding = Some(index);
            outcome.allowed = false;
        }
    }
    if !outcome.allowed {
        outcome.wait_us = 0;
    }
    outcome
}

/// Returns the verdict, and checks that its retry-after is sufficient and minimal.
fn judge(seat: &Seat<'_>, patience: Patience) -> Result<Verdict, Refusal> {
    let Seat { account, at, units, .. } = seat;
    let (at, units) = (*at, *units);
    let verdict = account.judge(seat.algorithm(), at, units, patience)?;
    if let Retry::After(after) = verdict.retry
        && at + after <= MAX_EXACT
    {
        let passes =
            |at| account.judge(seat.algorithm(), at, units, patience).map(|then| then.admitted());
        assert!(
            after > 0 && passes(at + after)?,
            "{units} don't pass after {after} us: {account:?}"
        );
        let may_pass = account.may_pass_sooner(at) || !passes(at + after - 1)?;
        assert!(may_pass, "{units} pass before {after} us: {account:?}");
    }
    Ok(verdict)
}

pub(super) fn report(seat: &Seat<'_>) -> Result<PolicyAnswer, Refusal> {
    let Report { limit, remaining, reset, current_slice, used } =
        seat.account.report(seat.algorithm(), seat.at)?;
    let Verdict { wait_us, retry, violated } = seat.verdict.clone();
    Ok(PolicyAnswer {
        admitted: retry == Retry::Now,
        limit,
        remaining,
        wait_us,
        retry,
        reset,
        violated,
        current_slice,
        used,
        restamped: seat.restamped,
    })
}
